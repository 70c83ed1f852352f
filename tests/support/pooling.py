"""A PgBouncer in front of a test's server."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from support.servers import TestServer, until
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port, server_identity


@contextmanager
def pgbouncer(
    binary: str, server: TestServer, *, guardian: Guardian, folder: Path, mode: str, extra: str = ""
) -> Iterator[int]:
    """A running PgBouncer in front of `server`. Yields its port. `mode` is session or transaction."""
    port = free_port()
    password = server.embedded.password
    users = folder / "users.txt"
    users.write_text("".join(f'"{role}" "{password}"\n' for role in ("web_app", "etl_app", "pgwatchdog")))
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.embedded.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = plain\nauth_file = {users}\npool_mode = {mode}\n"
        f"default_pool_size = 2\nignore_startup_parameters = extra_float_digits,options\n{extra}\n"
    )
    folder.chmod(0o755)
    for file in (users, config):
        file.chmod(0o644)
    process = subprocess.Popen(
        [binary, "-q", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **server_identity(),  # type: ignore[call-overload]  # mypy cannot match the overloads
    )
    guardian.mind_process(process.pid)

    def answers() -> bool:
        with suppress(psycopg.Error), psycopg.connect(pooled_dsn(server, port), connect_timeout=2):
            return True
        return False

    try:
        until(answers, what="the pooler")
        yield port
    finally:
        process.kill()
        process.wait()


def pooled_dsn(server: TestServer, port: int, *, role: str = "web_app") -> str:
    """A connection string through the pooler."""
    return f"host=127.0.0.1 port={port} user={role} dbname=postgres password={server.embedded.password}"
