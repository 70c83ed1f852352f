"""What our own role may do, too little or too much, and whether it gets in: reserved connections, its password."""

from collections.abc import Iterator
from datetime import timedelta

from watchdog.core.doctor.changes import GrantRole, Remedy
from watchdog.core.doctor.checks import Check, failed, ok, warning
from watchdog.core.doctor.facts import Facts
from watchdog.core.observed.services import Reserved
from watchdog.core.present.phrases import span

PASSWORD_WARNING = timedelta(days=14)


def audit_rights(facts: Facts) -> Iterator[Check]:
    """The rights to read and to cancel, those that nothing needs, reserved connections, and the password's end."""
    yield _read(facts)
    yield _cancel(facts)
    yield _excess(facts)
    yield _reserved(facts)
    yield _password(facts)


def _read(facts: Facts) -> Check:
    census = facts.look.census
    if census.sees_all:
        return ok("rights.read", "sees every role's sessions")
    saw = f"{census.hidden} sessions of {len(census.hidden_roles)} roles are hidden"
    remedies = (Remedy(GrantRole("pg_monitor", facts.own.name)),)
    return failed("rights.read", saw, f"grant it{_by_service(facts)}", remedies=remedies)


def _cancel(facts: Facts) -> Check:
    census = facts.look.census
    if census.may_cancel_all:
        return ok("rights.cancel", "may cancel every role's queries but superusers'")
    if census.may_cancel:
        return ok("rights.cancel", f"may cancel queries of {', '.join(sorted(census.may_cancel))} alone, by membership")
    hint = "enough for dry run; to act, GRANT pg_signal_backend or membership in single roles"
    return ok("rights.cancel", f"may cancel nobody's queries: {hint}{_by_service(facts)}")


def _by_service(facts: Facts) -> str:
    told = [f"{each.name}: {each.rights}" for each in facts.services if each.rights is not None]
    return f" ({'; '.join(told)})" if told else ""


def _excess(facts: Facts) -> Check:
    own = facts.own
    if own.excess:
        hint = "a role that only watches needs none of these: a leaked password would give them away"
        return warning("rights.excess", f"{own.name} has {', '.join(own.excess)}", hint)
    return ok("rights.excess", f"{own.name} has no right that it does not need")


def _reserved(facts: Facts) -> Check:
    name, own = "rights.reserved_connections", facts.own
    ours = next((each for each in _service_reserves(facts) if not each.roles.isdisjoint(own.has)), None)
    if ours is not None:
        saw = f"{facts.parameters[ours.setting]} reserved by {ours.setting}, and {own.name} may use them"
        return ok(name, saw)
    reserved = facts.settings.server.get("reserved_connections")
    if own.reserved and reserved not in {None, "0"}:
        return ok(name, f"{reserved} reserved, and it may use them")
    if own.reserved is None:
        return _reserved_before_16(facts)
    may = "may" if own.reserved else "may not"
    saw = f"reserved_connections is {reserved or 'not known'}, and {own.name} {may} use them"
    hint = "when all connections are taken, a new session gets in only through these (needs a restart of the server)"
    told = "".join(f"; {each.setting}: {each.hint}" for each in _service_reserves(facts))
    remedies = () if own.reserved else (Remedy(GrantRole("pg_use_reserved_connections", own.name)),)
    return warning(name, saw, hint + told, remedies=remedies)


def _reserved_before_16(facts: Facts) -> Check:
    name = "rights.reserved_connections"
    for each in _service_reserves(facts):
        saw = f"{facts.parameters[each.setting]} reserved by {each.setting}, and {facts.own.name} may not use them"
        return warning(name, saw, f"{each.hint}; until then the session is opened before trouble and kept")
    return ok(name, "before PostgreSQL 16 there are none: the session is opened before trouble and kept")


def _service_reserves(facts: Facts) -> list[Reserved]:
    """Those of the services that are in force here."""
    found = [each.reserved for each in facts.services if each.reserved is not None]
    return [each for each in found if facts.parameters.get(each.setting, "0") != "0"]


def _password(facts: Facts) -> Check:
    name, ends = "rights.password", facts.own.password_ends
    hint = "after that no session can be opened with it: set a new one with a later VALID UNTIL, or with 'infinity'"
    if ends is None:
        return ok(name, f"no end is set for the password of {facts.own.name}")
    if ends <= timedelta(0):
        saw = f"the password of {facts.own.name} ended {span(-ends)} ago"
        return failed(name, saw, hint)
    saw = f"the password of {facts.own.name} ends in {span(ends)}"
    return warning(name, saw, hint) if ends <= PASSWORD_WARNING else ok(name, saw)
