"""Runs a Prometheus server or another program for the length of a block, and a webhook that stores what it receives."""

import json
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.processes import get, get_json
from support.servers import until
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port


@contextmanager
def running(command: list[str], *, guardian: Guardian) -> Iterator[None]:
    """A program that runs for as long as the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    guardian.mind_process(process.pid)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def running_prometheus(
    binary: str, address: str, *, folder: Path, guardian: Guardian, more: dict[str, Any] | None = None
) -> Iterator[str]:
    """A Prometheus server that scrapes the daemon at `address`. Yields the URL of the Prometheus server."""
    port = free_port()
    target = urllib.parse.urlsplit(address).netloc
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "scrape_configs": [{"job_name": "pgwatchdog", "static_configs": [{"targets": [target]}]}],
        **(more or {}),
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    command = [
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--rules.alert.resend-delay=1s",  # because the first alert may be sent before its receivers are known
    ]
    with running(command, guardian=guardian):
        base = f"http://127.0.0.1:{port}"
        until(lambda: _answers(f"{base}/-/ready"), what="Prometheus")
        yield base


@contextmanager
def webhook(received: list[dict[str, Any]]) -> Iterator[str]:
    """A webhook that appends each posted JSON document to `received`. Yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that BaseHTTPRequestHandler requires
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}/"
        httpd.shutdown()


def query(base: str, expression: str) -> list[dict[str, str]]:
    """The label sets that an instant query returns."""
    answer = get_json(f"{base}/api/v1/query?query={urllib.parse.quote(expression)}")
    return [each["metric"] for each in answer["data"]["result"]]


def _answers(url: str) -> bool:
    try:
        return get(url).status == 200
    except OSError:
        return False
