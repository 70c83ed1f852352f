"""Checks what a file must fulfil before it may arm. The checks read raw values, so that each problem has a place."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from watchdog.settings.document import Document, Place, Value

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
    """The problem of a file that arms although others than its owner may write it, because it decides about cancels."""
    policy, clusters = _mapping(document.values.get("policy")), document.values.get("clusters")
    entries = clusters if isinstance(clusters, list) else []
    if policy.get("mode") != "enforce" or not any(_mapping(each).get("mode") == "enforce" for each in entries):
        return
    mode = path.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "everybody" if mode & stat.S_IWOTH else "its group"
        yield ("policy", "mode"), f"this file arms and {who} may write it: chmod go-w {path.name}"


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
