"""Blind spots: the sessions that cannot be judged, and the configuration that matches nothing on the server.

This module reads facts. It knows nothing of how they are read from the server.
"""

from collections import Counter
from collections.abc import Iterator

from watchdog.core.doctor.changes import Remedy, SetForRole, SetParameter
from watchdog.core.doctor.checks import Check, ok, unknown, warning
from watchdog.core.doctor.facts import Facts
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.jobs import JobClaim, NoKey, read_name
from watchdog.core.observed.names import name_pattern

GENERIC = frozenset({"PostgreSQL JDBC Driver", "psql", "DBeaver", "pgAdmin", "python", "node", "app", "unknown", ""})
"""Values of application_name that do not identify the caller. They are defaults of drivers and tools."""

MAX_NAMED = 8
"""Upper bound of the names that one check lists."""


def audit_blind_spots(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    """The checks for sessions that are not visible, and for sessions that are visible and not judged."""
    yield from _tracking(facts)
    yield from _query_ids(facts)
    yield from _names(facts, book=book)
    yield from _budgets(facts, book=book)
    yield from _jobs(facts, book=book)
    yield from _set_role(facts)


def _tracking(facts: Facts) -> Iterator[Check]:
    off = facts.look.census.tracking_off
    stored = [each for each in facts.settings.stored if each.name == "track_activities" and _is_off(each.text)]
    server = facts.settings.server.get("track_activities")
    if server is not None and _is_off(server):
        hint = "without it no session can be judged"
        on = Remedy(SetParameter("track_activities"))
        yield warning("track_activities", "off on the server", hint, remedies=(on,))
    elif stored or off:
        who = ", ".join(each.role or f"database {each.database}" for each in stored) or "sessions of their own accord"
        remedies = tuple(
            Remedy(SetForRole(role=each.role, name=each.name, database=each.database)) for each in stored if each.role
        )
        saw = f"off for {who}; {off} sessions now"
        yield warning("track_activities", saw, "these cannot be judged", remedies=remedies)
    else:
        yield ok("track_activities", "on for everybody")


def _query_ids(facts: Facts) -> Iterator[Check]:
    value = facts.settings.server.get("compute_query_id")
    seen = any(case.backend.query_id is not None for case in facts.look.judgement.cases)
    if seen or value in {"on", "regress"}:
        yield ok("compute_query_id", "query ids are computed: piles of the same query show")
    elif value == "auto":
        yield unknown(
            "compute_query_id", "auto: only where an extension asks for them", "on shows piles of the same query"
        )
    else:
        hint = "without query ids orphans that are alike are not seen as one pile"
        remedies = (Remedy(SetParameter("compute_query_id", "on")),)
        yield warning("compute_query_id", value or "not known", hint, remedies=remedies)


def _names(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    read = {name: read_name(name, rules=book.jobs) for name in set(facts.names)}
    unusable = sorted(name for name, key in read.items() if key is NoKey.UNUSABLE)
    if unusable:
        hint = "cut at 63 bytes, ambiguous, without a window or with letters outside ASCII: shorten them"
        yield warning("job_names", f"{len(unusable)} cannot be used: {_some(unusable)}", hint)
    else:
        keyed = sum(isinstance(key, JobClaim) for key in read.values())
        yield ok("job_names", f"{keyed} job keys now, all of them usable")
    counted = Counter(name for name in facts.names if name in GENERIC)
    if counted:
        told = ", ".join(f"{name or 'no name'} ({count})" for name, count in counted.most_common(MAX_NAMED))
        hint = "let each application set its own application_name; with jobs scan:<job>:<window>"
        yield warning("generic_names", told, hint)
    else:
        yield ok("generic_names", "none")


def _budgets(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    unjudged = sorted({case.backend.role for case in facts.look.judgement.cases if case.budget is None})
    if book.empty:
        yield warning("budgets", "there is none", "without a budget nothing can be called an orphan")
    elif unjudged:
        yield warning(
            "budgets.missing", f"running now and not judged: {_some(unjudged)}", "give them a budget, or a default"
        )
    else:
        yield ok("budgets.missing", "everybody who runs something now has one")
    known = {role.name for role in facts.roles}
    named = {*book.roles, *(role for rule in book.jobs for role in rule.roles)}
    strangers = sorted(each for each in named if not any(name_pattern(each).matches(role) for role in known))
    if strangers:
        yield warning("budgets.unmatched", f"no such role: {_some(strangers)}", "is the name spelled as on the server?")
    else:
        yield ok("budgets.unmatched", "every role with a budget exists")


def _jobs(facts: Facts, *, book: BudgetBook) -> Iterator[Check]:
    claims = [key for name in set(facts.names) if isinstance(key := read_name(name, rules=book.jobs), JobClaim)]
    matched = {id(claim.rule) for claim in claims}
    silent = [rule.pattern.text for rule in book.jobs if id(rule) not in matched]
    if silent and claims:
        yield unknown(
            "job_patterns", f"matched nothing now: {_some(silent)}", "may be right: look again while they run"
        )
    elif silent:
        yield unknown(
            "job_patterns", "no session carries a job key now", "tagged sessions get more: copies, retries, budgets"
        )
    else:
        yield ok("job_patterns", "each matches somebody now")
    undeclared = sorted(
        {
            group[0].job
            for group in facts.look.judgement.copies.values()
            if len(group) > 1
            and (claim := group[0].claim)
            and (claim.rule.copies is None or claim.rule.retry_gap is None)
        }
    )
    if undeclared:
        hint = "say copies: and retry_gap: for them, and retries can be told from overlaps"
        yield warning("copies.undeclared", f"copies run now of {_some(undeclared)}", hint)
    else:
        yield ok("copies.undeclared", "no copies run now of jobs that do not declare them")


def _set_role(facts: Facts) -> Iterator[Check]:
    if not facts.set_role:
        yield ok("set_role", "no login role becomes another")
        return
    pairs = [f"{member} → {role}" for member, role in facts.set_role]
    hint = "settings stored for a role without login are not loaded by SET ROLE: store them for the login role"
    yield warning("set_role", f"login roles that SET ROLE: {_some(pairs)}", hint)


def _is_off(text: str) -> bool:
    return text.strip().lower() in {"off", "false", "no", "0", "f", "n", "of"}


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return f"{shown} and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else shown
