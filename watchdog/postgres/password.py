"""The password of one cluster, from a file or from the output of a command.

It is read at every connect, so that a new password needs no restart.
"""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.threads import ThreadCall

FAREWELL = 0.3
"""Seconds to wait for a killed command to exit."""


@dataclass(frozen=True, slots=True)
class Password:
    """Where the password comes from: `file` or `command`.

    If neither is set, the connection string or libpq's own sources provide it.
    """

    file: Path | None = None
    command: tuple[str, ...] | None = None
    _reader: ThreadCall = field(default_factory=ThreadCall, compare=False)

    async def read(self, *, timeout: float) -> str | None:
        """The password, or None if it comes from neither a file nor a command.

        Raises:
            ReadError: the file or the command gives no password within `timeout` seconds.

        """
        if self.file is not None:
            return await self._from_file(self.file, timeout=timeout)
        if self.command is not None:
            return await _from_command(self.command, timeout=timeout)
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


async def _from_command(command: tuple[str, ...], *, timeout: float) -> str:
    what = f"password_command {command[0]}"
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # not read, because it may contain the secret
            start_new_session=True,
        )
    except OSError as error:
        raise _failure(f"{what}: {error.strerror}") from error
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise _failure(f"{what}: no end within {timeout:g} s") from error
    finally:
        await _end(process)
    if process.returncode:
        raise _failure(f"{what}: exit code {process.returncode}")
    return output.decode(errors="replace").rstrip("\r\n")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the command if it still runs, and its children with it.

    Without that, a child could hold the output pipe open, and the pipe would be waited for.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await process.wait()


def _failure(text: str) -> ReadError:
    return ReadError(Reason.CONFIGURATION, text)
