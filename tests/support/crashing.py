"""A daemon that kills itself at a named point, the callers that it watches, and the server's log of what was done.

Run as `python -m support.crashing` it is a nest: a process that has imported everything and forks a daemon for each
line of JSON on standard input, one after the other. The line names a configuration file, a log file, POINT and
COUNT. The daemon sends itself SIGKILL when it reaches POINT for the COUNT-th time. The product has no hooks for that.
Its methods are wrapped in that process.
"""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from support.imitation import ENFORCE
from support.ledgers import rows
from support.processes import environment
from support.servers import PATIENCE, TestServer, until
from watchdog.cli import assembly, configuration
from watchdog.core.acting.acts import ActResult
from watchdog.demo.guardian import Guardian
from watchdog.ledger.writer import Writer
from watchdog.logs import Format, Level, configure_logs
from watchdog.postgres.source import PostgresSource

POINTS = ("before_intent", "after_intent", "before_signal", "after_signal", "before_outcome", "after_outcome")
NOT_SIGNALLED = {"gone", "moved_on", "protected", "not_tried", "not_permitted"}
LOGGED = re.compile(r"/\* pgwatchdog act (\w+) \*/")
CANCELLED = re.compile(r"\[(\d+)\] ERROR: +canceling statement due to user request")

LASTS = 6
"""Seconds that a query takes. That is far above its budget, and short enough that new queries begin often."""

STUBBORN = """
    DO $$ BEGIN LOOP
        BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END;
    END LOOP; END $$
"""
"""A statement that ignores every cancel."""

Call = Callable[..., Awaitable[Any]]  # a method of the product with any signature


# What is watched


@dataclass(slots=True)
class Callers:
    """Clients in one database that repeat their query. `stubborn` of them run a statement that ignores cancels."""

    dsn: str
    count: int = 4
    stubborn: int = 1
    cancelled: Counter[int] = field(default_factory=Counter)
    _connections: list["psycopg.Connection[tuple[object, ...]]"] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _over: bool = False

    def begin(self) -> None:
        for number in range(self.count + self.stubborn):
            connection = psycopg.connect(self.dsn, autocommit=True)
            sql = STUBBORN if number < self.stubborn else f"SELECT pg_sleep({LASTS})"
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._work, args=(connection, sql), daemon=True))
            self._threads[-1].start()

    def end(self, server: TestServer) -> None:
        """End the sessions and wait for the threads that use them."""
        self._over = True
        pids = [connection.info.backend_pid for connection in self._connections]
        server.value("SELECT count(pg_terminate_backend(pid, 5000)) FROM unnest(%s::int[]) AS pid", pids)
        for thread in self._threads:
            thread.join(timeout=20)
        for connection in self._connections:
            connection.close()

    def _work(self, connection: "psycopg.Connection[tuple[object, ...]]", sql: str) -> None:
        pid = connection.info.backend_pid
        while not self._over:
            try:
                connection.execute(sql.encode())
            except psycopg.errors.QueryCanceled:
                self.cancelled[pid] += 1
            except psycopg.Error:
                return


@dataclass(slots=True)
class Lane:
    """One database of a server with callers, a daemon that acts only in this database, and its ledger."""

    server: TestServer
    guardian: Guardian
    folder: Path
    database: str
    url: str
    callers: Callers
    nest: "Nest"
    starts: int = 0

    @property
    def config(self) -> str:
        return (
            "poll: {interval: 1s, census_interval: 2s, timeout: 1s}\n"
            'web: {listen: "127.0.0.1:0"}\n'
            f'clusters: [{{name: main, dsn: "{self.server.dsn("canceller", database=self.database)}", {ENFORCE},'
            f" lease_database: {self.database}}}]\n"
            "budgets: {grace: 0s, roles: {web_app: 1s}}\n"
            "policy:\n"
            "  mode: enforce\n"
            "  rules: [{name: orphans, finding: orphan, evidence: [over_budget],"
            f" databases: [{self.database}], action: cancel}}]\n"
            "  limits: {per_minute: 600, share: 1, pause: 0s, stop_after_failures: 1000}\n"
            f'ledger: {{url: "{self.url}"}}\n'
        )

    @contextmanager
    def daemon(self, point: str = "never", *, count: int = 1) -> Iterator["Mortal"]:
        """A daemon that kills itself at `point`. If it still lives at the end of the block, it is killed then."""
        self.starts += 1
        file = self.folder / "pgwatchdog.yaml"
        file.write_text(self.config)
        file.chmod(0o600)
        mortal = self.nest.hatch(file, log=self.folder / f"daemon-{self.starts}.log", point=point, count=count)
        self.guardian.mind_process(mortal.pid)
        try:
            yield mortal
        finally:
            mortal.send(signal.SIGKILL)
            mortal.wait()

    def acts(self) -> list[dict[str, Any]]:  # the rows have the types of the database
        """All acts in the ledger."""
        return rows(self.url)

    def open_acts(self) -> set[str]:
        """The ids of the acts that may have been signalled and have no outcome."""
        return {str(row["id"]) for row in self.acts() if _is_open(row)}


def _is_open(row: dict[str, Any]) -> bool:  # as above
    return row["outcome"] is None and row["result"] not in NOT_SIGNALLED


@contextmanager
def lane(server: TestServer, guardian: Guardian, *, folder: Path, name: str, url: str | None = None) -> Iterator[Lane]:
    """A lane with running callers. The ledger is a SQLite file unless `url` is given."""
    folder.mkdir()
    server.create_database(name)
    callers = Callers(server.dsn("web_app", database=name))
    nest = Nest.build()
    guardian.mind_process(nest.process.pid)
    one = Lane(server, guardian, folder, name, url or f"sqlite:///{folder}/ledger.db", callers, nest)
    try:
        callers.begin()
        yield one
    finally:
        callers.end(server)
        nest.process.kill()
        nest.process.communicate()
        server.run(f"DROP DATABASE {name} WITH (FORCE)")


# What the server has logged


@dataclass(frozen=True, slots=True)
class Performed:
    """The counts in the server's log: how often each act's statement was sent, how often each pid was cancelled."""

    sent: Counter[str]
    cancelled: Counter[int]


def performed(server: TestServer, *, since: int = 0) -> Performed:
    """Read the server's log from byte `since` on. The statements of the role `canceller` must be logged."""
    text = server.embedded.log.read_bytes()[since:].decode(errors="replace")
    return Performed(Counter(LOGGED.findall(text)), Counter(int(pid) for pid in CANCELLED.findall(text)))


@contextmanager
def statements_logged(server: TestServer) -> Iterator[int]:
    """Log the statements of the role `canceller`. Yields the size of the server's log at the beginning, in bytes."""
    server.run("ALTER ROLE canceller SET log_statement = 'all'")
    try:
        yield server.embedded.log.stat().st_size
    finally:
        server.run("ALTER ROLE canceller RESET log_statement")


def integrity(url: str) -> str:
    """The result of SQLite's integrity_check, or 'ok' for a ledger in PostgreSQL."""
    if make_url(url).drivername != "sqlite":
        return "ok"
    import sqlite3  # noqa: PLC0415

    with sqlite3.connect(str(make_url(url).database)) as connection:
        [word] = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return str(word)


# The daemons


@dataclass(slots=True)
class Nest:
    """A process that forks daemons, because imports are the most expensive part of a daemon's start."""

    process: "subprocess.Popen[bytes]"

    @classmethod
    def build(cls) -> "Nest":
        env = environment({"PYTHONPATH": str(Path(__file__).parent.parent)})
        command = [sys.executable, "-m", "support.crashing"]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=env))

    def hatch(self, config: Path, *, log: Path, point: str, count: int) -> "Mortal":
        """Start a daemon. The previous one must have ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(config), str(log), point, count]).encode() + b"\n")
        return Mortal(self, int(self.tells()), log)

    def tells(self) -> str:
        """The next line of the nest. The pipe is unbuffered, so that `has_told` sees every line not yet read."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    @property
    def has_told(self) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])


@dataclass(slots=True)
class Mortal:
    """A daemon that a nest has forked."""

    nest: Nest
    pid: int
    log: Path
    _status: int | None = None

    def poll(self) -> int | None:
        """The exit code of the daemon, or None while it lives."""
        if self._status is None and self.nest.has_told:
            self._status = int(self.nest.tells())
        return self._status

    def wait(self) -> int:
        try:
            until(lambda: self.poll() is not None, what="the daemon's end", timeout=2 * PATIENCE)
        except AssertionError as error:
            error.add_note(self.end_of_log)
            raise
        assert self._status is not None
        return self._status

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the daemon lives."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # because it may just have ended by itself
                os.kill(self.pid, number)

    def wait_for(self, event: str) -> None:
        """Wait until the daemon has logged an event."""
        until(lambda: self.has_logged(event) or self.poll() is not None, what=event)
        assert self.poll() is None, self.end_of_log

    def has_logged(self, event: str) -> bool:
        return self.log.exists() and f'"event": "{event}"' in self.log.read_text()

    @property
    def end_of_log(self) -> str:
        return self.log.read_text()[-3000:]


# The child


@dataclass(slots=True)
class Suicide:
    """Sends SIGKILL to this process when it reaches `point` for the `count`-th time."""

    point: str
    count: int
    come: int = 0

    def at(self, point: str) -> None:
        """Report that this process has reached a point."""
        if point == self.point:
            self.come += 1
            if self.come >= self.count:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: type, method: str, word: str, *, matters: Callable[..., bool] = lambda *_: True) -> None:
        """Wrap a method so that a point is reported before and after each call for which `matters` is true."""
        call: Call = getattr(owner, method)

        async def wrapped(*arguments: object, **named: object) -> object:
            counts = matters(*arguments[1:])
            if counts:
                self.at(f"before_{word}")
            answer = await call(*arguments, **named)
            if counts:
                self.at(f"after_{word}")
            return answer

        setattr(owner, method, wrapped)


def main(config: Path, point: str, count: int) -> None:
    """Run the daemon until the point is reached."""
    configure_logs(form=Format.JSON, level=Level.INFO)
    suicide = Suicide(point, count)
    suicide.around(Writer, "intend", "intent")
    suicide.around(PostgresSource, "cancel", "signal")
    suicide.around(Writer, "record", "outcome", matters=_has_answers)
    suicide.around(Writer, "recall", "recall")
    daemon = assembly.daemon(configuration.load_settings(config, env={}), reload=None)

    async def run() -> None:
        stop = asyncio.Event()
        daemon.handle_signals(stop)
        await daemon.run(stop=stop)

    asyncio.run(run())


def _has_answers(done: list[ActResult], *_: object) -> bool:
    return bool(done)


def nest() -> None:
    """Fork a daemon for each line of standard input. Print its pid, and its exit code once it has ended."""
    for line in sys.stdin:
        config, log, point, count = json.loads(line)
        child = os.fork()
        if child == 0:
            _be_a_daemon(Path(config), Path(log), point=point, count=count)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _be_a_daemon(config: Path, log: Path, *, point: str, count: int) -> None:
    status = 70
    try:
        with log.open("w") as out, open(os.devnull) as nothing:  # noqa: PTH123  # as a file descriptor
            os.dup2(nothing.fileno(), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        main(config, point, count)
        status = 0
    except BaseException:  # noqa: BLE001  # because this child must not return to the nest's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    nest()
