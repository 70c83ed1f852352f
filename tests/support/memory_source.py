"""A cluster in memory: the port `Source` without a server. It passes the same contract tests as the real one."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from support.builders import BOOT, NOW, backend, census
from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.status import DisarmReason, KeyHolder, Lease
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.doctor.facts import Facts
from watchdog.core.observed.activity import Backend, Clock, Snapshot
from watchdog.core.observed.blocking import Blocking
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import BackendLookup, Command, statement_key
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import OwnConnection
from watchdog.core.observed.statement_failures import StatementFailures
from watchdog.core.present.look import Look
from watchdog.errors import ReadError

FIRST_PID = 100


@dataclass(slots=True)
class MemoryServer:
    """The server behind memory sources: its sessions by pid, and the holder of the lease.

    `idle` holds the sessions without a statement. While `away` is true the server cannot be reached. A signal ends the
    statement at once, unless `ignores_cancels` is true.
    """

    running: dict[int, Backend] = field(default_factory=dict)
    idle: dict[int, datetime] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    at: datetime = NOW
    boot: datetime = BOOT
    lease_holder: "MemorySource | None" = None
    census: Census = field(default_factory=census)
    away: bool = False
    ignores_cancels: bool = False
    signalled: list[int] = field(default_factory=list)

    def run(self, row: Backend | None = None, *, age: float = 100.0, name: str = "") -> int:
        """Add a session whose statement has been running for `age` seconds. Returns its pid."""
        pid = FIRST_PID + len(self.running) + len(self.idle)
        row = backend(pid=pid, query=age, name=name, now=self.at) if row is None else row
        self.running[row.pid] = row
        return row.pid

    def finish(self, pid: int) -> None:
        """End the statement of a session, which is idle then."""
        self.idle[pid] = self.running.pop(pid).started

    def leave(self, pid: int) -> None:
        """End a session."""
        self.running.pop(pid, None)
        self.idle.pop(pid, None)

    def wait_for(self, waiter: int, holder: int) -> None:
        """Let one running session wait for a lock of another session."""
        row = self.running[waiter]
        self.running[waiter] = replace(row, wait_event_type="Lock", wait_event="transactionid")
        self.waits[waiter] = holder

    def pass_time(self, seconds: float) -> None:
        """Advance the server's clock."""
        self.at += timedelta(seconds=seconds)


@dataclass(slots=True, eq=False)
class MemorySource:
    """One session on a memory server."""

    server: MemoryServer
    pid: int = 1
    is_open: bool = False
    census_is_stale: bool = False
    statement_failures: StatementFailures = field(default_factory=dict)

    @property
    def identity(self) -> Hashable:
        return id(self.server)

    @property
    def own_connection(self) -> OwnConnection | None:
        return OwnConnection(None, None) if self.is_open else None

    def inherit_state(self, before: object) -> None:
        if isinstance(before, MemorySource):
            self.statement_failures = dict(before.statement_failures)

    async def census(self) -> Census:
        self._open()
        return self.server.census

    async def snapshot(self) -> tuple[Snapshot, timedelta]:
        self._open()
        server = self.server
        rows = tuple(_aged(row, at=server.at) for row in server.running.values())
        seen = Snapshot(
            at=server.at,
            postmaster_start=server.boot,
            in_recovery=False,
            sees_all=server.census.sees_all,
            backends=rows,
        )
        return seen, timedelta(milliseconds=1)

    async def blocking(self, waiters: Sequence[int]) -> Blocking | None:
        self._open()
        waits = self.server.waits
        return Blocking({pid: frozenset({waits[pid]}) if pid in waits else frozenset() for pid in waiters})

    async def backends(self, *, commands: Sequence[int] = (), alive: Sequence[int] = ()) -> BackendLookup:
        self._open()
        running, idle = self.server.running, self.server.idle
        there = {(pid, idle[pid]) for pid in (*commands, *alive) if pid in idle}
        there |= {(pid, running[pid].started) for pid in (*commands, *alive) if pid in running}
        keys = [statement_key(running[pid]) for pid in commands if pid in running]
        return BackendLookup(frozenset(there), {key: Command(frozenset({"SELECT"})) for key in keys if key is not None})

    async def facts(self, look: Look) -> Facts:
        raise NotImplementedError("the doctor is tested with facts of its own")

    async def lease(self) -> Lease:
        self._open()
        if self.server.lease_holder is self:
            return Lease(leads=True)
        if self.server.lease_holder is not None:
            return await self.lease_holder()
        self.server.lease_holder = self
        return Lease(leads=True, just_acquired=True)

    async def lease_holder(self) -> Lease:
        self._open()
        holder = self.server.lease_holder
        if holder is self:
            return Lease(leads=True)
        reason = DisarmReason.NOT_LEADER
        if holder is None:
            return Lease(leads=False, disarm_reason=reason)
        return Lease(leads=False, disarm_reason=reason, holder=KeyHolder(pid=holder.pid, role=None))

    async def release_lease(self) -> None:
        if self.server.lease_holder is self:
            self.server.lease_holder = None

    async def cancel(
        self, target: CancelTarget, *, act: str, manual: bool = False
    ) -> tuple[Result, Withheld | None, str]:
        del act
        server = self.server
        if not self.is_open:
            return Result.NOT_TRIED, None, "the session is lost"
        if not manual and server.lease_holder is not self:
            return Result.NOT_TRIED, Withheld.NOT_LEADER, ""
        row = server.running.get(target.pid)
        if row is None or row.started != target.backend_start:
            gone = target.pid not in server.idle or server.idle[target.pid] != target.backend_start
            return Result.GONE if gone else Result.MOVED_ON, None, ""
        statement = row.start(Clock.STATEMENT)
        if target.statement is not None and (statement is None or statement.at != target.statement):
            return Result.MOVED_ON, None, ""
        if row.has_xid and not target.writers:
            return Result.PROTECTED, Withheld.WRITER, ""
        server.signalled.append(target.pid)
        if not server.ignores_cancels:
            server.finish(target.pid)
        return Result.SIGNALLED, None, ""

    def close(self) -> None:
        self.is_open = False
        if self.server.lease_holder is self:
            self.server.lease_holder = None

    def _open(self) -> None:
        if self.server.away:
            self.close()
            raise ReadError(Reason.UNREACHABLE, "away")
        self.is_open = True


def _aged(row: Backend, *, at: datetime) -> Backend:
    """The row at the time `at`: the same starts, with ages computed for `at`."""
    moments = {name: getattr(row, name) for name in ("query", "transaction", "changed")}
    grown = {name: replace(each, age=at - each.at) for name, each in moments.items() if each is not None}
    return replace(row, **grown)
