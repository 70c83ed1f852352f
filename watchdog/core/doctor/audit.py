"""The audit of one server: all checks in one list. The checks of rights, connections and the server are made here.

This module changes nothing on the server. It knows no SQL but the text that is printed.
"""

from collections.abc import Iterator
from datetime import timedelta

from watchdog.core.acting.status import EXPLAINED, DisarmReason
from watchdog.core.doctor.blind_spots import audit_blind_spots
from watchdog.core.doctor.checks import Check, failed, ok, quoted, unknown, warning
from watchdog.core.doctor.facts import Facts
from watchdog.core.doctor.services import recognised
from watchdog.core.doctor.timeouts import audit_timeouts
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.present.phrases import span, untested_words

CROWDED, FULL = 0.8, 0.95
"""Shares of max_connections in use from which the check is a warning and from which it fails."""

KEEPALIVE_BOUND = timedelta(minutes=5)
"""Largest tcp_keepalives_idle that is accepted."""


def audit(facts: Facts, *, book: BudgetBook) -> list[Check]:
    """All checks, in the order in which they are shown."""
    return [
        *_rights(facts),
        *_connection(facts),
        *_server(facts, book=book),
        *audit_blind_spots(facts, book=book),
        *audit_timeouts(facts, book=book),
    ]


def unread(detail: str) -> list[Check]:
    """The single failed check of a server that could not be read."""
    return [failed("connection", detail, "nothing else could be checked")]


def _rights(facts: Facts) -> Iterator[Check]:
    census, own = facts.look.census, facts.own
    role = quoted(own.name)
    if census.sees_all:
        yield ok("rights.read", "sees every role's sessions")
    else:
        saw = f"{census.hidden} sessions of {len(census.hidden_roles)} roles are hidden"
        yield failed("rights.read", saw, "grant it", sql=(f"GRANT pg_monitor TO {role};",))
    if census.may_cancel_all:
        yield ok("rights.cancel", "may cancel every role's queries but superusers'")
    elif census.may_cancel:
        yield ok("rights.cancel", f"may cancel queries of {', '.join(sorted(census.may_cancel))} alone, by membership")
    else:
        hint = "enough for dry run; to act, GRANT pg_signal_backend or membership in single roles"
        yield ok("rights.cancel", f"may cancel nobody's queries: {hint}")
    if own.excess:
        hint = "a role that only watches needs none of these: a leaked password would give them away"
        yield warning("rights.excess", f"{own.name} has {', '.join(own.excess)}", hint)
    else:
        yield ok("rights.excess", f"{own.name} has no right that it does not need")
    yield from _reserved(facts)


def _reserved(facts: Facts) -> Iterator[Check]:
    name, own = "rights.reserved_connections", facts.own
    reserved = facts.settings.server.get("reserved_connections")
    if own.reserved is None:
        yield ok(name, "before PostgreSQL 16 there are none: the session is opened before trouble and kept")
    elif own.reserved and reserved not in {None, "0"}:
        yield ok(name, f"{reserved} reserved, and it may use them")
    else:
        may = "may" if own.reserved else "may not"
        saw = f"reserved_connections is {reserved or 'not known'}, and {own.name} {may} use them"
        hint = (
            "when all connections are taken, a new session gets in only through these (needs a restart of the server)"
        )
        sql = () if own.reserved else (f"GRANT pg_use_reserved_connections TO {quoted(own.name)};",)
        yield warning(name, saw, hint, sql=sql)


def _version(facts: Facts) -> Check:
    version = facts.look.census.version
    untested = untested_words(facts.look)
    if untested is None:
        return ok("version", f"PostgreSQL {version}")
    hint = "it is watched; nothing is cancelled there without allow_untested: true on the cluster"
    return warning("version", f"PostgreSQL {version}: {untested}", hint)


def _connection(facts: Facts) -> Iterator[Check]:
    census, own = facts.look.census, facts.own
    yield _version(facts)
    if facts.variables:
        yield ok("environment", f"libpq also took {', '.join(facts.variables)} from the environment")
    if census.behind_pooler:
        hint = "connect to the server itself: a pooler hands names on, and through one nothing can be acted on"
        yield failed("pooler", "there is a pooler in between", hint)
    else:
        yield ok("pooler", "connected to the server itself")
    share = census.connections_used / max(1, census.connections_max)
    saw = f"{census.connections_used} of {census.connections_max} connections are used"
    if share >= FULL:
        yield failed(
            "connections", saw, "hardly anybody gets in any more: find who holds them before you raise the limit"
        )
    elif share >= CROWDED:
        yield warning("connections", saw, "retries pile up connections first")
    else:
        yield ok("connections", saw)
    if 0 <= own.connection_limit < own.sessions + 2:
        saw = f"{own.name} may have {own.connection_limit} and has {own.sessions} now"
        hint = "a replica, and this command, need one each"
        sql = (f"ALTER ROLE {quoted(own.name)} CONNECTION LIMIT 5;",)
        yield warning("connection_limit", saw, hint, sql=sql)
    else:
        yield ok("connection_limit", "none" if own.connection_limit < 0 else str(own.connection_limit))
    yield _idle_session(facts)
    yield _lease(facts)


def _idle_session(facts: Facts) -> Check:
    name = "idle_session_timeout"
    effective = facts.settings.effective(name, role=facts.own.name, database=None)
    value = effective.span(name)
    if value is not None and timedelta(0) < value < facts.silence:
        saw = f"{span(value)} by {effective.where}, and we may be silent for {span(facts.silence)}"
        return ok(name, f"{saw}: our session sets its own")
    return ok(name, "not shorter than our pauses")


def _lease(facts: Facts) -> Check:
    lease = facts.lease
    holder = f"pid {lease.holder_pid}, role {facts.look.census.role(lease.holder_role)}"
    match lease.disarm_reason:
        case DisarmReason.NOT_LEADER if lease.holder_pid is not None:
            return ok("lease", f"held by a pgwatchdog: {holder}")
        case DisarmReason.LEASE_TAKEN:
            hint = "no pgwatchdog can act while somebody else holds the lock; find out who takes it"
            return failed("lease", f"the key is held by somebody who is no pgwatchdog: {holder}", hint)
        case DisarmReason.OTHER_DATABASE | DisarmReason.BEHIND_POOLER:
            return warning("lease", EXPLAINED[lease.disarm_reason], "from here no pgwatchdog could ever lead")
    return ok("lease", "nobody holds it: no pgwatchdog leads now")


def _server(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    yield from _keepalives(facts)
    prepared = facts.prepared
    largest = max(book.sources().values(), default=None)
    if prepared.count and (largest is None or prepared.oldest is None or prepared.oldest > largest):
        saw = f"{prepared.count}, the oldest since {span(prepared.oldest)}"
        hint = (
            "they hold locks with no session at all, so no poll shows them: COMMIT or ROLLBACK PREPARED by their owner"
        )
        yield warning("prepared_transactions", saw, hint)
    else:
        yield ok("prepared_transactions", f"{prepared.count or 'none'}")
    if facts.look.snapshot.in_recovery:
        yield from _standby(facts, book=book)
    for service in recognised([role.name for role in facts.roles], facts.parameters):
        yield ok("service", f"{service.name}: {service.grants}")
        if service.sleeps:
            hint = "a longer poll.interval does not help: pause the watch where that costs more than it is worth"
            yield warning("scale_to_zero", f"{service.name} can sleep, and polling keeps it awake", hint)


def _keepalives(facts: Facts) -> Iterator[Check]:
    values = {
        name: facts.settings.effective(name, role=None, database=None).span(name)
        for name in ("tcp_keepalives_idle", "tcp_user_timeout")
    }
    idle, user = values["tcp_keepalives_idle"], values["tcp_user_timeout"]
    saw = f"tcp_keepalives_idle {_known(idle)}, tcp_user_timeout {_known(user)}"
    hint = (
        "a host that vanishes without a word keeps its sessions, and their locks, until the system's default (2 h) ends"
    )
    if idle is None and user is None:
        yield unknown("tcp_keepalives", "our own session hides them", hint)
    elif (idle is None or timedelta(0) < idle <= KEEPALIVE_BOUND) or (user or timedelta(0)) > timedelta(0):
        yield ok("tcp_keepalives", saw)
    else:
        sql = ("ALTER SYSTEM SET tcp_keepalives_idle = '60s';", "ALTER SYSTEM SET tcp_keepalives_interval = '10s';")
        yield warning("tcp_keepalives", saw, hint, sql=sql)


def _standby(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    name = "max_standby_streaming_delay"
    value = facts.settings.effective(name, role=None, database=None).span(name)
    largest = max(book.sources().values(), default=timedelta(0))
    saw = f"{_known(value)}, {facts.conflicts} queries were cancelled by replay so far"
    if value is not None and timedelta(0) <= value < largest:
        hint = f"queries within their budget (up to {span(largest)}) may be cancelled by replay"
        yield warning(name, saw, hint)
    else:
        yield ok(name, saw)


def _known(value: timedelta | None) -> str:
    if value is None:
        return "not known"
    return span(value) if value > timedelta(0) else "the system's default"
