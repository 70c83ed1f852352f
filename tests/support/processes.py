"""Runs the command `pgwatchdog` as a process, and sends HTTP requests to it."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.servers import until
from watchdog.demo.guardian import Guardian

COMMAND = (sys.executable, "-m", "watchdog.cli")


@dataclass(frozen=True, slots=True)
class Answer:
    """The status and the body of an HTTP response."""

    status: int
    text: str


def get(url: str, *, data: bytes | None = None, origin: str | None = None) -> Answer:
    """`origin` is the site of the page from which a browser sends the request."""
    request = urllib.request.Request(url, data=data, headers={} if origin is None else {"Origin": origin})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return Answer(response.status, response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode())


def get_json(url: str) -> Any:  # any JSON value
    return json.loads(get(url).text)


def command(
    *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `pgwatchdog` to its end, with 80 columns and without colours."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=timeout, env=environment(env)
    )


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PGWATCHDOG_", "PG"))}
    return {**clean, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1", **(env or {})}


@dataclass(slots=True)
class DaemonProcess:
    """A running `pgwatchdog run`."""

    process: subprocess.Popen[str]
    log: Path
    address: str = ""

    def lines(self) -> list[dict[str, Any]]:  # JSON values
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:  # as above
        return [line for line in self.lines() if line["event"] == name]

    def metrics(self) -> dict[str, float]:
        return samples(get(f"{self.address}metrics").text)

    def stop(self, *, timeout: float = 10.0) -> int:
        self.process.terminate()
        return self.process.wait(timeout=timeout)


@contextmanager
def daemon_process(
    folder: Path, *, guardian: Guardian, config: str | None, env: Mapping[str, str] | None = None
) -> Iterator[DaemonProcess]:
    """A daemon on a free port. It listens when the block begins, and is killed when the block ends."""
    log = folder / "daemon.log"
    arguments = ["run", "--log.format", "json", "--web.listen-address", "127.0.0.1:0"]
    if config is not None:
        file = folder / "pgwatchdog.yaml"
        file.write_text(config)
        arguments += ["-c", str(file)]
    with log.open("w") as out:
        process = subprocess.Popen([*COMMAND, *arguments], stderr=out, stdout=out, text=True, env=environment(env))
    guardian.mind_process(process.pid)
    daemon = DaemonProcess(process, log)
    try:
        until(lambda: daemon.events("listening") or process.poll() is not None, what="the daemon's address")
        assert process.poll() is None, log.read_text()
        daemon.address = daemon.events("listening")[0]["address"]
        yield daemon
    finally:
        process.kill()
        process.wait()


def samples(text: str) -> dict[str, float]:
    """The values of an exposition by `name{labels}`."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found
