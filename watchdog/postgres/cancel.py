"""Cancels one run by one guarded statement, and turns the answer into the core's values.

The statement compares the row once more before it signals. Which runs are to be cancelled is decided in the core.
"""

from datetime import timedelta
from typing import NamedTuple

from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.protections import PROTECTIONS
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.observed.activity import UNKNOWN, Clock
from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.postgres.lease import LOCK
from watchdog.postgres.session import Session
from watchdog.postgres.statements import Statement


class CancelRow(NamedTuple):
    """The answer: what became of the signal, or the first condition that no longer held."""

    answer: str


CANCEL = Statement("cancel", CancelRow)

LOCK_NOT_AVAILABLE = "55P03"
"""The SQLSTATE of a statement that has waited for a lock for longer than lock_timeout."""

_PROTECTED = {each.reason.value: each.reason for each in PROTECTIONS if each.guarded}
_NOT_TRIED = frozenset({Withheld.NOT_LEADER, Withheld.RENAMED})
_UNANSWERED = frozenset({Reason.TIMEOUT, Reason.CONNECTION_LOST, Reason.INTERNAL})
"""Reasons that leave open whether the signal was sent. INTERNAL means that the answer had an unexpected column."""


async def cancel(
    session: Session, target: CancelTarget, *, act: str, manual: bool
) -> tuple[Result, Withheld | None, str]:
    """Signal the run that `target` describes, if its row still matches exactly.

    The three values are the result, what withheld the signal, and a detail. Unless `manual` is true, the session must
    hold the lease. If no answer came, or it cannot be read, the result is `timed_out`, because the signal may have
    been sent. A refusal by the server is a result; it is not raised.
    """
    try:
        parameters = guard_parameters(target, manual=manual)
        [row] = await session.rows(CANCEL, parameters, comment=f"pgwatchdog act {act}")
    except ReadError as error:
        return _of_error(error)
    if row.answer == Withheld.NOT_LEADER:
        session.holds_lease = session.holds_key = False  # the lease is lost and must be taken again
    return _of_answer(row.answer)


def _of_error(error: ReadError) -> tuple[Result, Withheld | None, str]:
    if error.state == LOCK_NOT_AVAILABLE:  # only the names can be waited for, and they are read before the signal
        return Result.NOT_TRIED, Withheld.NAMES_UNREAD, str(error)
    if error.reason is Reason.NOT_PERMITTED:
        return Result.NOT_PERMITTED, None, str(error)
    result = Result.TIMED_OUT if error.reason in _UNANSWERED else Result.NOT_TRIED
    return result, None, str(error)


def _of_answer(word: str) -> tuple[Result, Withheld | None, str]:
    if word in _PROTECTED:
        return Result.PROTECTED, _PROTECTED[word], ""
    if word in _NOT_TRIED:
        return Result.NOT_TRIED, Withheld(word), ""
    return Result(word), None, ""


def guard_parameters(target: CancelTarget, *, manual: bool) -> dict[str, object]:
    """The values that the guarded statement compares the row with, by parameter name."""
    return {
        **LOCK,
        "manual": manual,
        "pid": target.pid,
        "backend_start": target.backend_start,
        "role": target.role_oid,
        "role_name": _raw(target.role),
        "database": target.database_oid,
        "database_name": _raw(target.database),
        "application_name": target.application_name,
        "state": target.state,
        "statement": target.statement,
        "transaction": target.transaction,
        "writers": target.writers,
        "by_run": target.clock is Clock.RUN,
        "least_age": target.least_age / timedelta(seconds=1),
    }


def _raw(name: str) -> str:
    """A name as the catalog has it. The census puts the word for what is not known in quotes where it is a name."""
    return UNKNOWN if name == f'"{UNKNOWN}"' else name
