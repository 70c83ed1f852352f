"""A row with all that is needed to judge it: its job key, its budget, its run, and its age.

This module owns the choice of the clock for a row. It does not compare an age with a budget.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import assert_never

from watchdog.core.judging.budgets import Budget, BudgetBook
from watchdog.core.judging.jobs import JobClaim, JobKey, NoKey, read_name
from watchdog.core.observed.activity import ActivityKind, Backend, ClientEndpoint, Clock, Moment, Run, Snapshot
from watchdog.core.observed.names import matches
from watchdog.core.observed.sockets import StatementRun, statement_run

A_MOMENT = timedelta(milliseconds=100)
"""Longest time between two timestamps that the server takes for one piece of work, such as those of BEGIN and of the
statement after it."""


@dataclass(frozen=True, slots=True)
class Naming:
    """The application_name of a session with an open transaction.

    `since` is when it got this name, or None if it has had the name since the transaction was first seen.
    """

    backend_start: datetime
    transaction: datetime
    name: str
    since: Moment | None


Network = IPv4Network | IPv6Network

Namings = Mapping[int, Naming]
"""The names of the sessions that were in a transaction at the last look, by pid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One running or holding backend with all that is needed to judge it.

    `claim` is None if the row has no usable job key. `talking` is True for a run of several statements if the latest of
    them arrived within `JudgeSettings.patience`. This shows that the client is still there.
    """

    backend: Backend
    activity: ActivityKind
    claim: JobClaim | None
    unusable_key: bool
    budget: Budget | None
    clock: Clock
    run: Run
    age: timedelta
    talking: bool
    client_gone: bool = False
    deadline_passed: bool = False
    until_deadline: timedelta | None = None
    exempt: bool = False
    """The configuration says that the role has no budget."""

    @property
    def lacks_budget(self) -> bool:
        """True if no budget applies and the configuration does not say so itself."""
        return self.budget is None and not self.exempt

    @property
    def key(self) -> JobKey | None:
        """The usable job key, or None if the row has none."""
        return None if self.claim is None else self.claim.key

    @property
    def job(self) -> str:
        """The job without its window, or '' for a row without a usable key. It is the value of the label `job_key`."""
        return "" if self.claim is None else self.claim.key.job

    @property
    def works(self) -> bool:
        """True while the backend executes something. By the run clock, also between two statements of the same run."""
        match self.clock:
            case Clock.STATEMENT:
                return self.activity is ActivityKind.RUNNING
            case Clock.RUN:
                return self.activity is ActivityKind.RUNNING or self.talking
        assert_never(self.clock)

    @property
    def used(self) -> float | None:
        """The age as a share of the budget without grace, or None without a budget."""
        return None if self.budget is None else self.age / self.budget.limit


def namings_of(snapshot: Snapshot, *, before: Namings) -> dict[int, Naming]:
    """The names of the sessions that are in a transaction, by pid.

    A session that changes its name inside a transaction begins a new run with its first statement under the new name.
    """
    namings = {}
    for backend in snapshot.backends:
        if backend.transaction is not None:
            since = _renamed(backend, before=before.get(backend.pid), at=snapshot.at)
            naming = Naming(backend.started, backend.transaction.at, backend.application_name, since)
            namings[backend.pid] = naming
    return namings


def cases_of(
    snapshot: Snapshot,
    *,
    book: BudgetBook,
    pooled: frozenset[str],
    patience: timedelta,
    namings: Namings,
    networks: tuple[Network, ...] = (),
    gone: frozenset[StatementRun] = frozenset(),
) -> tuple[list[Case], int]:
    """The cases of a snapshot, oldest first, and the number of rows that cannot be judged because they show no start.

    `pooled` are patterns of roles. The names of their sessions and of clients in `networks` are not read, because a
    transaction pooler leaves the name of one client on the session that the next client uses.
    """
    cases = []
    unreadable = 0
    for backend in snapshot.backends:
        if backend.activity in (ActivityKind.IDLE, ActivityKind.LOGGING_IN):
            continue
        naming = namings.get(backend.pid)
        since = naming.since if naming is not None else None
        nameless = backend.role in pooled or matches(backend.role, pooled) or _is_in(backend.client, networks)
        case = _case(backend, book=book, nameless=nameless, patience=patience, since=since)
        if case is None:
            unreadable += 1
        else:
            left = statement_run(backend) in gone and not book.is_detached(backend.role, claim=case.claim)
            until = _until_deadline(case, at=snapshot.at, skew=book.clock_skew)
            if left or until is not None:  # only these, because to copy a case takes as long as to make it
                passed = until is not None and until <= timedelta(0)
                case = replace(case, client_gone=left, deadline_passed=passed, until_deadline=until)
            cases.append(case)
    return sorted(cases, key=lambda case: (case.run.start, case.run.pid)), unreadable


def _is_in(client: ClientEndpoint | None, networks: tuple[Network, ...]) -> bool:
    if client is None or not networks:
        return False
    address = ip_address(client.address)
    return any(address in network for network in networks)


def _until_deadline(case: Case, *, at: datetime, skew: timedelta) -> timedelta | None:
    """The time until the caller's deadline has certainly passed, if the caller's clock is wrong by `skew` at most.

    A deadline before the start of the current statement is none: it was written for earlier work, and a command that
    came after it proves that somebody waits. A connection of a pool keeps the name that was set once.
    """
    deadline = None if case.claim is None else case.claim.deadline
    statement = case.backend.start(Clock.STATEMENT)
    if deadline is None or (statement is not None and statement.at > deadline):
        return None
    return deadline + skew - at


def is_fetch_loop(clock: Clock, *, start: datetime, statement: datetime | None) -> bool:
    """True for a run of several statements, such as a loop of FETCH: the current one started later than the run.

    The difference must be more than `A_MOMENT`, because the server takes the timestamps of a BEGIN and the statement
    after it, and those of Parse and Bind, at slightly different times.
    """
    return clock is Clock.RUN and statement is not None and statement - start > A_MOMENT


def running(cases: Iterable[Case]) -> list[Case]:
    """The cases whose backend executes something now."""
    return [case for case in cases if case.activity is ActivityKind.RUNNING]


def _renamed(backend: Backend, *, before: Naming | None, at: datetime) -> Moment | None:
    transaction = backend.transaction
    if before is None or transaction is None:
        return None
    if (before.backend_start, before.transaction) != (backend.started, transaction.at):
        return None
    if before.name != backend.application_name:
        return backend.query
    return None if before.since is None else Moment(before.since.at, max(timedelta(0), at - before.since.at))


def _case(
    backend: Backend, *, book: BudgetBook, nameless: bool, patience: timedelta, since: Moment | None
) -> Case | None:
    read = NoKey.NOT_A_KEY if nameless else read_name(backend.application_name, rules=book.jobs)
    claim = read if isinstance(read, JobClaim) else None
    budget = book.budget(backend.role, claim=claim)
    clock = budget.clock if budget is not None else (Clock.RUN if claim is not None else Clock.STATEMENT)
    start = backend.start(clock)
    if start is None:
        return None
    if since is not None and since.at > start.at:
        start = since  # the work under the session's old name in this transaction belongs to another run
    return Case(
        backend=backend,
        activity=backend.activity,
        claim=claim,
        unusable_key=read is NoKey.UNUSABLE,
        budget=budget,
        clock=clock,
        run=Run(backend.pid, backend.started, start.at),
        age=start.age,
        talking=_talking(backend, clock=clock, start=start, patience=patience),
        exempt=book.is_exempt(backend.role),
    )


def _talking(backend: Backend, *, clock: Clock, start: Moment, patience: timedelta) -> bool:
    statement = backend.start(Clock.STATEMENT)
    if statement is None or statement.age > patience:
        return False
    return is_fetch_loop(clock, start=start.at, statement=statement.at)
