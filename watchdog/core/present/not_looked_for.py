"""What one look did not look for, so that "nothing found" is never said of more than was looked at.

Each limit has a word for machines and a sentence for people. Some limits lie in how pgwatchdog is deployed or
configured (a server on another host, a role without a budget). Others are failures: it could have been looked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.judging.cases import running
from watchdog.core.observed.sockets import ClientState, SocketVisibility
from watchdog.core.observed.statement_failures import failing
from watchdog.core.present.look import Look


class What(StrEnum):
    """What was not looked for: the key `what` in JSON."""

    DEAD_CLIENTS = "dead_clients"
    UNCERTAIN_CLIENTS = "uncertain_clients"
    HIDDEN_SESSIONS = "hidden_sessions"
    UNTRACKED_SESSIONS = "untracked_sessions"
    ROLES_WITHOUT_BUDGET = "roles_without_budget"
    RUNS_WITHOUT_START = "runs_without_start"
    LOGINS = "logins"
    FAILED_STATEMENT = "failed_statement"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLookedFor:
    """One limit of a look. `names` are roles or statements, `count` sessions, where either applies.

    `failed`: it could have been looked for from here, and that failed.
    """

    what: What
    sentence: str
    failed: bool = False
    names: tuple[str, ...] = ()
    count: int | None = None


UNSEEN = {
    SocketVisibility.UNIX_SOCKET: "pgwatchdog is connected by a Unix socket, which does not tell clients apart",
    SocketVisibility.ELSEWHERE: "the server is in another network namespace or on another host",
    SocketVisibility.UNAVAILABLE: "this system does not show its sockets",
    SocketVisibility.FAILED: "reading the sockets failed",
    SocketVisibility.NOT_ASKED: "sockets were not read",
}
"""Why sockets were not seen, in words."""


UNCERTAIN = {
    ClientState.UNKNOWN: "several sockets listen on the server's port, and which of them the client used is not known",
    ClientState.HALF_CLOSED: "they have closed their sending half and may still read",
}
"""Why it is not known of a client whether it is gone, in words."""


def not_looked_for(look: Look) -> list[NotLookedFor]:
    """Every limit of a look, failures first."""
    return sorted(
        (*_sockets(look), *_sessions(look), *_roles(look), *_statements(look)), key=lambda each: not each.failed
    )


def _sockets(look: Look) -> Iterator[NotLookedFor]:
    why = UNSEEN.get(look.socket_visibility)
    if why is not None:
        failed = look.socket_visibility is SocketVisibility.FAILED
        yield NotLookedFor(what=What.DEAD_CLIENTS, sentence=f"clients that are gone ({why})", failed=failed)
    for state, meaning in UNCERTAIN.items():
        count = sum(each is state for each in look.clients.values())
        if count:
            sentence = f"whether the clients of {count} running sessions are gone ({meaning})"
            yield NotLookedFor(what=What.UNCERTAIN_CLIENTS, sentence=sentence, count=count)


def _sessions(look: Look) -> Iterator[NotLookedFor]:
    unjudged = look.judgement.unjudged
    hidden, untracked = unjudged.get("insufficient_privilege", 0), unjudged.get("tracking_off", 0)
    if hidden or not look.snapshot.sees_all:
        sentence = f"{hidden} sessions that are hidden from our role (GRANT pg_monitor)"
        yield NotLookedFor(what=What.HIDDEN_SESSIONS, sentence=sentence, failed=True, count=hidden)
    if untracked or look.census.tracking_is_off:
        sentence = f"{untracked} sessions with track_activities off"
        yield NotLookedFor(
            what=What.UNTRACKED_SESSIONS, sentence=sentence, failed=look.census.tracking_is_off, count=untracked
        )
    without_start = unjudged.get("no_start", 0)
    if without_start:
        sentence = f"{without_start} running without a visible start"
        yield NotLookedFor(what=What.RUNS_WITHOUT_START, sentence=sentence, failed=True, count=without_start)
    logins = unjudged.get("logging_in", 0)
    if logins:
        yield NotLookedFor(what=What.LOGINS, sentence=f"{logins} sessions that are logging in", count=logins)


def _roles(look: Look) -> Iterator[NotLookedFor]:
    without = [case for case in running(look.judgement.cases) if case.lacks_budget]
    roles = tuple(sorted({case.backend.role for case in without}))
    if roles:
        sentence = f"overdue runs of roles without a budget: {', '.join(roles)} ({len(without)} running)"
        yield NotLookedFor(what=What.ROLES_WITHOUT_BUDGET, sentence=sentence, names=roles, count=len(without))


def _statements(look: Look) -> Iterator[NotLookedFor]:
    names = tuple(sorted(failing(look.statement_failures)))
    if names:
        sentence = f"what these statements read, because they failed: {', '.join(names)}"
        yield NotLookedFor(what=What.FAILED_STATEMENT, sentence=sentence, failed=True, names=names)
