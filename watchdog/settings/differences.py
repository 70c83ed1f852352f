"""What differs between two configurations, in the words of the file: for `check --against` and the log of a reload.

It shows no connection string and no password.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta

from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.jobs import JobRule
from watchdog.settings.durations import format_duration
from watchdog.settings.tree import ClusterSettings, Settings


def differences(before: Settings, after: Settings) -> list[str]:
    """Every difference that decides what is found, or acted on, one line each. Budgets count with their grace."""
    return [
        *_clusters(before, after),
        *_budgets(before.book, after.book),
        *_rules(before, after),
        *_named("policy.limits", before.policy.limits, after.policy.limits),
        *_named("policy.protect", before.policy.protect, after.policy.protect),
        *_scalars(before, after),
    ]


def sooner(before: Settings, after: Settings) -> list[str]:
    """What makes a run a finding sooner than before: budgets that are new or shorter, and what is taken from them."""
    return [line for line in _budgets(before.book, after.book) if line.endswith(_SOONER)]


_NEW, _SHORTER, _FEWER, _NO_LONGER_SPARED = "(new)", "(shorter)", "(fewer)", "(no longer spared)"
_SOONER = (_NEW, _SHORTER, _FEWER, _NO_LONGER_SPARED)


def _clusters(before: Settings, after: Settings) -> Iterator[str]:
    old, new = ({each.name: each for each in settings.clusters} for settings in (before, after))
    yield from (f"cluster {name}: no longer watched" for name in old.keys() - new.keys())
    for name, cluster in new.items():
        if name not in old:
            yield f"cluster {name}: new{', and ARMED' if name in after.armed else ''}"
            continue
        yield from (f"cluster {name}: {what}" for what in _of_cluster(old[name], cluster))
        armed = name in before.armed, name in after.armed
        if armed[0] != armed[1]:
            yield f"cluster {name}: {'becomes ARMED' if armed[1] else 'is no longer armed'}"
    new_actors = sorted(name for name in old.keys() & new.keys() if _new_actor(before, after, old[name], new[name]))
    if new_actors:
        yield f"a new actor, which watches for two intervals before it acts: {', '.join(new_actors)}"


def _of_cluster(old: ClusterSettings, new: ClusterSettings) -> Iterator[str]:
    reached = (old.dsn, old.password_file, old.password_command, old.lease_database)
    if reached != (new.dsn, new.password_file, new.password_command, new.lease_database):
        yield "reached in another way, by a new session"
    if (old.pooled_roles, old.pooled_networks) != (new.pooled_roles, new.pooled_networks):
        yield "another set of poolers"
    if old.allow_untested != new.allow_untested:
        yield f"allow_untested: {new.allow_untested}".lower()


def _new_actor(before: Settings, after: Settings, old: ClusterSettings, new: ClusterSettings) -> bool:
    decides = [
        (
            settings.policy,
            settings.book,
            settings.interval,
            settings.ledger_url,
            each.enforces and settings.enforces,
            each,
        )
        for settings, each in ((before, old), (after, new))
    ]
    return decides[0] != decides[1]


def _budgets(before: BudgetBook, after: BudgetBook) -> Iterator[str]:
    yield from _durations("budget of {}", before.crossings(), after.crossings())
    yield from _durations("retry_gap of jobs {}", _retry_gaps(before), _retry_gaps(after))
    yield from _durations("budgets.{}", {"clock_skew": before.clock_skew}, {"clock_skew": after.clock_skew})
    copies = _copies(before), _copies(after)
    for pattern in sorted(copies[0].keys() | copies[1].keys()):
        old, new = copies[0].get(pattern), copies[1].get(pattern)
        if old != new:
            fewer = new is not None and (old is None or new < old)
            yield f"copies of jobs {pattern}: {_or_none(old)} → {_or_none(new)}{f' {_FEWER}' if fewer else ''}"
    if before.spares_half_closed != after.spares_half_closed:
        words = {True: "spare", False: "gone"}
        how = "" if after.spares_half_closed else f" {_NO_LONGER_SPARED}"
        yield f"budgets.half_close: {words[before.spares_half_closed]} → {words[after.spares_half_closed]}{how}"


def _durations(what: str, old: Mapping[str, timedelta], new: Mapping[str, timedelta]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        if was is None:
            how = f" {_NEW}"
        elif now is None:
            how = ""
        else:
            how = f" {_SHORTER}" if now < was else " (longer)"
        yield f"{what.format(name)}: {_shown(was)} → {_shown(now)}{how}"


def _shown(span: timedelta | None) -> str:
    return "none" if span is None else format_duration(span)


def _or_none(value: int | None) -> str:
    return "none" if value is None else str(value)


def _retry_gaps(book: BudgetBook) -> dict[str, timedelta]:
    return {_pattern(rule): rule.retry_gap for rule in book.jobs if rule.retry_gap is not None}


def _copies(book: BudgetBook) -> dict[str, int]:
    return {_pattern(rule): rule.copies for rule in book.jobs if rule.copies is not None}


def _pattern(rule: JobRule) -> str:
    return rule.pattern.text


def _rules(before: Settings, after: Settings) -> Iterator[str]:
    old, new = ({rule.name: rule for rule in settings.policy.rules} for settings in (before, after))
    yield from (f"rule {name}: removed" for name in old if name not in new)
    for name, rule in new.items():
        if name not in old:
            yield f"rule {name}: new ({rule.action})"
        elif rule != old[name]:
            yield f"rule {name}: changed ({', '.join(_changed(old[name], rule))})"
    common = [name for name in old if name in new], [name for name in new if name in old]
    if common[0] != common[1]:
        yield f"rules: in another order: {', '.join(common[1])}"


def _named(section: str, old: object, new: object) -> Iterator[str]:
    for name in _changed(old, new):
        yield f"{section}.{name}: {_words(getattr(old, name))} → {_words(getattr(new, name))}"


def _changed(old: object, new: object) -> list[str]:
    names = [each.name for each in fields(old) if each.init]  # type: ignore[arg-type]  # both are dataclasses
    return [name for name in names if getattr(old, name) != getattr(new, name)]


def _words(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower()


def _scalars(before: Settings, after: Settings) -> Iterator[str]:
    for name, old, new in (
        ("poll.interval", before.interval, after.interval),
        ("poll.census_interval", before.census_interval, after.census_interval),
        ("poll.timeout", before.timeout, after.timeout),
        ("ledger.keep", before.ledger_keep, after.ledger_keep),
    ):
        if old != new:
            yield f"{name}: {format_duration(old)} → {format_duration(new)}"
    if before.ledger_url != after.ledger_url:
        yield "ledger.url: another ledger, which knows nothing of earlier acts"
    if before.disarm_file != after.disarm_file:
        yield "policy.disarm_file: another file"
