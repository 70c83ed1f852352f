"""Protections: who is never touched, each reason one row. Asked before anything else about a finding is."""

from collections.abc import Callable
from dataclasses import dataclass

from watchdog.core.acting.protected_names import BACKUP_APPLICATIONS, PROVIDER_ROLES
from watchdog.core.acting.rules import Rule, matches
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.observed.activity import UNKNOWN, ActivityKind, Clock
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import Commands, statement_key


@dataclass(frozen=True, slots=True)
class Protect:
    """What the configuration says about protections. All of them stand unless it takes one away."""

    superusers: bool = True
    maintenance: bool = True
    backups: bool = True
    talking: bool = True
    roles: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectionContext:
    """What a finding's row alone does not say: names and rights, the configuration, and what runs."""

    census: Census
    protect: Protect
    commands: Commands


def protection(finding: Finding, *, rule: Rule, context: ProtectionContext) -> Withheld | None:
    """The first reason why a finding's backend may not be touched by `rule`, or None."""
    return next((reason for reason, holds in PROTECTIONS if holds(finding, rule, context)), None)


def row_protection(finding: Finding, *, rule: Rule, context: ProtectionContext) -> Withheld | None:
    """As `protection`, without what only the text of the command shows: that is worth asking if this is None."""
    rows = PROTECTIONS[:-_BY_COMMAND]
    return next((reason for reason, holds in rows if holds(finding, rule, context)), None)


def _is_backup(finding: Finding) -> bool:
    name = finding.backend.application_name.lower()
    return any(name == tool or name.startswith(tuple(tool + each for each in " /[_")) for tool in BACKUP_APPLICATIONS)


def _is_writer(finding: Finding) -> bool:
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    committed_inside = (
        backend.activity is ActivityKind.RUNNING
        and statement is not None
        and backend.transaction is not None
        and backend.transaction.at > statement.at
    )
    return backend.has_xid or committed_inside


def _by_anothers_name(finding: Finding, rule: Rule) -> bool:
    """True where another session's name alone would cost this one its life, and nobody has bound the job to its role.

    A name is a claim of its own session: anybody may take any.
    """
    decides = rule.evidence & set(finding.evidence)
    named = finding.kind is Kind.DUPLICATE or decides == {Evidence.SUPERSEDED}
    return named and not finding.bound


def _is_maintenance(finding: Finding, context: ProtectionContext) -> bool:
    key = statement_key(finding.backend)
    command = None if key is None else context.commands.get(key)
    return context.protect.maintenance and command is not None and command.is_maintenance


def _is_unreadable(finding: Finding, context: ProtectionContext) -> bool:
    key = statement_key(finding.backend)
    command = None if key is None else context.commands.get(key)
    return context.protect.maintenance and key is not None and (command is None or command.word is None)


Protection = Callable[[Finding, Rule, ProtectionContext], bool]

PROTECTIONS: tuple[tuple[Withheld, Protection], ...] = (
    (Withheld.SUPERUSER, lambda f, _, s: s.protect.superusers and f.backend.role in s.census.superusers),
    (Withheld.PROVIDER, lambda f, _, __: f.backend.role in PROVIDER_ROLES),
    # A role younger than the census may be a superuser, and a row without one cannot be checked again.
    (Withheld.UNKNOWN_ROLE, lambda f, _, __: f.backend.role == UNKNOWN or f.backend.role_oid is None),
    (Withheld.HIDDEN, lambda f, _, s: f.backend.role in s.census.hidden_roles),
    (Withheld.PROTECTED_ROLE, lambda f, _, s: matches(f.backend.role, s.protect.roles)),
    (
        Withheld.PROTECTED_APPLICATION,
        lambda f, _, s: matches(f.backend.application_name, s.protect.applications),
    ),
    (Withheld.BACKUP, lambda f, _, s: s.protect.backups and _is_backup(f)),
    (Withheld.SYNC_REP, lambda f, _, __: f.backend.wait_event == "SyncRep"),
    (Withheld.WAITS_FOR_CLIENT, lambda f, _, __: f.backend.activity is not ActivityKind.RUNNING),
    (Withheld.CLIENT_TALKING, lambda f, _, s: s.protect.talking and f.talking),
    (Withheld.WRITER, lambda f, r, _: not r.writers and _is_writer(f)),
    (Withheld.UNBOUND_JOB, lambda f, r, _: _by_anothers_name(f, r)),
    (Withheld.MAINTENANCE, lambda f, _, s: _is_maintenance(f, s)),
    (Withheld.COMMAND_UNREADABLE, lambda f, _, s: _is_unreadable(f, s)),
)
_BY_COMMAND = 2
"""How many of the last rows need the command's first word."""
