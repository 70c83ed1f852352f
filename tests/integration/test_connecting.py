"""Every way in which a cluster cannot be reached has a reason of its own, one sentence, and an end in time."""

import asyncio
import contextlib
import os
import struct
import time
from pathlib import Path

import psycopg
import pytest
from support.fakes import fake_server
from support.proxy import proxy_to
from support.servers import TestServer, make_server
from support.watching import source_on

from watchdog.core.observed.reasons import Reason
from watchdog.demo.guardian import Guardian
from watchdog.errors import ReadError
from watchdog.postgres.password import Password


async def refused(dsn: str, *, timeout: float = 3.0, **more: object) -> ReadError:
    with source_on(dsn, timeout=timeout, **more) as source, pytest.raises(ReadError) as caught:  # type: ignore[arg-type]  # passed on
        await source.census()
    assert "\n" not in str(caught.value)
    return caught.value


async def test_nobody_listens() -> None:
    assert (await refused("host=127.0.0.1 port=1 user=x")).reason is Reason.UNREACHABLE


async def test_a_name_that_does_not_exist() -> None:
    error = await refused("host=no-such-host.invalid user=x")
    assert error.reason is Reason.NAME_LOOKUP
    assert "no-such-host.invalid" in str(error)


async def test_a_wrong_password_is_named_as_such_whatever_language_the_server_speaks(server: TestServer) -> None:
    error = await refused(f"{server.embedded.dsn(role='web_app')} password=wrong")
    assert error.reason is Reason.AUTHENTICATION
    assert "wrong" not in str(error)
    assert "pg_hba.conf" in str(error)


async def test_a_database_that_does_not_exist(server: TestServer) -> None:
    assert (await refused(server.dsn(database="nowhere"))).reason is Reason.NO_DATABASE


async def test_a_refusal_is_traced_once_and_remembered(server: TestServer) -> None:
    with source_on(server.dsn(database="nowhere")) as source:
        for _ in range(3):
            with pytest.raises(ReadError) as caught:
                await source.census()
            assert caught.value.reason is Reason.NO_DATABASE
        assert list(source._dialer.refusals.values()) == ["3D000"]


async def test_all_connections_taken_and_those_reserved_on_16_and_later(guardian: Guardian, server: TestServer) -> None:
    has_reserved = server.major >= 16
    few = {"max_connections": "5", "superuser_reserved_connections": "1" if has_reserved else "2"}
    full = make_server(guardian=guardian, settings={**few, **({"reserved_connections": "1"} if has_reserved else {})})
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(psycopg.connect(full.dsn("web_app")))
        error = await refused(full.dsn("web_app"))
        assert error.reason is Reason.TOO_MANY_CONNECTIONS
        assert "pg_use_reserved_connections" in str(error)
        if has_reserved:
            full.run("GRANT pg_use_reserved_connections TO pgwatchdog")
            with source_on(full) as source:
                assert (await source.census()).connections_used >= 4
    full.embedded.stop()


async def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time() -> None:
    async with fake_server(lambda _: asyncio.sleep(60)) as port:
        begun = time.monotonic()
        error = await refused(f"host=127.0.0.1 port={port} user=x sslmode=disable", timeout=0.5)
    assert error.reason is Reason.TIMEOUT
    assert time.monotonic() - begun < 2.5


async def test_a_server_older_than_14_is_refused_politely() -> None:
    async with fake_server(_say_13) as port:
        error = await refused(f"host=127.0.0.1 port={port} user=x sslmode=disable")
    assert error.reason is Reason.UNSUPPORTED_VERSION
    assert "13.18" in str(error)
    assert "14 is the oldest" in str(error)


async def test_the_second_host_is_tried_when_the_first_is_dead(server: TestServer) -> None:
    async with fake_server(lambda _: asyncio.sleep(60)) as silent:
        hosts = f"host=127.0.0.1,127.0.0.1 port={silent},{server.embedded.port}"
        rest = f"user=pgwatchdog dbname=postgres password={server.embedded.password}"
        with source_on(f"{hosts} {rest}", timeout=2.0) as source:
            assert (await source.census()).version.startswith(f"{server.major}.")


@pytest.mark.parametrize("form", ["url", "service", "keywords", "environment"])
async def test_every_form_of_connection_string(server: TestServer, tmp_path: Path, form: str) -> None:
    port, password = server.embedded.port, server.embedded.password
    service = tmp_path / "services.conf"
    service.write_text(
        f"# ours\n[watched]\nhost=localhost\nport={port}\nuser=pgwatchdog\ndbname=postgres\npassword={password}\n"
    )
    env = {**os.environ, "PGSERVICEFILE": str(service)}
    dsn = {
        "url": f"postgresql://pgwatchdog:{password}@localhost:{port}/postgres?connect_timeout=5",
        "service": "service=watched",
        "keywords": server.dsn(),
        "environment": f"port={port} user=pgwatchdog dbname=postgres password={password}",
    }[form]
    if form == "environment":
        env["PGHOST"] = "127.0.0.1"
    with source_on(dsn, env=env) as source:
        assert (await source.census()).version.startswith(f"{server.major}.")


async def test_a_service_that_is_in_no_file_says_where_it_was_looked_for() -> None:
    error = await refused("service=missing", env={"HOME": "/nonexistent"})
    assert error.reason is Reason.CONFIGURATION
    assert "/nonexistent/.pg_service.conf" in str(error)


async def test_the_password_is_read_anew_at_every_connect(server: TestServer, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old\n")
    with source_on(server.embedded.dsn(role="pgwatchdog"), password=Password(file=file)) as source:
        with pytest.raises(ReadError) as caught:
            await source.census()
        assert caught.value.reason is Reason.AUTHENTICATION
        file.write_text(f"{server.embedded.password}\n")
        await source.census()


async def test_a_password_file_that_is_missing_and_a_command_that_fails_say_so(server: TestServer) -> None:
    dsn = server.embedded.dsn(role="pgwatchdog")
    missing = await refused(dsn, password=Password(file=Path("/nonexistent/secret")))
    assert (missing.reason, "/nonexistent/secret" in str(missing)) == (Reason.CONFIGURATION, True)
    failing = await refused(dsn, password=Password(command=("false",)))
    assert (failing.reason, "exit code 1" in str(failing)) == (Reason.CONFIGURATION, True)
    absent = await refused(dsn, password=Password(command=("/nonexistent/tool",)))
    assert absent.reason is Reason.CONFIGURATION
    hanging = await refused(dsn, password=Password(command=("sleep", "60"), command_timeout=0.5))
    assert (hanging.reason, "no end within" in str(hanging)) == (Reason.CONFIGURATION, True)


async def test_a_password_command_gives_the_password(server: TestServer) -> None:
    command = ("echo", server.embedded.password)
    with source_on(server.embedded.dsn(role="pgwatchdog"), password=Password(command=command)) as source:
        await source.census()


async def test_a_frozen_link_costs_the_deadline_and_no_more(server: TestServer) -> None:
    async with proxy_to(server.embedded.port) as proxy:
        dsn = f"{server.dsn()} port={proxy.port}"
        with source_on(dsn, timeout=0.5) as source:
            await source.census()
            proxy.stall()
            begun = time.monotonic()
            with pytest.raises(ReadError) as caught:
                await source.snapshot()
            assert caught.value.reason is Reason.TIMEOUT
            assert time.monotonic() - begun < 2.5


async def test_a_cancelled_look_at_a_frozen_server_ends_at_once(server: TestServer) -> None:
    async with proxy_to(server.embedded.port) as proxy:
        with source_on(f"{server.dsn()} port={proxy.port}", timeout=60) as source:
            await source.census()
            proxy.stall()
            look = asyncio.create_task(source.snapshot())
            await asyncio.sleep(0.1)
            begun = time.monotonic()
            look.cancel()
            with pytest.raises(asyncio.CancelledError):
                await look
            assert time.monotonic() - begun < 1


async def test_after_a_lost_connection_the_next_call_opens_a_new_one(server: TestServer) -> None:
    async with proxy_to(server.embedded.port) as proxy:
        with source_on(f"{server.dsn()} port={proxy.port}") as source:
            await source.census()
            proxy.drop()
            with pytest.raises(ReadError) as caught:
                await source.snapshot()
            assert caught.value.reason is Reason.CONNECTION_LOST
            source.close()
            await source.snapshot()


async def test_a_session_that_the_server_has_ended_is_a_lost_connection(server: TestServer) -> None:
    with source_on(server) as source:
        await source.census()
        server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgwatchdog'")
        with pytest.raises(ReadError) as caught:
            await source.snapshot()
        assert caught.value.reason is Reason.CONNECTION_LOST


async def _say_13(writer: asyncio.StreamWriter) -> None:
    def message(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!I", len(body) + 4) + body

    writer.write(
        message(b"R", struct.pack("!I", 0))
        + message(b"S", b"server_version\x0013.18\x00")
        + message(b"K", struct.pack("!II", 1, 1))
        + message(b"Z", b"I")
    )
    await writer.drain()
    await asyncio.sleep(60)
