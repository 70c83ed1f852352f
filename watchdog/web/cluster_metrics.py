"""From looks to series: which numbers a look adds to or sets, and under which labels.

A series appears with 0 when a run with its labels is first seen, so that a rate knows the beginning. A cluster
that was not read shows no gauge of what goes on in it, not even 0; one read in part no 0 either.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from watchdog.core.acting.acts import FAILURES, ActResult, Outcome, Result
from watchdog.core.acting.rules import Rule
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import ActionWithheld, Withheld
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.timeout_inversions import stored_timeouts, worst_timeout
from watchdog.core.observed.activity import ActivityKind, Backend
from watchdog.core.observed.census import Census
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.core.present.look import Look, Unread
from watchdog.web.labels import Bounds, LabelLimiter
from watchdog.web.series import Labels, Series
from watchdog.web.table import LAG_BUCKETS, RATIO_BUCKETS

ACTIVITY = ("running_queries", "oldest_running_seconds", "holding_transactions", "oldest_holding_seconds")
ORPHANS = ("orphans", "orphan_oldest_overrun_seconds")
COPIES = ("job_copies", "duplicate_copies")
SHARES = ("running_seconds_total", "orphan_seconds_total")
STARTS = ("job_copies_started_total", "job_windows_started_total")
RATIO, LAG = "finished_run_budget_ratio", "cancel_lag_seconds"
CHECK_INTERVAL = "client_connection_check_interval"
BY_RULE = (
    "cancel_attempts_total",
    "cancel_ineffective_total",
    "retries_after_cancel_total",
    "dry_run_cancels_total",
    "dry_run_regrets_total",
)
LAST_SUCCESS = "last_poll_success_timestamp_seconds"


Gauge = tuple[str, Labels, float]
"""A metric's name, its labels and its value."""


@dataclass(slots=True, kw_only=True)
class ClusterMetrics:
    """Everything that is exported of one cluster."""

    book: BudgetBook
    rules: Sequence[Rule]
    bounds: Bounds
    series: Series = field(default_factory=Series)
    _roles: LabelLimiter = field(init=False)
    _jobs: LabelLimiter = field(init=False)
    _databases: LabelLimiter = field(init=False)
    _census: Census | None = None
    _timeouts: list[Gauge] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with the sets that exist from the start: reasons, rules and budgets."""
        self._roles, self._jobs = LabelLimiter(self.bounds.roles), LabelLimiter(self.bounds.jobs)
        self._databases = LabelLimiter(self.bounds.databases)
        self.apply_config(self.book, rules=self.rules, bounds=self.bounds)

    def apply_config(self, book: BudgetBook, *, rules: Sequence[Rule], bounds: Bounds) -> None:
        """Take on a configuration: its rules, budgets and bounds, without losing what was counted."""
        self.book, self.rules, self.bounds = book, rules, bounds
        self._census = None
        self._roles.bound, self._jobs.bound, self._databases.bound = bounds.roles, bounds.jobs, bounds.databases
        self.series.count("polls_total", (), 0)
        self.series.count("census_failures_total", (), 0)
        for reason in Reason:
            self.series.count("poll_failures_total", (reason,), 0)
        for job in bounds.jobs.named:  # so that a rate knows the beginning: their first window counts as well
            for name in STARTS:
                self.series.count(name, (job,), 0)
        for rule in rules:
            for name in BY_RULE:
                self.series.count(name, (rule.name,), 0)
            for withheld in Withheld:
                self.series.count("cancels_withheld_total", (rule.name, withheld), 0)
            for failure in FAILURES:
                self.series.count("cancel_failures_total", (rule.name, failure), 0)
        self.series.offer(RATIO, [(source,) for source in book.sources()], buckets=RATIO_BUCKETS)
        self.series.offer(LAG, [()], buckets=LAG_BUCKETS)

    def add(self, state: Look | Unread, *, now: float, unix_time: float) -> None:
        """Take one state in, at `now` monotonic seconds."""
        self.series.count("polls_total", (), 1)
        if isinstance(state, Unread):
            self.series.clear_gauges(but=(LAST_SUCCESS,))
            self.series.set("up", (), 0)
            self.series.count("poll_failures_total", (state.reason,), 1)
            self._arming((DisarmReason.UNREAD,))
            return
        self.series.clear_gauges()
        self.series.set("up", (), 1)
        self.series.set(LAST_SUCCESS, (), unix_time)
        self._admit_labels(state)
        self._read(state)
        self._activity(state, now=now)
        self._budgets(state)
        self._orphans(state, now=now)
        self._neighbours(state)
        self._copies(state, now=now)
        self._increments(state, now=now)
        self._verdicts(state)
        self._arming(state.disarmed)
        self._lease(state)
        self._acts(state)
        self.series.drop_unused(now=now)

    def _admit_labels(self, look: Look) -> None:
        cases = look.judgement.cases
        for limiter, values, label in (
            (self._roles, [*(case.backend.role for case in cases), _holder(look)], "usename"),
            (self._jobs, [case.job for case in cases], "job_key"),
            (self._databases, [*(case.backend.database for case in cases), *look.census.work], "datname"),
        ):
            limiter.begin_look(values)
            self.series.set("label_values_folded", (label,), len(limiter.folded))

    def _read(self, look: Look) -> None:
        self.series.copy("census_failures_total", {(): float(look.census_failures)})
        self.series.set("last_poll_duration_seconds", (), look.took.total_seconds())
        self.series.set("poll_interval_seconds", (), look.interval.total_seconds())
        self.series.set("sockets_visible", (), look.socket_visibility is SocketVisibility.SEEN)
        self.series.set("in_recovery", (), look.snapshot.in_recovery)
        self.series.set("server_info", (look.census.version,), 1)
        self.series.set("connections_used", (), look.census.connections_used)
        self.series.set("connections_max", (), look.census.connections_max)
        for reason, count in look.judgement.unjudged.items():
            self.series.set("unjudged_backends", (reason,), count)
        self._stored(look.census)

    def _stored(self, census: Census) -> None:
        """What the server has stored and counts itself, as of the last census; worked out once for each."""
        if self._census is not census:
            self._census, self._timeouts = census, _timeouts(census, book=self.book)
        for name, labels, value in self._timeouts:
            self.series.set(name, labels, value)
        abandoned, active = dict[Labels, float](), dict[Labels, float]()
        for database, work in census.work.items():
            label = (self._databases.fold(database),)
            abandoned[label] = abandoned.get(label, 0.0) + work.abandoned
            active[label] = active.get(label, 0.0) + work.active.total_seconds()
        self.series.copy("sessions_abandoned_total", abandoned)
        self.series.copy("active_seconds_total", active)

    def _activity(self, look: Look, *, now: float) -> None:
        cases = look.judgement.cases
        for case in cases:
            self.series.keep(ACTIVITY, self._who(case.backend), now=now)
        self.series.zero(ACTIVITY, unless=not look.complete)
        for case in cases:
            who = self._who(case.backend)
            if case.activity is ActivityKind.RUNNING:
                self.series.add("running_queries", who, 1)
                self.series.most("oldest_running_seconds", who, case.age.total_seconds())
            else:
                transaction = case.backend.transaction
                held = case.age if transaction is None else transaction.age
                self.series.add("holding_transactions", who, 1)
                self.series.most("oldest_holding_seconds", who, held.total_seconds())

    def _budgets(self, look: Look) -> None:
        for source, limit in self.book.sources().items():
            self.series.set("budget_seconds", (source,), limit.total_seconds())
            self.series.set("budget_used_ratio", (source,), 0)
            self.series.set("nearing_budget_queries", (source,), 0)
        for case in look.judgement.cases:
            if case.budget is not None and case.used is not None and case.activity is ActivityKind.RUNNING:
                self.series.most("budget_used_ratio", (case.budget.source,), case.used)
        for finding in look.judgement.findings:
            if finding.kind is Kind.NEARING and finding.budget is not None:
                self.series.add("nearing_budget_queries", (finding.budget.source,), 1)
        for finished in look.judgement.finished:
            if (finished.budget,) in self.series.histograms[RATIO]:
                self.series.observe(RATIO, (finished.budget,), finished.used)

    def _orphans(self, look: Look, *, now: float) -> None:
        for case in look.judgement.cases:
            if case.budget is not None:
                labels = (*self._job(case.backend, case.job), Evidence.OVER_BUDGET)
                self.series.keep(ORPHANS, labels, now=now)
                self.series.count("orphans_detected_total", labels[1:], 0, now=now)
        self.series.zero(ORPHANS, unless=not look.complete)
        for finding in look.judgement.findings:
            if finding.kind is Kind.ORPHAN:
                overrun = finding.overrun.total_seconds() if finding.overrun is not None else 0.0
                self.series.add("orphans", self._orphan(finding), 1)
                self.series.most("orphan_oldest_overrun_seconds", self._orphan(finding), overrun)
        for finding in look.judgement.detected:
            self.series.count("orphans_detected_total", self._orphan(finding)[1:], 1, now=now)

    def _neighbours(self, look: Look) -> None:
        orphans = [finding for finding in look.judgement.findings if finding.kind is Kind.ORPHAN]
        alike = [finding.alike for finding in orphans if finding.alike is not None]
        if alike or not orphans:  # without query ids the size of a pile cannot be known
            self.series.set("orphans_alike_max", (), max(alike, default=0))
        if look.judgement.blocked_by_orphans is not None:
            self.series.set("sessions_blocked_by_orphans", (), look.judgement.blocked_by_orphans)

    def _copies(self, look: Look, *, now: float) -> None:
        groups = [(self._job(group[0].backend, group[0].job), group) for group in look.judgement.copies.values()]
        for labels, group in groups:
            claim = group[0].claim
            judged = claim is not None and claim.rule.copies is not None
            self.series.keep(COPIES if judged else COPIES[:1], labels, now=now)
        self.series.zero(COPIES, unless=not look.complete)
        for labels, group in groups:
            self.series.most("job_copies", labels, len(group))
        for finding in look.judgement.findings:
            if finding.kind is Kind.DUPLICATE and finding.key is not None:
                self.series.add("duplicate_copies", self._job(finding.backend, finding.key.job), 1)

    def _increments(self, look: Look, *, now: float) -> None:
        for case in look.judgement.cases:
            worker = self._job(case.backend, case.job)[1:]
            for name in SHARES:
                self.series.count(name, worker, 0, now=now)
            for name in STARTS if case.key is not None else ():
                self.series.count(name, worker[1:], 0, now=now)
        increments = look.judgement.increments
        for name, shares in zip(SHARES, (increments.running, increments.orphaned), strict=True):
            for (role, job), span in shares.items():
                self.series.count(name, (self._roles.fold(role), self._jobs.fold(job)), span.total_seconds(), now=now)
        for name, started in zip(STARTS, (increments.copies_started, increments.windows_started), strict=True):
            for job, count in started.items():
                self.series.count(name, (self._jobs.fold(job),), count, now=now)

    def _verdicts(self, look: Look) -> None:
        for verdict in look.decisions.news:
            if isinstance(verdict, ActionWithheld):
                self.series.count("cancels_withheld_total", (verdict.rule.name, verdict.reason), 1)

    def _arming(self, disarmed: Collection[DisarmReason]) -> None:
        self.series.set("enforcing", (), not disarmed)
        for reason in DisarmReason:
            self.series.set("disarmed", (reason,), reason in disarmed)

    def _lease(self, look: Look) -> None:
        self.series.set("leader", (), look.lease.leads)
        self.series.set("can_cancel", (), look.census.may_cancel_any)
        self.series.set("stuck_after_cancel", (), look.stuck)
        if not look.lease.leads and look.lease.held_by_other:
            self.series.set("lease_holder", (self._roles.fold(_holder(look)),), 1)

    def _acts(self, look: Look) -> None:
        for done in look.results:
            self._done(done)
        for effect in look.effects:
            if effect.outcome is Outcome.INEFFECTIVE:
                self.series.count("cancel_ineffective_total", (effect.rule,), 1)
            if effect.regret:
                self.series.count("dry_run_regrets_total", (effect.rule,), 1)
        for retry in look.retries:
            self.series.count("retries_after_cancel_total", (retry.rule,), 1)

    def _done(self, done: ActResult) -> None:
        rule = done.act.rule.name
        if done.withheld is not None:
            self.series.count("cancels_withheld_total", (rule, done.withheld), 1)
        if done.result is Result.REHEARSED:
            self.series.count("dry_run_cancels_total", (rule,), 1)
        elif done.result is not Result.NOT_TRIED:
            self.series.count("cancel_attempts_total", (rule,), 1)
        if done.result in FAILURES:
            self.series.count("cancel_failures_total", (rule, done.result), 1)
        if done.lag is not None:
            self.series.observe(LAG, (), max(0.0, done.lag.total_seconds()))

    def _who(self, backend: Backend) -> Labels:
        return self._databases.fold(backend.database), self._roles.fold(backend.role)

    def _job(self, backend: Backend, job: str) -> Labels:
        return (*self._who(backend), self._jobs.fold(job))

    def _orphan(self, finding: Finding) -> Labels:
        job = finding.key.job if finding.key is not None else ""
        return (*self._job(finding.backend, job), finding.strongest or Evidence.OVER_BUDGET)


def _timeouts(census: Census, *, book: BudgetBook) -> list[Gauge]:
    """The statement timeouts that the server would apply to roles with a budget, and its check of clients."""
    found: list[Gauge] = []
    for role in set(book.roles) & set(census.roles.values()):
        worst = worst_timeout(stored_timeouts(census.settings, book=book, roles=[role]))
        if worst is not None and worst.value is not None:
            found.append(("role_statement_timeout_seconds", (role,), worst.value.total_seconds()))
            found.append(("timeout_inversion", (role,), float(bool(worst.inverted))))
    check = census.settings.effective(CHECK_INTERVAL, role=None, database=None).span(CHECK_INTERVAL)
    if check is not None:
        found.append(("client_connection_check_interval_seconds", (), check.total_seconds()))
    return found


def _holder(look: Look) -> str:
    """The role that holds the lease, '' for nobody; a prepared transaction has no session, so nobody is known."""
    lease = look.lease
    if not lease.held_by_other:
        return ""
    return look.census.role(lease.holder_role)
