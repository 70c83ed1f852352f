"""The hand that signals: one guarded statement for one run, and its answer as a word of the core."""

from datetime import timedelta

from watchdog.core.activity import Clock
from watchdog.core.acts import Aim, Result
from watchdog.core.look import Reason
from watchdog.core.verdicts import Withheld
from watchdog.errors import ReadError
from watchdog.postgres.lease import LOCK
from watchdog.postgres.session import Session

_PROTECTED = {each.value: each for each in (Withheld.WRITER, Withheld.SYNC_REP, Withheld.WAITS_FOR_CLIENT)}
_LOST = frozenset({Reason.TIMEOUT, Reason.CONNECTION_LOST})


async def cancel(session: Session, aim: Aim, *, act: str, by_hand: bool) -> tuple[Result, Withheld | None, str]:
    """Signal what `aim` describes if it is still exactly that; the answer, what withheld it, and a detail.

    Unless it is `by_hand`, the session must hold the lease. An answer that did not come leaves open whether the signal
    was sent: `timed_out`. Never raises for a refusal.
    """
    try:
        parameters = guard_parameters(aim, by_hand=by_hand)
        rows = await session.rows("cancel", parameters, comment=f"pgwatchdog act {act}")
    except ReadError as error:
        if error.reason is Reason.NOT_PERMITTED:
            return Result.NOT_PERMITTED, None, str(error)
        if error.reason in _LOST:
            return Result.TIMED_OUT, None, str(error)
        return Result.NOT_TRIED, None, str(error)
    word = str(rows[0][0])
    if word == Withheld.NOT_LEADER:
        session.holds_lease = False  # whatever took it: it has to be taken again
        return Result.NOT_TRIED, Withheld.NOT_LEADER, ""
    if word in _PROTECTED:
        return Result.PROTECTED, _PROTECTED[word], ""
    return Result(word), None, ""


def guard_parameters(aim: Aim, *, by_hand: bool) -> dict[str, object]:
    """What the guarded statement compares the row with, by the names of its parameters."""
    return {
        **LOCK,
        "by_hand": by_hand,
        "pid": aim.pid,
        "backend_start": aim.backend_start,
        "role": aim.role_oid,
        "application_name": aim.application_name,
        "state": aim.state,
        "statement": aim.statement,
        "transaction": aim.transaction,
        "writers": aim.writers,
        "by_run": aim.clock is Clock.RUN,
        "least_age": aim.least_age / timedelta(seconds=1),
    }
