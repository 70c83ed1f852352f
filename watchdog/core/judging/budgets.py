"""Budgets: how long the caller of a role or a job waits before it gives up.

This module owns the choice of the budget that applies to a row. It knows no ages: `overdue` compares an age with a
budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from watchdog.core.judging.jobs import DEFAULT_PATTERN, BudgetSpec, JobClaim, JobRule, parse_pattern
from watchdog.core.observed.activity import Clock
from watchdog.core.observed.names import NameTable

DEFAULT_GRACE = timedelta(seconds=5)
"""Default grace. A driver that cancels at its own timeout needs about 0.3 s for it. Without grace, pgwatchdog would
cancel at the same time."""

DEFAULT_SKEW = timedelta(seconds=2)
"""Default of the largest difference between the server's clock and the clock of a caller that states a deadline."""

MIN_INTERVAL = timedelta(seconds=1)
"""Lower bound of the interval between two ticks. A budget shorter than this should be enforced by the server, with
statement_timeout."""

DEFAULT_NEARING = 0.8
"""Default share of the budget from which a run is nearing."""

DEFAULT_JOBS = (JobRule(pattern=parse_pattern(DEFAULT_PATTERN)),)
"""Job rules that apply if none is configured. They read job keys and set no budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget that applies to one row.

    `limit` is how long the caller waits, `holding` how long it may hold a transaction open. `source` names the
    configured entry, such as `role:app`. Its values are bounded by the configuration, so it may be a label value.
    """

    limit: timedelta
    grace: timedelta
    holding: timedelta
    source: str
    clock: Clock

    @property
    def crossing(self) -> timedelta:
        """The age at which a run becomes an orphan: the limit plus the grace."""
        return self.limit + self.grace


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetBook:
    """Every configured budget.

    The keys of `roles` are patterns. If the book is empty, no run can be over budget. A report must say so, because a
    lack of findings then means little.
    """

    grace: timedelta = DEFAULT_GRACE
    nearing: float = DEFAULT_NEARING
    clock_skew: timedelta = DEFAULT_SKEW
    default: timedelta | None = None
    roles: Mapping[str, BudgetSpec] = field(default_factory=dict)
    jobs: tuple[JobRule, ...] = DEFAULT_JOBS
    provider_roles: frozenset[str] = frozenset()
    exempt: frozenset[str] = frozenset()
    """Patterns of roles of which the configuration says that they have no budget."""

    exempt_and_detached: frozenset[str] = frozenset()
    """Those of them whose callers disconnect on purpose."""

    spares_half_closed: bool = False
    """True if a client may have closed only its sending half where its own end is out of sight."""

    _by_pattern: NameTable[BudgetSpec | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make one table of all roles that are listed, with None for those that have no budget."""
        exempt: dict[str, BudgetSpec | None] = dict.fromkeys(self.exempt)
        object.__setattr__(self, "_by_pattern", NameTable({**exempt, **self.roles}))

    def entry_of(self, role: str) -> str | None:
        """The name or pattern under which the configuration lists `role`, or None."""
        return self._by_pattern.pattern_of(role)

    def listed(self, role: str) -> BudgetSpec | None:
        """What the configuration lists for `role`, or None if it lists nothing or `none`."""
        return self._by_pattern.get(role)

    def names(self, role: str) -> bool:
        """True if the configuration lists `role`, or binds a job to it."""
        return self.entry_of(role) in self.roles or any(rule.binds(role) for rule in self.jobs)

    def is_exempt(self, role: str) -> bool:
        """True if the configuration says that `role` has no budget."""
        return self.entry_of(role) in self.exempt

    def budget(self, role: str, *, claim: JobClaim | None) -> Budget | None:
        """The budget of a row of `role` with the job key `claim`, or None if no budget applies.

        For a role that the job's rule names, the job's budget replaces the role's. For any other role, the
        smaller of the two applies, because a session can set any application_name.
        """
        keyed = claim is not None
        by_role = self._by_role(role, keyed=keyed)
        by_job = self._by_job(claim) if claim is not None else None
        if by_role is None or by_job is None:
            return by_job or by_role
        listed = self.listed(role)
        by_job = by_job if listed is None else replace(by_job, holding=listed.holding or by_job.holding)
        if claim is not None and claim.rule.binds(role):
            return by_job
        return min(by_job, by_role, key=lambda budget: budget.limit)

    def is_detached(self, role: str, *, claim: JobClaim | None) -> bool:
        """True if callers of this role or job disconnect on purpose. A client that is gone is then no evidence."""
        own = self.listed(role)
        job = None if claim is None else claim.rule.budget_spec(claim.key.job)
        by_role = own.detached if own is not None else self.entry_of(role) in self.exempt_and_detached
        return by_role or (job is not None and job[1].detached)

    @property
    def empty(self) -> bool:
        """True if no budget is configured."""
        return not self.crossings()

    @property
    def smallest_crossing(self) -> timedelta | None:
        """The smallest budget plus its grace, or None if there is no budget. It is an upper bound of the interval."""
        return min(self.crossings().values(), default=None)

    def crossings(self) -> dict[str, timedelta]:
        """Every configured budget plus its grace, by its name in metrics and findings."""
        found = {f"role:{name}": each.limit + self._grace(each) for name, each in self.roles.items()}
        for rule in self.jobs:
            found |= {f"job:{name}": each.limit + self._grace(each) for name, each in rule.budgets.items()}
        if self.default is not None:
            found["default"] = self.default + self.grace
        return found

    def sources(self) -> dict[str, timedelta]:
        """Every configured budget by its name in metrics and findings."""
        found = {f"role:{name}": each.limit for name, each in self.roles.items()}
        for rule in self.jobs:
            found |= {f"job:{name}": each.limit for name, each in rule.budgets.items()}
        if self.default is not None:
            found["default"] = self.default
        return found

    def _by_role(self, role: str, *, keyed: bool) -> Budget | None:
        pattern, listed = self.entry_of(role), self.listed(role)
        if listed is not None:
            return self._made(listed, source=f"role:{pattern}", keyed=keyed)
        if self.default is None or role in self.provider_roles or pattern is not None:
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
