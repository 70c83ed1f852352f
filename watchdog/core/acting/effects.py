"""What a new snapshot shows of earlier acts: an observation of each, and the work that came back after its cancel.

What follows from an observation is decided in `lifecycle`. This module knows nothing of rules and of the ledger.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchdog.core.acting.acts import ObservedEffect
from watchdog.core.acting.lifecycle import Observation, OpenAct, observed, pause_after
from watchdog.core.judging.cases import Case
from watchdog.core.judging.copies import CopyKey, copy_key
from watchdog.core.observed.activity import RUNNING_STATES, Backend, Clock, Run, Snapshot
from watchdog.core.observed.wait_events import CLIENT_WRITE

COMES_BACK_WITHIN = timedelta(seconds=30)
"""Time after a cancel within which a new run with the same key counts as a retry of the cancelled one."""

ZERO = timedelta(0)

Transaction = tuple[int, datetime, datetime]
"""Pid, backend start and transaction start."""


@dataclass(frozen=True, slots=True)
class RecentCancel:
    """A cancel after which a retry may begin: the time of the act, its rule, and its id."""

    at: datetime
    rule: str
    act: str


@dataclass(frozen=True, slots=True)
class Retry:
    """A new run under the key of a run that was cancelled by `rule`. `act` is the id of that cancel."""

    key: CopyKey
    rule: str
    act: str


def vanished(acts: Mapping[Run, OpenAct], *, snapshot: Snapshot) -> list[int]:
    """The pids of acts whose rows are not in the snapshot. A look-up must tell whether these sessions are idle or gone.

    A poll does not read idle sessions.
    """
    there = {(backend.pid, backend.started) for backend in snapshot.backends}
    return [run.pid for run in acts if (run.pid, run.backend_start) not in there]


def follow(
    acts: Mapping[Run, OpenAct],
    *,
    snapshot: Snapshot,
    at: datetime,
    alive: frozenset[tuple[int, datetime]] | None,
    interval: timedelta,
    tries: int,
) -> tuple[list[ObservedEffect], dict[Run, OpenAct]]:
    """The outcomes that this snapshot shows, and the acts that must still be remembered. `at` is the steady time.

    `alive` are sessions (pid and start) that are not in the snapshot and still there, idle. None: the server did not
    say, so nothing is known of acts whose rows are gone, and they are followed further.
    """
    rows = {(backend.pid, backend.started): backend for backend in snapshot.backends}
    effects = []
    kept: dict[Run, OpenAct] = {}
    for run, act in acts.items():
        session = (run.pid, run.backend_start)
        if alive is None and session not in rows:
            kept[run] = act
            continue
        pausing = at - act.at < pause_after(act.attempts, interval=interval)
        seen = _observation(act, rows.get(session), alive=alive is not None and session in alive, pausing=pausing)
        effect, stays = observed(run, act, seen, at=snapshot.at, tries=tries)
        if effect is not None:
            effects.append(effect)
        if stays is not None:
            kept[run] = stays
    return effects, kept


def came_back(
    cancelled: Mapping[CopyKey, RecentCancel], *, cases: Iterable[Case], at: datetime, ahead: timedelta = ZERO
) -> tuple[list[Retry], dict[CopyKey, RecentCancel]]:
    """The retries that have begun within `COMES_BACK_WITHIN` of a cancel, and the cancels to watch further.

    `at` is the steady time, and `ahead` by how much it is ahead of the server's clock, which has the runs' starts.
    """
    begun: dict[CopyKey, list[datetime]] = defaultdict(list)
    for case in cases:
        key = copy_key(case)
        if key is not None:
            begun[key].append(case.run.start + ahead)
    retries = [
        Retry(key, cancel.rule, cancel.act)
        for key, cancel in cancelled.items()
        if any(cancel.at < start <= cancel.at + COMES_BACK_WITHIN for start in begun.get(key, ()))
    ]
    done = {retry.key for retry in retries}
    kept = {key: each for key, each in cancelled.items() if key not in done and at - each.at <= COMES_BACK_WITHIN}
    return retries, kept


def transaction_of(run: Run, act: OpenAct) -> Transaction | None:
    """The transaction in which the run of an act was, or None if the row showed none."""
    return None if act.transaction is None else (run.pid, run.backend_start, act.transaction)


def _observation(act: OpenAct, backend: Backend | None, *, alive: bool, pausing: bool) -> Observation:
    if backend is None:
        return Observation.BETWEEN_STATEMENTS if alive else Observation.ENDED
    statement = backend.start(Clock.STATEMENT)
    at = None if statement is None else statement.at
    if at == act.statement and backend.state in RUNNING_STATES:
        if pausing:
            return Observation.IN_PAUSE
        waits = backend.wait_event == CLIENT_WRITE
        return Observation.WAITS_FOR_CLIENT if waits else Observation.STILL_THERE
    if backend.transaction is None or backend.transaction.at != act.transaction:
        return Observation.MOVED_ON
    return Observation.LOOP_GOES_ON if act.clock is Clock.RUN else Observation.TRANSACTION_GOES_ON
