"""The hand that signals: one guarded statement for one run, and its answer as a word of the core."""

from datetime import timedelta
from typing import NamedTuple

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.protections import PROTECTIONS
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.observed.activity import Clock
from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.postgres.lease import LOCK
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement


class CancelRow(NamedTuple):
    """What became of the signal, or the first thing that did not stand any more."""

    answer: str


CANCEL = Statement("cancel", CancelRow)

_PROTECTED = {each.reason.value: each.reason for each in PROTECTIONS if each.guarded}
_UNANSWERED = frozenset({Reason.TIMEOUT, Reason.CONNECTION_LOST, Reason.INTERNAL})
"""Internal: there is an answer, but its column is not the expected one."""


async def cancel(
    session: Session, target: CancelTarget, *, act: str, manual: bool
) -> tuple[Result, Withheld | None, str]:
    """Signal what `target` describes if it is still exactly that; the answer, what withheld it, and a detail.

    Unless it is `manual`, the session must hold the lease. An answer that did not come, or cannot be read, leaves
    open whether the signal was sent: `timed_out`. Never raises for a refusal.
    """
    try:
        parameters = guard_parameters(target, manual=manual)
        rows = await session.rows(CANCEL, parameters, comment=f"pgwatchdog act {act}")
    except ReadError as error:
        if error.reason is Reason.NOT_PERMITTED:
            return Result.NOT_PERMITTED, None, str(error)
        if error.reason in _UNANSWERED:
            return Result.TIMED_OUT, None, str(error)
        return Result.NOT_TRIED, None, str(error)
    word = rows[0].answer
    if word == Withheld.NOT_LEADER:
        session.holds_lease = False  # whatever took it: it has to be taken again
        return Result.NOT_TRIED, Withheld.NOT_LEADER, ""
    if word in _PROTECTED:
        return Result.PROTECTED, _PROTECTED[word], ""
    return Result(word), None, ""


def guard_parameters(target: CancelTarget, *, manual: bool) -> dict[str, object]:
    """What the guarded statement compares the row with, by the names of its parameters."""
    return {
        **LOCK,
        "manual": manual,
        "pid": target.pid,
        "backend_start": target.backend_start,
        "role": target.role_oid,
        "application_name": target.application_name,
        "state": target.state,
        "statement": target.statement,
        "transaction": target.transaction,
        "writers": target.writers,
        "by_run": target.clock is Clock.RUN,
        "least_age": target.least_age / timedelta(seconds=1),
    }
