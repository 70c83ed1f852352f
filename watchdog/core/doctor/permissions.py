"""Who may run which remedy: by what the catalogs say of the role that will run it, and by the service.

The rules are the server's own (CREATE ROLE, ALTER ROLE, ALTER SYSTEM and GRANT in the PostgreSQL documentation). Where
they depend on what is not read, such as privileges on parameters, the answer is no.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from watchdog.core.doctor.changes import Change, GrantRole, LimitConnections, Remedy, SetForRole, SetParameter
from watchdog.core.doctor.checks import Check
from watchdog.core.doctor.facts import Facts, RoleFacts
from watchdog.core.observed.services import Service

ADMIN_OPTION_FROM = 160_000
"""From here on CREATEROLE reaches only the roles that its holder has ADMIN OPTION on."""

SUPERUSERS_SETTINGS = frozenset({"track_activities"})
"""Of the settings that we store for roles, those that only a superuser may set."""


def settled(checks: Iterable[Check], *, facts: Facts, runner: str | None) -> list[Check]:
    """The checks with every remedy withheld that `runner` may not run; None stands for a superuser."""
    return [
        replace(each, remedies=tuple(_settled(remedy, facts, runner) for remedy in each.remedies)) for each in checks
    ]


def _settled(remedy: Remedy, facts: Facts, runner: str | None) -> Remedy:
    change = remedy.change
    if remedy.withheld:
        return remedy
    if isinstance(change, SetParameter) and facts.services:
        return replace(remedy, withheld=how_set(facts.services), instead=(change.plain,))
    return replace(remedy, withheld=_refusal(change, facts, runner))


def how_set(services: Sequence[Service]) -> str:
    """How these services set a parameter, as a sentence."""
    return "; ".join(
        f"{each.name}: set it {each.parameters}"
        if each.parameters is not None
        else f"{each.name}: how a parameter is set there is not known here, see its documentation"
        for each in services
    )


def _refusal(change: Change, facts: Facts, runner: str | None) -> str:
    """Why the server would refuse it, or ''."""
    if isinstance(change, SetParameter) and facts.settings.server.get("allow_alter_system") == "off":
        return "allow_alter_system is off: set it where this server's configuration is kept"
    if not isinstance(change, SetParameter) and facts.look.snapshot.in_recovery:
        return "this server is a standby: run it on the primary"
    if runner is None:
        return ""
    role = facts.role(runner)
    if role is None:
        return f"there is no role {runner} on this server"
    return "" if role.superuser else _refusal_by_rights(change, facts, role)


def _refusal_by_rights(change: Change, facts: Facts, runner: RoleFacts) -> str:
    match change:
        case SetParameter():
            return f"{runner.name} is no superuser, and ALTER SYSTEM takes one"
        case SetForRole():
            return _cannot_set(change, facts, runner)
        case LimitConnections():
            return _cannot_limit(change, facts, runner)
        case GrantRole():
            return _cannot_grant(change, facts, runner)


def _cannot_set(change: SetForRole, facts: Facts, runner: RoleFacts) -> str:
    if change.name in SUPERUSERS_SETTINGS:
        return f"{runner.name} is no superuser, and only one may set {change.name}"
    return "" if change.role == runner.name else _cannot_alter(change.role, facts, runner)


def _cannot_limit(change: LimitConnections, facts: Facts, runner: RoleFacts) -> str:
    target = facts.role(change.role)
    if facts.server_version < ADMIN_OPTION_FROM and target is not None and target.replication:
        return f"{runner.name} is no superuser, and {change.role} has REPLICATION"
    return _cannot_alter(change.role, facts, runner)


def _cannot_grant(change: GrantRole, facts: Facts, runner: RoleFacts) -> str:
    if runner.create_role and facts.server_version < ADMIN_OPTION_FROM:
        return ""
    return "" if _administers(change.role, facts, runner) else f"{runner.name} has no ADMIN OPTION on {change.role}"


def _cannot_alter(role: str, facts: Facts, runner: RoleFacts) -> str:
    target = facts.role(role)
    if target is None:
        return f"there is no role {role} on this server"
    if target.superuser:
        return f"{runner.name} is no superuser, and {role} is one"
    if not runner.create_role:
        return f"{runner.name} has no CREATEROLE"
    if facts.server_version >= ADMIN_OPTION_FROM and not _administers(role, facts, runner):
        return f"{runner.name} has no ADMIN OPTION on {role}"
    return ""


def _administers(role: str, facts: Facts, runner: RoleFacts) -> bool:
    """True where it has ADMIN OPTION on `role`, itself or by a role whose rights it inherits."""
    reached, found = {runner.name}, {runner.name}
    while found:
        found = {each.role for each in facts.members if each.inherits and each.member in found} - reached
        reached |= found
    return any(each.admin and each.role == role and each.member in reached for each in facts.members)
