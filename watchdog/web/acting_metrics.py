"""Turns looks into the series about acting: verdicts, arming, the lease, and the results of cancels."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from watchdog.core.acting.acts import FAILURES, ActResult, Outcome, Result
from watchdog.core.acting.rules import Rule
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import ActionWithheld, Withheld
from watchdog.core.present.look import Look
from watchdog.web.families import acting
from watchdog.web.labels import ClusterLabels
from watchdog.web.series import Series

BY_RULE = (
    acting.CANCEL_ATTEMPTS,
    acting.CANCEL_INEFFECTIVE,
    acting.RETRIES_AFTER_CANCEL,
    acting.DRY_RUN_CANCELS,
    acting.DRY_RUN_REGRETS,
)


@dataclass(frozen=True, slots=True)
class ActingMetrics:
    """Updates the series about acting of one cluster."""

    series: Series
    labels: ClusterLabels

    def apply_config(self, rules: Sequence[Rule]) -> None:
        """Create the counters of every rule with the value 0, so that they exist from the start."""
        for rule in rules:
            for metric in BY_RULE:
                self.series.count(metric, (rule.name,), 0)
            for withheld in Withheld:
                self.series.count(acting.CANCELS_WITHHELD, (rule.name, withheld), 0)
            for failure in FAILURES:
                self.series.count(acting.CANCEL_FAILURES, (rule.name, failure), 0)
        self.series.offer(acting.CANCEL_LAG_SECONDS, [()])

    def unread(self) -> None:
        """Show that the cluster is disarmed because it could not be read."""
        self._arming((DisarmReason.UNREAD,))

    def add(self, look: Look) -> None:
        """Update the series from one look."""
        self._verdicts(look)
        self._arming(look.disarmed)
        self._lease(look)
        for each in look.decisions.open_breakers:
            self.series.set(acting.BREAKER_OPEN, (each.rule, self.labels.roles.fold(each.role)), 1)
        self._acts(look)

    def _verdicts(self, look: Look) -> None:
        for verdict in look.decisions.news:
            if isinstance(verdict, ActionWithheld):
                self.series.count(acting.CANCELS_WITHHELD, (verdict.rule.name, verdict.reason), 1)

    def _arming(self, disarmed: Collection[DisarmReason]) -> None:
        self.series.set(acting.ENFORCING, (), not disarmed)
        for reason in DisarmReason:
            self.series.set(acting.DISARMED, (reason,), reason in disarmed)

    def _lease(self, look: Look) -> None:
        self.series.set(acting.LEADER, (), look.lease.leads)
        self.series.set(acting.CAN_CANCEL, (), look.census.may_cancel_any)
        self.series.set(acting.STUCK_AFTER_CANCEL, (), look.stuck)
        if not look.lease.leads and look.lease.held_by_other:
            self.series.set(acting.LEASE_HOLDER, (self.labels.roles.fold(lease_holder(look)),), 1)

    def _acts(self, look: Look) -> None:
        for result in look.results:
            self._result(result)
        for effect in look.effects:
            if effect.outcome is Outcome.INEFFECTIVE:
                self.series.count(acting.CANCEL_INEFFECTIVE, (effect.rule,), 1)
            if effect.regret:
                self.series.count(acting.DRY_RUN_REGRETS, (effect.rule,), 1)
        for retry in look.retries:
            self.series.count(acting.RETRIES_AFTER_CANCEL, (retry.rule,), 1)

    def _result(self, result: ActResult) -> None:
        rule = result.act.rule.name
        if result.withheld is not None:
            self.series.count(acting.CANCELS_WITHHELD, (rule, result.withheld), 1)
        if result.result is Result.REHEARSED:
            self.series.count(acting.DRY_RUN_CANCELS, (rule,), 1)
        elif result.result is not Result.NOT_TRIED:
            self.series.count(acting.CANCEL_ATTEMPTS, (rule,), 1)
        if result.result in FAILURES:
            self.series.count(acting.CANCEL_FAILURES, (rule, result.result), 1)
        if result.lag is not None:
            self.series.observe(acting.CANCEL_LAG_SECONDS, (), max(0.0, result.lag.total_seconds()))


def lease_holder(look: Look) -> str:
    """The role of the other session that holds the lease, or '' if there is none.

    A prepared transaction is named by the role that prepared it.
    """
    holder = look.lease.holder
    return "" if holder is None else look.census.role(holder.role)
