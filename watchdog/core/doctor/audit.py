"""The audit of one server: all checks in one list. The checks of the server as a whole are made here.

This module changes nothing on the server. It knows no SQL but the text that is printed.
"""

from collections.abc import Iterator
from datetime import timedelta

from watchdog.core.doctor.blind_spots import audit_blind_spots
from watchdog.core.doctor.changes import Remedy, SetParameter
from watchdog.core.doctor.checks import Check, failed, ok, unknown, warning
from watchdog.core.doctor.connection import audit_connection
from watchdog.core.doctor.facts import Facts
from watchdog.core.doctor.permissions import settled
from watchdog.core.doctor.rights import audit_rights
from watchdog.core.doctor.timeouts import audit_timeouts
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.observed.services import Service
from watchdog.core.present.phrases import span

KEEPALIVE_BOUND = timedelta(minutes=5)
"""Largest tcp_keepalives_idle that is accepted."""


def audit(facts: Facts, *, book: BudgetBook, runner: str | None = None) -> list[Check]:
    """All checks, in the order in which they are shown.

    `runner` is the role that will run the SQL; without one it is a superuser.
    """
    checks = [
        *audit_rights(facts),
        *audit_connection(facts),
        *_server(facts, book=book),
        *audit_blind_spots(facts, book=book),
        *audit_timeouts(facts, book=book),
    ]
    return settled(checks, facts=facts, runner=runner)


def unread(detail: str) -> list[Check]:
    """The single failed check of a server that could not be read."""
    return [failed("connection", detail, "nothing else could be checked")]


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
    for service in facts.services:
        yield from _service(service)


def _service(service: Service) -> Iterator[Check]:
    rights = service.rights or "who may grant the rights there is not known here, see its documentation"
    yield ok("service", f"{service.name}: {rights}")
    if service.sleeps:
        hint = "a longer poll.interval does not help: pause the watch where that costs more than it is worth"
        yield warning("scale_to_zero", f"{service.name} can sleep, and polling keeps it awake", hint)
    elif service.sleeps is None:
        hint = "if it can, polling keeps it awake: see its plan"
        yield unknown("scale_to_zero", f"whether this server of {service.name} can sleep is not known", hint)


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
        wanted = (SetParameter("tcp_keepalives_idle", "60s"), SetParameter("tcp_keepalives_interval", "10s"))
        yield warning("tcp_keepalives", saw, hint, remedies=tuple(map(Remedy, wanted)))


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
