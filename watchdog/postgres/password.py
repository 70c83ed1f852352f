"""The password of one cluster, from a file or from the output of a command.

It is read at every connect, so that a new password needs no restart. A command has its own deadline, because it may
have to ask a service that takes longer than a poll.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.redact import last_line, redacted
from watchdog.threads import ThreadCall

COMMAND_TIMEOUT = 15.0
"""Deadline of a command, in seconds."""

FAREWELL = 0.3
"""Seconds to wait for a killed command to exit, and for the rest of its standard error."""

MIN_WORD = 4
"""Length in characters from which a single word of the output counts as a secret."""

MAX_OUTPUT = 65_536
"""Maximum size of the output of a command, in bytes."""

MAX_SAID = 4096
"""The last bytes of standard error that are kept."""


@dataclass(frozen=True, slots=True)
class Password:
    """Where the password comes from: `file` or `command`.

    If neither is set, the connection string or libpq's own sources provide it.
    """

    file: Path | None = None
    command: tuple[str, ...] | None = None
    command_timeout: float = COMMAND_TIMEOUT
    _reader: ThreadCall = field(default_factory=ThreadCall, compare=False)

    async def read(self, *, timeout: float, secrets: Collection[str | None] = ()) -> str | None:
        """The password, or None if it comes from neither a file nor a command.

        `timeout` (seconds) is the deadline for a file. `secrets` are removed from the standard error of a command.

        Raises:
            ReadError: the file or the command gives no password within its deadline.

        """
        if self.file is not None:
            return await self._from_file(self.file, timeout=timeout)
        if self.command is not None:
            return await _from_command(self.command, timeout=self.command_timeout, secrets=secrets)
        return None

    async def _from_file(self, file: Path, *, timeout: float) -> str:
        try:
            text = await self._reader.run(lambda: file.read_text(encoding="utf-8"), timeout=timeout)
        except TimeoutError as error:
            raise _failure(f"password_file {file} was not read within {timeout:g} s") from error
        except (OSError, UnicodeDecodeError) as error:
            what = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise _failure(f"password_file {file} cannot be read: {what}") from error
        return text.rstrip("\r\n")


async def _from_command(command: tuple[str, ...], *, timeout: float, secrets: Collection[str | None]) -> str:
    try:
        async with _pipe(MAX_OUTPUT, keeps_last=False) as out, _pipe(MAX_SAID, keeps_last=True) as err:
            failure = await _run(command, out=out, err=err, timeout=timeout)
            if failure is None:
                return out.text.rstrip("\r\n")
            await _wait(err.ended, timeout=FAREWELL)
            said = redacted(last_line(err.text), (*secrets, *_secrets(out.text)))
    except OSError as error:
        raise _failure(f"password_command: it cannot be run: {error.strerror}") from error
    raise _failure(f"password_command: {failure}" + (f": {said}" if said else ""))


def _secrets(output: str) -> list[str]:
    """The whole output of a command, and its single words: it may have printed more than the password."""
    return [output.strip(), *(word for word in output.split() if len(word) >= MIN_WORD)]


async def _run(command: tuple[str, ...], *, out: "_Pipe", err: "_Pipe", timeout: float) -> str | None:
    """Run a command. Returns why it failed, or None."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=out.writer, stderr=err.writer, start_new_session=True
    )
    out.close_writer()
    err.close_writer()
    try:
        async with asyncio.timeout(timeout):
            await out.ended.wait()
            if out.overflown:
                return f"it prints more than {MAX_OUTPUT} bytes"
            await process.wait()
    except TimeoutError:
        return f"no end within {timeout:g} s"
    finally:
        await _end(process, out)
    return f"exit code {process.returncode}" if process.returncode else None


async def _end(process: asyncio.subprocess.Process, out: "_Pipe") -> None:
    """Kill the command if it still runs, and the children that hold its output open."""
    if process.returncode is None or not out.ended.is_set():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await _wait(process, timeout=FAREWELL)


async def _wait(what: "asyncio.subprocess.Process | asyncio.Event", *, timeout: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await what.wait()


@dataclass(slots=True, kw_only=True)
class _Pipe(asyncio.Protocol):
    """A pipe that a command writes to. Keeps the first or the last `limit` bytes."""

    limit: int
    keeps_last: bool
    writer: int
    kept: bytearray = field(default_factory=bytearray)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    overflown: bool = False

    @property
    def text(self) -> str:
        """The bytes kept, as text. A word without its beginning is left out, because it may be a part of a secret."""
        text = self.kept.decode(errors="replace")
        return re.sub(r"^\S+", "", text) if self.keeps_last and self.overflown else text

    def data_received(self, data: bytes) -> None:
        self.kept += data
        if len(self.kept) > self.limit:
            self.overflown = True
            del self.kept[slice(-self.limit) if self.keeps_last else slice(self.limit, None)]
            if not self.keeps_last:
                self.ended.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.ended.set()

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1


@contextlib.asynccontextmanager
async def _pipe(limit: int, *, keeps_last: bool) -> AsyncIterator[_Pipe]:
    """A pipe whose reading end is closed here: a child that the command leaves behind may hold the other end open."""
    reading, writing = os.pipe()
    pipe = _Pipe(limit=limit, keeps_last=keeps_last, writer=writing)
    with os.fdopen(reading, "rb", buffering=0) as reader:
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: pipe, reader)
            try:
                yield pipe
            finally:
                transport.close()
        finally:
            pipe.close_writer()


def _failure(text: str) -> ReadError:
    return ReadError(Reason.CONFIGURATION, text)
