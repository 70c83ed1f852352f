"""Protections: the sessions that are never cancelled. `PROTECTIONS` is the table, with one row for each reason.

They are tested before all other reasons to withhold an action. This module knows nothing of limits and earlier acts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from watchdog.core.acting.protected_names import BACKUP_APPLICATIONS, PROVIDER_ROLES
from watchdog.core.acting.rules import Rule
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.observed.activity import UNKNOWN, ActivityKind, Clock
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import Commands, statement_key
from watchdog.core.observed.names import matches, matches_application
from watchdog.core.observed.wait_events import SYNC_REP


@dataclass(frozen=True, slots=True, kw_only=True)
class Protect:
    """The protections that the configuration can turn off, and patterns of further roles and applications."""

    superusers: bool = True
    maintenance: bool = True
    backups: bool = True
    talking: bool = True
    roles: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectionContext:
    """What the protections need besides the finding: the census, the configuration, and the known first words."""

    census: Census
    protect: Protect
    commands: Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """One protection: its reason in metrics and in the ledger, its test, and its meaning in words.

    `by_command` is True if the test needs the first word of the command. It takes a round trip to read it, so it is
    read only if no other protection applies. `guarded` is True if the guarded statement tests the protection again on
    the row, because its cause can begin after the look.
    """

    reason: Withheld
    holds: Callable[[Finding, Rule, ProtectionContext], bool]
    meaning: str
    by_command: bool = False
    guarded: bool = False


def protection(finding: Finding, *, rule: Rule, context: ProtectionContext) -> Withheld | None:
    """The first protection that keeps `rule` from a finding's backend, or None."""
    return next((each.reason for each in PROTECTIONS if each.holds(finding, rule, context)), None)


def row_protection(finding: Finding, *, rule: Rule, context: ProtectionContext) -> Withheld | None:
    """As `protection`, but without the tests that need the first word of the command."""
    return next((each.reason for each in _ROW_PROTECTIONS if each.holds(finding, rule, context)), None)


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
    """True if the name of another session is the only reason for a cancel, and the job is not bound to this role.

    Any session can set any application_name, so the name of another session is not enough for a cancel.
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
    unread = command is not None and command.unread
    word = None if command is None else command.word
    return context.protect.maintenance and key is not None and word is None and not unread


def _is_unread(finding: Finding, context: ProtectionContext) -> bool:
    key = statement_key(finding.backend)
    command = None if key is None else context.commands.get(key)
    return context.protect.maintenance and command is not None and command.unread


PROTECTIONS: tuple[Protection, ...] = (
    Protection(
        reason=Withheld.SUPERUSER,
        holds=lambda f, _, c: c.protect.superusers and f.backend.role in c.census.superusers,
        meaning="its role is a superuser",
    ),
    Protection(
        reason=Withheld.PROVIDER,
        holds=lambda f, _, __: f.backend.role in PROVIDER_ROLES,
        meaning="its role belongs to the provider of a managed service",
    ),
    # A role that is not in the census may be a superuser. The guarded statement cannot check a row without a role oid.
    Protection(
        reason=Withheld.UNKNOWN_ROLE,
        holds=lambda f, _, __: f.backend.role == UNKNOWN or f.backend.role_oid is None,
        meaning="its role is not known",
    ),
    Protection(
        reason=Withheld.HIDDEN,
        holds=lambda f, _, c: f.backend.role in c.census.hidden_roles,
        meaning="sessions of its role are hidden from ours",
    ),
    Protection(
        reason=Withheld.PROTECTED_ROLE,
        holds=lambda f, _, c: matches(f.backend.role, c.protect.roles),
        meaning="policy.protect.roles names its role",
    ),
    Protection(
        reason=Withheld.PROTECTED_APPLICATION,
        holds=lambda f, _, c: matches_application(f.backend.application_name, c.protect.applications, spares=True),
        meaning="policy.protect.applications names its application",
    ),
    Protection(
        reason=Withheld.BACKUP,
        holds=lambda f, _, c: c.protect.backups and _is_backup(f),
        meaning="it is a backup or a dump",
    ),
    Protection(
        reason=Withheld.SYNC_REP,
        holds=lambda f, _, __: f.backend.wait_event == SYNC_REP,
        meaning="its commit waits for a synchronous standby",
        guarded=True,
    ),
    Protection(
        reason=Withheld.WAITS_FOR_CLIENT,
        holds=lambda f, _, __: f.backend.activity is not ActivityKind.RUNNING,
        meaning="it waits for its client: a signal would stay pending",
        guarded=True,
    ),
    Protection(
        reason=Withheld.CLIENT_TALKING,
        holds=lambda f, _, c: c.protect.talking and f.talking,
        meaning="a statement arrived within the last interval, so its client is there",
    ),
    Protection(
        reason=Withheld.WRITER,
        holds=lambda f, r, _: not r.writers and _is_writer(f),
        meaning="its transaction has written, or has committed inside a procedure",
        guarded=True,
    ),
    Protection(
        reason=Withheld.UNBOUND_JOB,
        holds=lambda f, r, _: _by_anothers_name(f, r),
        meaning="only another session's name speaks against it, and no `roles:` binds the job to its role",
    ),
    Protection(
        reason=Withheld.MAINTENANCE,
        holds=lambda f, _, c: _is_maintenance(f, c),
        meaning="it runs a maintenance command",
        by_command=True,
    ),
    Protection(
        reason=Withheld.COMMAND_UNREADABLE,
        holds=lambda f, _, c: _is_unreadable(f, c),
        meaning="the first word of its command cannot be read, so it may be maintenance",
        by_command=True,
    ),
    Protection(
        reason=Withheld.COMMAND_UNREAD,
        holds=lambda f, _, c: _is_unread(f, c),
        meaning="the statement that reads first words failed, so its command may be maintenance",
        by_command=True,
    ),
)

_ROW_PROTECTIONS = tuple(each for each in PROTECTIONS if not each.by_command)
