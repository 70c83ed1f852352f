"""Checks what a file must fulfil before it may arm. The checks read raw values, so that each problem has a place."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from watchdog.core.judging.budgets import DEFAULT_GRACE, DEFAULT_SKEW
from watchdog.settings.arming_file import untrusted
from watchdog.settings.document import Document, Place, Value
from watchdog.settings.durations import parse_duration

DEFAULT_INTERVAL = timedelta(seconds=5)
"""Time between two looks at a cluster, where the file says nothing."""

CheckUrl = Callable[[str], str | None]
"""Returns the problem of a ledger's URL, or None. The package that owns the ledger provides it."""

Found = tuple[Place, str]
_EVIDENCE_OF_DUPLICATES = ["superseded"]


def check_policy(document: Document, *, check_url: CheckUrl) -> Iterator[Found]:
    """The problems of the sections policy and ledger that the schema cannot check."""
    policy = _mapping(document.values.get("policy"))
    ledger = _mapping(document.values.get("ledger"))
    rules = policy.get("rules")
    yield from _rules(rules if isinstance(rules, list) else [])
    url = ledger.get("url")
    if isinstance(url, str) and (problem := check_url(url)) is not None:
        yield ("ledger", "url"), problem
    if policy.get("mode") == "enforce":
        yield from _enforcing(rules, url)


def check_file(document: Document, path: Path) -> Iterator[Found]:
    """The problem of a file that arms although others could change or replace it, because it decides about cancels."""
    if not arms(document):
        return
    try:
        problem = untrusted(path)
    except OSError as error:
        problem = f"this file arms, and who may change it cannot be found out: {error.strerror}"
    if problem is not None:
        yield ("policy", "mode"), problem


def check_variables(document: Document, variables: Mapping[Place, Value]) -> Iterator[Found]:
    """The variables that would make a file that arms act sooner, or on more. They are decided in the file alone.

    `document` is the file without the variables. What cannot be read is a problem elsewhere.
    """
    for place, value in variables.items() if arms(document) else ():
        written = document.value(place)
        if place in _SOONER_IF_LESS and _is_less(value, _DEFAULTS.get(place) if written is None else written):
            yield place, "would make a file that arms act sooner or on more: write it in the file"
        if place == _HALF_CLOSE and (written, value) == ("spare", "gone"):
            yield place, "would make a file that arms act on more: write it in the file"


def arms(document: Document) -> bool:
    """True if both keys of the file say enforce."""
    policy, clusters = _mapping(document.values.get("policy")), document.values.get("clusters")
    entries = clusters if isinstance(clusters, list) else []
    return policy.get("mode") == "enforce" and any(_mapping(each).get("mode") == "enforce" for each in entries)


_HALF_CLOSE: Place = ("budgets", "half_close")
_SOONER_IF_LESS: frozenset[Place] = frozenset(
    {("budgets", "default"), ("budgets", "grace"), ("budgets", "clock_skew"), ("poll", "interval")}
)
_DEFAULTS: Mapping[Place, timedelta] = {
    ("budgets", "grace"): DEFAULT_GRACE,
    ("budgets", "clock_skew"): DEFAULT_SKEW,
    ("poll", "interval"): DEFAULT_INTERVAL,
}


def _is_less(value: Value, written: Value) -> bool:
    """True if the duration is shorter than what is written, or if nothing is."""
    try:
        now = parse_duration(value, zero=True)
        return written is None or now < parse_duration(written, zero=True)
    except ValueError:
        return False


def _enforcing(rules: Value, url: Value) -> Iterator[Found]:
    if rules is None:
        yield ("policy", "mode"), "enforce needs rules: name under policy.rules what may be cancelled"
    elif isinstance(rules, list) and not any(_mapping(each).get("action") == "cancel" for each in rules):
        yield ("policy", "rules"), "enforce needs a rule with action: cancel"
    if url is None:
        yield ("policy", "mode"), "enforce needs a ledger: every act is on record; set ledger.url"


def _rules(rules: list[Value]) -> Iterator[Found]:
    names: dict[Value, int] = {}
    for i, each in enumerate(rules):
        rule, place = _mapping(each), ("policy", "rules", i)
        name = rule.get("name")
        if isinstance(name, str):
            if name in names:
                yield (*place, "name"), f"{name!r} is already the name of policy.rules[{names[name]}]"
            names.setdefault(name, i)
        if (
            rule.get("finding") == "duplicate"
            and rule.get("evidence", _EVIDENCE_OF_DUPLICATES) != _EVIDENCE_OF_DUPLICATES
        ):
            yield (*place, "evidence"), "for duplicates the only evidence is superseded"
        if rule.get("finding") != "duplicate" and rule.get("keep") is not None:
            yield (*place, "keep"), "is about duplicates only"
        if rule.get("action") == "cancel":
            yield from _cancelling(rule, place)


def _cancelling(rule: dict[str, Value], place: Place) -> Iterator[Found]:
    if "evidence" not in rule:
        yield (*place, "action"), "cancel needs evidence, for example evidence: [over_budget]"
    if not {"roles", "databases", "jobs"} & rule.keys():
        yield (*place, "action"), 'cancel needs roles, databases or jobs; roles: ["*"] is how one says all'


def _mapping(value: Value) -> dict[str, Value]:
    return value if isinstance(value, dict) else {}
