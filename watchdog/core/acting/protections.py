"""Protections: the sessions that are never cancelled. `PROTECTIONS` is the table, with one row for each reason.

They are tested before all other reasons to withhold an action. This module knows nothing of limits and earlier acts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from watchdog.core.acting.protected_names import BACKUP_APPLICATIONS, BACKUP_PREFIXES, PROVIDER_ROLES
from watchdog.core.acting.rules import Rule
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.observed.activity import UNKNOWN, ActivityKind, Clock
from watchdog.core.observed.census import Census
from watchdog.core.observed.commands import Command, Commands, statement_key
from watchdog.core.observed.names import matches, matches_application, split_client
from watchdog.core.observed.wait_events import BACKUP_WAITS, SYNC_REP


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
    name = split_client(finding.backend.application_name)[0].lower()
    return name in BACKUP_APPLICATIONS or name.startswith(BACKUP_PREFIXES)


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


def _command(finding: Finding, context: ProtectionContext) -> Command | None:
    """What is known of its commands. None for a fast-path call, which has no text, and where nobody asked."""
    key = statement_key(finding.backend)
    return None if key is None else context.commands.get(key)


def _is_maintenance(finding: Finding, context: ProtectionContext) -> bool:
    command = _command(finding, context)
    return context.protect.maintenance and command is not None and command.is_maintenance


def _writes(finding: Finding, rule: Rule, context: ProtectionContext) -> bool:
    command = _command(finding, context)
    return not rule.writers and command is not None and command.writes


def _is_unreadable(finding: Finding, rule: Rule, context: ProtectionContext) -> bool:
    command = _command(finding, context)
    has_text = statement_key(finding.backend) is not None
    return needs_words(rule, context.protect) and has_text and (command is None or command.is_unreadable)


def _is_unread(finding: Finding, rule: Rule, context: ProtectionContext) -> bool:
    command = _command(finding, context)
    return needs_words(rule, context.protect) and command is not None and command.unread


def needs_words(rule: Rule, protect: Protect) -> bool:
    """True if a command's first word can keep the rule from it."""
    return protect.maintenance or not rule.writers


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
        reason=Withheld.BACKUP,
        holds=lambda f, _, __: f.backend.wait_event in BACKUP_WAITS,
        meaning="it waits for a checkpoint or for the archive, as who takes a backup does",
        guarded=True,
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
        meaning="it runs a maintenance command, or one of several commands in its text is one",
        by_command=True,
    ),
    Protection(
        reason=Withheld.WRITER,
        holds=_writes,
        meaning="its command writes, and has no transaction id here: it has not begun, or writes elsewhere",
        by_command=True,
    ),
    Protection(
        reason=Withheld.COMMAND_UNREADABLE,
        holds=_is_unreadable,
        meaning="the first words of its commands cannot be read, so it may be maintenance or write elsewhere",
        by_command=True,
    ),
    Protection(
        reason=Withheld.COMMAND_UNREAD,
        holds=_is_unread,
        meaning="the statement that reads first words failed, so it may be maintenance or write elsewhere",
        by_command=True,
    ),
)

_ROW_PROTECTIONS = tuple(each for each in PROTECTIONS if not each.by_command)
