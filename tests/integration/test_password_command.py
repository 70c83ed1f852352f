"""A password command: its own deadline, its end, and what is shown of its last words."""

import asyncio
from pathlib import Path

import pytest
from support.servers import TestServer, until
from support.watching import source_on

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.postgres.password import COMMAND_TIMEOUT, MAX_OUTPUT, MAX_SAID, Password


async def failure(script: str, *, secrets: tuple[str, ...] = ()) -> str:
    password = Password(command=("sh", "-c", script), command_timeout=2.0)
    with pytest.raises(ReadError) as caught:
        await password.read(timeout=0.1, secrets=secrets)
    assert caught.value.reason is Reason.CONFIGURATION
    return str(caught.value)


async def test_a_command_may_take_longer_than_a_poll(server: TestServer) -> None:
    slow = Password(command=("sh", "-c", f"sleep 1.2; echo {server.embedded.password}"))
    assert slow.command_timeout == COMMAND_TIMEOUT == 15
    with source_on(server.embedded.dsn(role="pgwatchdog"), password=slow, timeout=1.0) as source:
        await source.census()


async def test_a_look_that_is_cancelled_ends_a_hanging_command_and_its_children(tmp_path: Path) -> None:
    written = tmp_path / "child"
    script = f"sleep 60 & echo $! > {written}.new; mv {written}.new {written}; wait"
    with source_on("host=127.0.0.1 user=x", password=Password(command=("sh", "-c", script))) as source:
        look = asyncio.create_task(source.census())
        await asyncio.to_thread(until, written.exists)
        look.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(2):
                await look
    until(lambda: _has_ended(int(written.read_text())), what="the end of the child")


async def test_a_child_that_holds_the_output_open_is_ended_at_the_deadline(tmp_path: Path) -> None:
    written = tmp_path / "child"
    assert await failure(f"sleep 60 & echo $! > {written}") == "password_command: no end within 2 s"
    until(lambda: _has_ended(int(written.read_text())), what="the end of the child")


async def test_a_child_that_only_holds_the_error_output_open_is_not_waited_for() -> None:
    agent = Password(command=("sh", "-c", "sleep 30 >/dev/null & echo word"), command_timeout=60.0)
    async with asyncio.timeout(10):
        assert await agent.read(timeout=0.1) == "word"


async def test_the_last_line_on_standard_error_is_shown_on_one_line() -> None:
    assert await failure("echo one >&2; echo 'sealed\033[31m' >&2; echo >&2; exit 2") == (
        "password_command: exit code 2: sealed\\x1b[31m"
    )
    assert await failure("exit 2") == "password_command: exit code 2"
    assert await failure("echo 'asks for a second factor' >&2; exec sleep 60") == (
        "password_command: no end within 2 s: asks for a second factor"
    )


async def test_secrets_are_taken_out_of_what_a_command_says() -> None:
    said = await failure("echo hunter2; echo 'hunter2 and horse are refused' >&2; exit 1", secrets=("horse",))
    assert said == "password_command: exit code 1: *** and *** are refused"
    assert (
        await failure("echo 'refused: db-token-0a1b2c3d4e' >&2; exit 1")
        == "password_command: exit code 1: refused: ***"
    )


async def test_a_command_that_floods_is_bounded() -> None:
    assert await failure("yes") == f"password_command: it prints more than {MAX_OUTPUT} bytes"
    long = await failure("yes long | head -c 100000 | tr '\\n' ' ' >&2; exit 1")
    assert len(long) < 250
    cut = await failure(f"head -c {2 * MAX_SAID} /dev/zero | tr '\\0' s >&2; exit 1")
    assert cut == "password_command: exit code 1", "the rest of one long word may be the rest of a secret"


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
