"""The password of one cluster: from a file or a command, read anew at every connect, so a rotation needs no restart.

A command has a deadline of its own: it may have to ask a service that takes longer than a poll may.
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
"""Seconds that a command may take."""

FAREWELL = 0.3
"""Seconds that a killed command has to be gone, and the last of what it says to arrive."""

MIN_WORD = 4
"""Characters from which on a word of the output is taken for a secret by itself."""

MAX_OUTPUT = 65_536
"""Bytes that a command may print."""

MAX_SAID = 4096
"""Bytes of what a command says on standard error that are kept, the last ones."""


@dataclass(frozen=True, slots=True)
class Password:
    """Where the password comes from; neither: the connection string or libpq's own means provide it."""

    file: Path | None = None
    command: tuple[str, ...] | None = None
    command_timeout: float = COMMAND_TIMEOUT
    _reader: ThreadCall = field(default_factory=ThreadCall, compare=False)

    async def read(self, *, timeout: float, secrets: Collection[str | None] = ()) -> str | None:
        """The password, or None where it comes from elsewhere.

        `timeout` (seconds) is for a file. `secrets` are taken out of what a command says.

        Raises:
            ReadError: the file or the command gives none.

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
    """What a command has printed: the whole of it, and its words, since it may be more than the password."""
    return [output.strip(), *(word for word in output.split() if len(word) >= MIN_WORD)]


async def _run(command: tuple[str, ...], *, out: "_Pipe", err: "_Pipe", timeout: float) -> str | None:
    """Run a command to its end; why it has failed, or None."""
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
    """End the command, or what it has left behind with its output still open."""
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
    """A pipe that a command writes to, read as it comes. Keeps the first bytes or the last, up to `limit`."""

    limit: int
    keeps_last: bool
    writer: int
    kept: bytearray = field(default_factory=bytearray)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    overflown: bool = False

    @property
    def text(self) -> str:
        """What was kept; not the rest of a word whose beginning was not, which may be the rest of a secret."""
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
    """A pipe of our own: a child that a command leaves behind may hold it open, and then it is closed here."""
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
