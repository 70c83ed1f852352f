"""Breakers: what stops acting on the sessions of one role, or on the whole cluster, after acts that did not work.

Each rule has a breaker for each role, so that stubborn sessions of one role stop nothing for the others. A cancel that
the server refuses opens the role's breaker for every rule. Open breakers of several roles open the cluster's. This
module knows nothing of findings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from watchdog.core.acting.limits import Limits
from watchdog.core.observed.census import Census

ROLES_THAT_STOP_ALL = 3
"""Number of roles whose breakers are open at the same time, at which the cluster's opens."""

FORGET_AFTER = timedelta(days=1)
"""Time after which a failure no longer counts. It is how far back a new actor reads the ledger."""


@dataclass(frozen=True, slots=True, order=True)
class BreakerKey:
    """Whose breaker it is. The rule is '' for all rules; both are '' for the cluster's."""

    rule: str = ""
    role: str = ""


CLUSTER = BreakerKey()


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One breaker. `failures` is the number of ineffective runs in a row, `failed_at` the time of the last of them.

    `opened_at` is None while it is closed. `right_was_missing` is True if the census has shown, since a refusal, that
    pgwatchdog's role lacks the right to cancel the role's queries.
    """

    failures: int = 0
    failed_at: datetime | None = None
    opened_at: datetime | None = None
    refused: bool = False
    right_was_missing: bool = False


Breakers = Mapping[BreakerKey, Breaker]


def after_failure(breakers: Breakers, *, rule: str, role: str, limits: Limits, at: datetime) -> Breakers:
    """The breakers after a run of `role` that a cancel by `rule` did not end."""
    key = BreakerKey(rule, role)
    before = breakers.get(key, Breaker())
    failures = before.failures + 1
    if failures < limits.stop_after_failures:
        return {**breakers, key: replace(before, failures=failures, failed_at=at)}
    return _opened({**breakers, key: Breaker(failed_at=at, opened_at=at)}, limits=limits, at=at)


def after_success(breakers: Breakers, *, rule: str, role: str) -> Breakers:
    """The breakers after a run of `role` that a cancel by `rule` has ended. One that is open stays open."""
    key = BreakerKey(rule, role)
    before = breakers.get(key)
    if before is None or before.opened_at is not None:
        return breakers
    return {each: breaker for each, breaker in breakers.items() if each != key}


def after_refusal(breakers: Breakers, *, role: str, limits: Limits, at: datetime) -> Breakers:
    """The breakers after the server refused a cancel for lack of a privilege.

    Acts are decided only where the census says that the right is there, so what is known of it is wrong.
    """
    refused = Breaker(opened_at=at, refused=True)
    return _opened({**breakers, BreakerKey(role=role): refused}, limits=limits, at=at)


def with_rights(breakers: Breakers, *, census: Census) -> Breakers:
    """The breakers with what the census says about rights: one that was missing and is there again closes its breaker.

    The cluster's closes with it.
    """
    kept: dict[BreakerKey, Breaker] = {}
    for key, breaker in breakers.items():
        missing = breaker.refused and not census.may_cancel_of(key.role)
        if breaker.refused and breaker.right_was_missing and not missing:
            continue
        kept[key] = replace(breaker, right_was_missing=True) if missing else breaker
    if len(kept) < len(breakers):
        kept.pop(CLUSTER, None)
    return kept


def until_closed(breakers: Breakers, *, rule: str, role: str, limits: Limits, at: datetime) -> timedelta:
    """The time for which a cancel by `rule` is withheld from `role`; not above 0 if it is not."""
    keys = (CLUSTER, BreakerKey(role=role), BreakerKey(rule, role))
    return max(_left(breakers.get(key), limits=limits, at=at) for key in keys)


def open_breakers(breakers: Breakers, *, limits: Limits, at: datetime) -> Iterator[BreakerKey]:
    """Whose breakers are open."""
    for key, breaker in breakers.items():
        if _left(breaker, limits=limits, at=at) > timedelta(0):
            yield key


def later_opened(one: Breakers, other: Breakers) -> Breakers:
    """The breakers of `other`, and of `one` those that are open and were opened later, or are only there."""
    kept = dict(other)
    for key, breaker in one.items():
        known = other.get(key)
        opened = None if known is None else known.opened_at
        if breaker.opened_at is not None and (opened is None or breaker.opened_at >= opened):
            kept[key] = breaker
    return kept


def pruned(breakers: Breakers, *, limits: Limits, at: datetime) -> Breakers:
    """The breakers without those that are closed again, and without failures that no longer count.

    Failures that were counted while a breaker was open (of acts that were under way) go on counting when it closes.
    """
    kept: dict[BreakerKey, Breaker] = {}
    for key, breaker in breakers.items():
        if _left(breaker, limits=limits, at=at) > timedelta(0):
            kept[key] = breaker
        elif breaker.failures and breaker.failed_at is not None and at - breaker.failed_at < FORGET_AFTER:
            kept[key] = Breaker(failures=breaker.failures, failed_at=breaker.failed_at)
    return kept


def _opened(breakers: Breakers, *, limits: Limits, at: datetime) -> Breakers:
    """The breakers with the cluster's, if those of several roles are open."""
    roles = {key.role for key in open_breakers(breakers, limits=limits, at=at) if key != CLUSTER}
    if len(roles) < ROLES_THAT_STOP_ALL:
        return breakers
    return {**breakers, CLUSTER: Breaker(opened_at=at)}


def _left(breaker: Breaker | None, *, limits: Limits, at: datetime) -> timedelta:
    if breaker is None or breaker.opened_at is None:
        return timedelta(0)
    return breaker.opened_at + limits.stop_for - at
