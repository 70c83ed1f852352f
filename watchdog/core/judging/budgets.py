"""Budgets: how long the caller of a role or a job waits before it gives up.

Owns which budget applies to which row. Knows no rows' ages: comparing is the judge's work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from watchdog.core.judging.jobs import DEFAULT_PATTERN, BudgetSpec, JobClaim, JobRule, parse_pattern
from watchdog.core.observed.activity import Clock

DEFAULT_GRACE = timedelta(seconds=5)
"""Drivers that cancel at their own timeout need about 0.3 s; a watchdog without grace races them."""

DEFAULT_SKEW = timedelta(seconds=2)
"""How far the clocks of callers who state a deadline may be from the server's."""

MIN_INTERVAL = timedelta(seconds=1)
"""No cluster is looked at more often; a smaller budget belongs into the server's own statement_timeout."""

DEFAULT_NEARING = 0.8
DEFAULT_JOBS = (JobRule(pattern=parse_pattern(DEFAULT_PATTERN)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget that applies to one row. `source` is bounded by configuration and may be a label."""

    limit: timedelta
    grace: timedelta
    holding: timedelta
    source: str
    clock: Clock

    @property
    def crossing(self) -> timedelta:
        """The age from which a run is an orphan."""
        return self.limit + self.grace


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetBook:
    """Every configured budget. An empty book judges nothing, and whoever reads it must say so."""

    grace: timedelta = DEFAULT_GRACE
    nearing: float = DEFAULT_NEARING
    clock_skew: timedelta = DEFAULT_SKEW
    default: timedelta | None = None
    roles: Mapping[str, BudgetSpec] = field(default_factory=dict)
    jobs: tuple[JobRule, ...] = DEFAULT_JOBS
    provider_roles: frozenset[str] = frozenset()

    def budget(self, role: str, *, claim: JobClaim | None) -> Budget | None:
        """The budget for a row of `role` that carries `claim`, or None where nothing is configured.

        A job's budget replaces the role's for the roles that its rule names; elsewhere the smaller counts,
        because a name is only a claim.
        """
        keyed = claim is not None
        by_role = self._by_role(role, keyed=keyed)
        by_job = self._by_job(claim) if claim is not None else None
        if by_role is None or by_job is None:
            return by_job or by_role
        by_job = replace(by_job, holding=self.roles[role].holding or by_job.holding) if role in self.roles else by_job
        if claim is not None and role in claim.rule.roles:
            return by_job
        return min(by_job, by_role, key=lambda budget: budget.limit)

    def is_detached(self, role: str, *, claim: JobClaim | None) -> bool:
        """True where callers of this role or job leave on purpose: then a client that is gone proves nothing."""
        own = self.roles.get(role)
        job = None if claim is None else claim.rule.budget_spec(claim.key.job)
        return (own is not None and own.detached) or (job is not None and job[1].detached)

    @property
    def empty(self) -> bool:
        """True where no row at all could be judged."""
        return not self.crossings()

    @property
    def smallest_crossing(self) -> timedelta | None:
        """The smallest budget plus grace of the book: what the interval in force must not exceed."""
        return min(self.crossings().values(), default=None)

    def crossings(self) -> dict[str, timedelta]:
        """Every configured budget with its grace, by the name that metrics and findings give it."""
        found = {f"role:{name}": each.limit + self._grace(each) for name, each in self.roles.items()}
        for rule in self.jobs:
            found |= {f"job:{name}": each.limit + self._grace(each) for name, each in rule.budgets.items()}
        if self.default is not None:
            found["default"] = self.default + self.grace
        return found

    def sources(self) -> dict[str, timedelta]:
        """Every configured budget by the name that metrics and findings give it."""
        found = {f"role:{name}": each.limit for name, each in self.roles.items()}
        for rule in self.jobs:
            found |= {f"job:{name}": each.limit for name, each in rule.budgets.items()}
        if self.default is not None:
            found["default"] = self.default
        return found

    def _by_role(self, role: str, *, keyed: bool) -> Budget | None:
        if role in self.roles:
            return self._made(self.roles[role], source=f"role:{role}", keyed=keyed)
        if self.default is None or role in self.provider_roles:
            return None
        return self._made(BudgetSpec(limit=self.default), source="default", keyed=keyed)

    def _by_job(self, claim: JobClaim) -> Budget | None:
        found = claim.rule.budget_spec(claim.key.job)
        return None if found is None else self._made(found[1], source=f"job:{found[0]}", keyed=True)

    def _made(self, budget_spec: BudgetSpec, *, source: str, keyed: bool) -> Budget:
        return Budget(
            limit=budget_spec.limit,
            grace=self._grace(budget_spec),
            holding=budget_spec.limit if budget_spec.holding is None else budget_spec.holding,
            source=source,
            clock=budget_spec.clock or (Clock.RUN if keyed else Clock.STATEMENT),
        )

    def _grace(self, budget_spec: BudgetSpec) -> timedelta:
        return self.grace if budget_spec.grace is None else budget_spec.grace
