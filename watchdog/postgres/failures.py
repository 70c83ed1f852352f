"""Maps errors of the driver to a bounded set of reasons, by SQLSTATE and by SQLSTATE class.

The text of a message is never used for it. The advice that goes with it may depend on a role that the message names.
"""

import psycopg

from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.services import SERVICES
from watchdog.errors import ReadError

_BY_STATE = {
    "28000": Reason.AUTHENTICATION,
    "28P01": Reason.AUTHENTICATION,
    "3D000": Reason.NO_DATABASE,
    "53300": Reason.TOO_MANY_CONNECTIONS,
    "57P03": Reason.STARTING_UP,
    "42501": Reason.NOT_PERMITTED,
    "57014": Reason.TIMEOUT,
    "55P03": Reason.TIMEOUT,
}
_BY_CLASS = {"08": Reason.CONNECTION_LOST, "57": Reason.CONNECTION_LOST, "28": Reason.AUTHENTICATION}

_ADVICE = {
    Reason.TLS: "check sslmode, sslrootcert and the server's certificate",
    Reason.AUTHENTICATION: "check user, password and pg_hba.conf",
    Reason.NO_DATABASE: "check dbname",
    Reason.TOO_MANY_CONNECTIONS: "on PostgreSQL 16 and later grant pg_use_reserved_connections",
    Reason.NOT_PERMITTED: "grant pg_monitor to the role",
}


def reason_of(state: str | None) -> Reason:
    """The reason for an SQLSTATE. Without one the server did not answer, or the connection broke."""
    if state is None:
        return Reason.CONNECTION_LOST
    return _BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or Reason.STATEMENT


def connect_failure(state: str | None, *, message: str, without_state: Reason = Reason.UNREACHABLE) -> ReadError:
    """The error for a failed attempt to connect. Its text says what to do, where that is known.

    `without_state` is the reason if there is no SQLSTATE.
    """
    reason = without_state if state is None else reason_of(state)
    return ReadError(reason, _sentence(reason, message))


def no_password_failure() -> ReadError:
    """The error if the server asked for a password and none was given."""
    return ReadError(Reason.AUTHENTICATION, "the server asks for a password and none is given, or an empty one")


def statement_failure(error: psycopg.Error) -> ReadError:
    """The error for a failed statement. Its text says what to do, where that is known."""
    reason = reason_of(error.sqlstate)
    return ReadError(reason, _sentence(reason, error.diag.message_primary or str(error)), state=error.sqlstate)


def _sentence(reason: Reason, message: str) -> str:
    text = "; ".join(" ".join(line.split()) for line in message.splitlines() if line.strip())
    advice = _of_service(reason, text) or _ADVICE.get(reason)
    return text if advice is None else f"{text} ({advice})"


def _of_service(reason: Reason, text: str) -> str | None:
    """The advice of the managed service whose roles the server names; a role's name is the same in every language."""
    if reason is not Reason.TOO_MANY_CONNECTIONS:
        return None
    reserves = (each.reserved for each in SERVICES if each.reserved is not None)
    return next((each.hint for each in reserves if any(role in text for role in each.roles)), None)
