"""Plays the second part: an armed daemon, which is killed and reloaded meanwhile, on a server with labelled callers."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from support.crashing import NOT_SIGNALLED
from support.demos import public_directory
from support.imitation import ENFORCE
from support.ledgers import rows
from support.pooling import pgbouncer
from support.replicas import Replica, folder, replicas
from support.servers import TestServer, make_server, until

from truth.acts_callers import (
    BUDGET,
    DIGEST_BUDGET,
    GRACE,
    LOOP_BUDGET,
    POOLED_BUDGET,
    RETRY_GAP,
    STUBBORN_BUDGET,
    Arguments,
    Caller,
)
from truth.acts_log import SETTINGS, SWALLOWED, ServerLog, read_log
from watchdog.demo.guardian import Guardian

INTERVAL = 1.0
TRIES = 3
ACT = b"/* pgwatchdog act "
QUIET = 5.0
"""Seconds without an act after which a daemon is killed all the same."""

ROLES = """
    CREATE ROLE stubborn_app LOGIN PASSWORD '{password}';
    CREATE ROLE helper LOGIN PASSWORD '{password}';
    CREATE ROLE far_app LOGIN PASSWORD '{password}';
    GRANT helper TO web_app;
    GRANT CREATE ON SCHEMA public TO helper, web_app;
    CREATE TABLE written (n int);
    CREATE TABLE near_written (n int);
    GRANT ALL ON written TO web_app;
    GRANT ALL ON near_written TO far_app;
    CREATE EXTENSION postgres_fdw;
    CREATE VIEW slowly AS SELECT n FROM generate_series(1, 100) AS n, LATERAL pg_sleep(0.05 + 0 * n);
    GRANT SELECT ON slowly TO far_app;
    CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw
        OPTIONS (host '127.0.0.1', port '{port}', dbname 'postgres', application_name 'far %p');
    CREATE USER MAPPING FOR web_app SERVER loop OPTIONS (user 'far_app', password '{password}');
    CREATE FOREIGN TABLE far_slow (n int) SERVER loop OPTIONS (table_name 'slowly');
    CREATE FOREIGN TABLE far_written (n int) SERVER loop OPTIONS (table_name 'near_written');
    GRANT ALL ON far_slow, far_written TO web_app
"""
STUBBORN = f"""
    CREATE FUNCTION stubborn(seconds float8) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE ends timestamptz := clock_timestamp() + make_interval(secs => seconds);
    BEGIN
        WHILE clock_timestamp() < ends LOOP
            BEGIN
                PERFORM pg_sleep(extract(epoch FROM ends - clock_timestamp()));
            EXCEPTION WHEN query_canceled THEN
                RAISE LOG '{SWALLOWED}';
            END;
        END LOOP;
    END $$
"""
RENAMING = """
    CREATE FUNCTION renaming(seconds float8) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE ends timestamptz := clock_timestamp() + make_interval(secs => seconds); n int := 0;
    BEGIN
        WHILE clock_timestamp() < ends LOOP
            n := n + 1;
            PERFORM set_config('application_name', 'name' || n, false);
            PERFORM pg_sleep(0.003);
        END LOOP;
    END $$
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many callers come in how many seconds, and how often the daemon is killed meanwhile."""

    callers: int
    seconds: float
    kills: int
    seed: int


@dataclass(slots=True)
class Played:
    """Everything that is known afterwards, to be compared."""

    callers: dict[int, Caller]
    log: ServerLog
    ledger: list[dict[str, Any]]  # the rows have the types of the ledger
    written: set[int]
    kills: list[float] = field(default_factory=list)
    reloads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def play(plan: Plan, *, folder: Path, guardian: Guardian, pooler: str) -> Played:
    """Play the callers on a server of their own. `pooler` is the path of PgBouncer's program."""
    server = make_server(guardian=guardian, settings=SETTINGS)
    try:
        server.run(ROLES.format(password=server.embedded.password, port=server.embedded.port))
        with server.admin() as admin:
            for each in (STUBBORN, RENAMING):
                admin.execute(each.encode())
        extra = "default_pool_size = 50"
        with (
            public_directory() as own,  # PgBouncer runs as the server's user
            pgbouncer(pooler, server, guardian=guardian, folder=own, mode="transaction", extra=extra) as port,
        ):
            stage = Stage(server, guardian, folder, plan, port)
            stage.play()
        return Played(
            {each.number: each for each in map(Caller.read, stage.output.read_text().splitlines())},
            read_log(server.embedded.log),
            rows(stage.url),
            {*_numbers(server, "written"), *_numbers(server, "near_written")},
            stage.kills,
            stage.reloads,
            stage.errors,
        )
    finally:
        server.embedded.stop()


def _numbers(server: TestServer, table: str) -> list[int]:
    with server.admin() as admin:
        return [int(str(n)) for (n,) in admin.execute(f"SELECT n FROM {table}".encode()).fetchall()]


@dataclass(slots=True)
class Stage:
    """A server, its callers, and the lives of one daemon after the other."""

    server: TestServer
    guardian: Guardian
    folder: Path
    plan: Plan
    pooler: int
    kills: list[float] = field(default_factory=list)
    reloads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/ledger.db"

    @property
    def output(self) -> Path:
        return self.folder / "callers"

    def play(self) -> None:
        """Let the callers come. Each daemon but the last is reloaded once and then killed."""
        rng = random.Random(self.plan.seed)
        a_life = self.plan.seconds / (self.plan.kills + 1)
        with ExitStack() as stack:
            first = stack.enter_context(self._daemon(0))
            workload = stack.enter_context(self._workload())
            begun = time.monotonic()
            self._live(first, ends=begun + a_life, rng=rng)
            for number in range(1, self.plan.kills):
                with self._daemon(number) as daemon:
                    self._live(daemon, ends=begun + a_life * (number + 1), rng=rng)
            with self._daemon(self.plan.kills) as last:
                until(lambda: workload.poll() is not None, timeout=self.plan.seconds + 60, what="the callers")
                until(self._is_settled, what="an outcome of every act")
                assert last.stop() == 0
            assert workload.returncode == 0

    def config(self, *, talking: bool) -> str:
        """The two configurations between which a reload changes. They differ in what becomes of loops of FETCH."""
        return (
            f"poll: {{interval: {INTERVAL:g}s, census_interval: 5s, timeout: 1s}}\n"
            "clusters:\n"
            f'- {{name: main, dsn: "{self.server.dsn("canceller")}", {ENFORCE}, pooled: {{roles: [etl_app]}}}}\n'
            "budgets:\n"
            f"  grace: {GRACE * 1000:.0f}ms\n"
            f"  roles: {{web_app: {BUDGET:g}s, etl_app: {POOLED_BUDGET:g}s, stubborn_app: {STUBBORN_BUDGET:g}s}}\n"
            "  jobs:\n"
            "  - pattern: scan:{job}:{window}\n"
            "    roles: [web_app, etl_app]\n"
            "    copies: 1\n"
            f"    retry_gap: {RETRY_GAP * 1000:.0f}ms\n"
            f"    budgets: {{loop: {LOOP_BUDGET:g}s, digest: {DIGEST_BUDGET:g}s}}\n"
            "policy:\n"
            "  mode: enforce\n"
            "  rules:\n"
            "  - {name: orphans, finding: orphan, evidence: [over_budget, client_gone, superseded],"
            ' roles: ["*"], action: cancel}\n'
            f"  limits: {{per_minute: 600, share: 1, pause: 0s, tries: {TRIES}, stop_after_failures: 1000}}\n"
            f"  protect: {{talking: {str(talking).lower()}}}\n"
            f'ledger: {{url: "{self.url}"}}\n'
        )

    @contextmanager
    def _daemon(self, number: int) -> Iterator[Replica]:
        config = self.config(talking=False)
        with replicas(folder(self.folder, f"life{number}"), config, guardian=self.guardian) as [daemon]:
            until(lambda: daemon.exported().enforcing, what="the power to act")
            try:
                yield daemon
            finally:
                self.errors += [json.dumps(each) for each in daemon.events("internal_error")]

    def _live(self, daemon: Replica, *, ends: float, rng: random.Random) -> None:
        """Reload half-way. Kill at the next act: often while its answer or its outcome is not known yet."""
        self._pass_time((time.monotonic() + ends) / 2)
        self.reloads.append(time.time())
        daemon.reload(self.config(talking=True))
        until(lambda: daemon.events("reloaded"), what="the reload")
        until(lambda: daemon.exported().enforcing, what="the power to act after the reload")
        self._pass_time(ends)
        if rng.random() < 0.7:
            self._await_act()
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        self.kills.append(time.time())

    def _pass_time(self, ends: float) -> None:
        until(lambda: time.monotonic() >= ends, timeout=self.plan.seconds + 60, what="the time")

    def _await_act(self) -> None:
        """Wait until the server logs the next act, but not for long: there may be nothing more to do.

        This looks more often than `until`, because the answer to an act comes so soon.
        """
        ends = time.monotonic() + QUIET
        with self.server.embedded.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            seen = b""
            while ACT not in seen and time.monotonic() < ends:
                time.sleep(0.0005)
                seen = seen[-len(ACT) :] + log.read()

    def _is_settled(self) -> bool:
        return all(each["outcome"] is not None or each["result"] in NOT_SIGNALLED for each in rows(self.url))

    @contextmanager
    def _workload(self) -> Iterator["subprocess.Popen[bytes]"]:
        embedded = self.server.embedded
        arguments = Arguments(
            embedded.port, self.pooler, embedded.password, self.plan.callers, self.plan.seconds, self.plan.seed
        )
        command = [sys.executable, "-m", "truth.acts_workload", json.dumps(asdict(arguments))]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        with self.output.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, env=env)
        self.guardian.mind_process(process.pid)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
