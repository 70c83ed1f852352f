"""Callers as separate processes, which a test may kill."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from support.servers import TestServer


@contextmanager
def killable(server: TestServer, sql: str, *, options: str = "", commit: bool = True) -> Iterator[tuple[int, int]]:
    """A client process that runs a statement and then stays connected. Yields its pid and the pid of its backend.

    Without `commit` it stays in the transaction.
    """
    script = (
        "import psycopg, sys, time\n"
        "c = psycopg.connect(sys.argv[1], autocommit=sys.argv[3] == '1')\n"
        "print(c.info.backend_pid, flush=True)\n"
        "c.execute(sys.argv[2]); time.sleep(600)\n"
    )
    dsn = psycopg.conninfo.make_conninfo(server.dsn("web_app"), options=options)
    arguments = [sys.executable, "-c", script, dsn, sql, "1" if commit else "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        backend = int(process.stdout.readline())
        try:
            yield process.pid, backend
        finally:
            process.kill()
