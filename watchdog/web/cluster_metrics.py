"""Turns looks into series: which counters a look adds to, which gauges it sets, and under which labels.

A series starts with 0 when a run with its labels is first seen, so that `rate()` includes the first increase. A cluster
that could not be read has no gauges of its activity, because nothing is known of it. A cluster that was read only in
part has no such gauge with the value 0, because hidden sessions are not known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from watchdog.core.acting.rules import Rule
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.judging.timeout_inversions import stored_timeouts, worst_timeout
from watchdog.core.observed.activity import ActivityKind
from watchdog.core.observed.census import Census
from watchdog.core.observed.reasons import Reason
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.core.observed.versions import is_untested
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.not_looked_for import UNCERTAIN
from watchdog.web.acting_metrics import ActingMetrics, lease_holder
from watchdog.web.families import activity, reading
from watchdog.web.labels import Bounds, ClusterLabels
from watchdog.web.metric import Labels, Metric
from watchdog.web.series import Series
from watchdog.web.server_counters import ServerCounters

ACTIVITY = (
    activity.RUNNING_QUERIES,
    activity.OLDEST_RUNNING_SECONDS,
    activity.HOLDING_TRANSACTIONS,
    activity.OLDEST_HOLDING_SECONDS,
)
ORPHANS = (activity.ORPHANS, activity.ORPHAN_OLDEST_OVERRUN_SECONDS)
COPIES = (activity.JOB_COPIES, activity.DUPLICATE_COPIES)
SHARES = (activity.RUNNING_SECONDS, activity.ORPHAN_SECONDS)
STARTS = (activity.JOB_COPIES_STARTED, activity.JOB_WINDOWS_STARTED)
CHECK_INTERVAL = "client_connection_check_interval"

Gauge = tuple[Metric, Labels, float]
"""The metric, the labels and the value of one gauge."""


@dataclass(slots=True, kw_only=True)
class ClusterMetrics:
    """All series of one cluster."""

    book: BudgetBook
    rules: Sequence[Rule]
    bounds: Bounds
    series: Series = field(default_factory=Series)
    _labels: ClusterLabels = field(init=False)
    _acting: ActingMetrics = field(init=False)
    _census: Census | None = None
    _server: ServerCounters = field(default_factory=ServerCounters)
    _timeouts: list[Gauge] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create the series that exist from the start: those by reason, rule, budget and named job."""
        self._labels = ClusterLabels.within(self.bounds)
        self._acting = ActingMetrics(self.series, self._labels)
        self.apply_config(self.book, rules=self.rules, bounds=self.bounds)

    def apply_config(self, book: BudgetBook, *, rules: Sequence[Rule], bounds: Bounds) -> None:
        """Apply a configuration: its rules, budgets and bounds. Counters keep their values."""
        self.book, self.rules, self.bounds = book, rules, bounds
        self._census = None
        self._labels.apply_bounds(bounds)
        self.series.count(reading.POLLS, (), 0)
        self.series.count(reading.CENSUS_FAILURES, (), 0)
        for reason in Reason:
            self.series.count(reading.POLL_FAILURES, (reason,), 0)
        for job in bounds.jobs.named:  # start with 0, so that `rate()` includes the first window
            for metric in STARTS:
                self.series.count(metric, (job,), 0)
        self.series.offer(activity.FINISHED_RUN_BUDGET_RATIO, [(source,) for source in book.sources()])
        self._acting.apply_config(rules)

    def add(self, state: Look | Unread, *, now: float, unix_time: float) -> None:
        """Update the series from one state. `now` is monotonic time, `unix_time` is Unix time, both in seconds."""
        self.series.count(reading.POLLS, (), 1)
        if isinstance(state, Unread):
            self.series.clear_gauges(but=(reading.LAST_POLL_SUCCESS_TIMESTAMP_SECONDS,))
            self.series.set(reading.UP, (), 0)
            self.series.count(reading.POLL_FAILURES, (state.reason,), 1)
            self._acting.unread()
            return
        self.series.clear_gauges()
        self.series.set(reading.UP, (), 1)
        self.series.set(reading.LAST_POLL_SUCCESS_TIMESTAMP_SECONDS, (), unix_time)
        self._admit_labels(state)
        self._read(state)
        self._activity(state, now=now)
        self._budgets(state)
        self._orphans(state, now=now)
        self._neighbours(state)
        self._copies(state, now=now)
        self._increments(state, now=now)
        self._acting.add(state)
        self.series.drop_unused(now=now)

    def _admit_labels(self, look: Look) -> None:
        cases = look.judgement.cases
        for limiter, values, label in (
            (
                self._labels.roles,
                [*(case.backend.role for case in cases), lease_holder(look), *_stopped_roles(look)],
                "usename",
            ),
            (self._labels.jobs, [case.job for case in cases], "job_key"),
            (self._labels.databases, [case.backend.database for case in cases], "datname"),
        ):
            limiter.begin_look(values)
            self.series.set(reading.LABEL_VALUES_FOLDED, (label,), len(limiter.folded))

    def _read(self, look: Look) -> None:
        self.series.copy(reading.CENSUS_FAILURES, {(): float(look.census_failures)})
        self.series.set(reading.LAST_POLL_DURATION_SECONDS, (), look.took.total_seconds())
        self.series.set(reading.POLL_INTERVAL_SECONDS, (), look.interval.total_seconds())
        self.series.set(reading.SOCKETS_VISIBLE, (), look.socket_visibility is SocketVisibility.SEEN)
        for state in UNCERTAIN if look.socket_visibility is SocketVisibility.SEEN else ():
            self.series.set(reading.CLIENTS_UNCERTAIN, (state,), sum(each is state for each in look.clients.values()))
        self.series.set(reading.IN_RECOVERY, (), look.snapshot.in_recovery)
        self.series.set(reading.SERVER_INFO, (look.census.version,), 1)
        self.series.count(reading.CLOCK_STEPS, (), look.clock_step is not None)
        self.series.set(reading.SERVER_UNTESTED, (), is_untested(look.census.server_version))
        failures: dict[Labels, float] = {(name,): float(each.count) for name, each in look.statement_failures.items()}
        self.series.copy(reading.STATEMENT_FAILURES, failures)
        self.series.set(reading.CONNECTIONS_USED, (), look.census.connections_used)
        self.series.set(reading.CONNECTIONS_MAX, (), look.census.connections_max)
        for reason, count in look.judgement.unjudged.items():
            self.series.set(reading.UNJUDGED_BACKENDS, (reason,), count)
        self._stored(look.census)

    def _stored(self, census: Census) -> None:
        """Set the series that come from the last census: stored timeouts and the server's own counters.

        The gauges of timeouts are computed once for each census.
        """
        if self._census is not census:
            self._census, self._timeouts = census, _timeouts(census, book=self.book)
            self._server.add(census.work, label_of=self._labels.databases.fold)
        for metric, labels, value in self._timeouts:
            self.series.set(metric, labels, value)
        self.series.copy(reading.SESSIONS_ABANDONED, self._server.abandoned)
        self.series.copy(reading.ACTIVE_SECONDS, self._server.active)

    def _activity(self, look: Look, *, now: float) -> None:
        cases = look.judgement.cases
        for case in cases:
            self.series.keep(ACTIVITY, self._labels.of_backend(case.backend), now=now)
        self.series.zero(ACTIVITY, unless=not look.complete)
        for case in cases:
            who = self._labels.of_backend(case.backend)
            if case.activity is ActivityKind.RUNNING:
                self.series.add(activity.RUNNING_QUERIES, who, 1)
                self.series.most(activity.OLDEST_RUNNING_SECONDS, who, case.age.total_seconds())
            else:
                transaction = case.backend.transaction
                held = case.age if transaction is None else transaction.age
                self.series.add(activity.HOLDING_TRANSACTIONS, who, 1)
                self.series.most(activity.OLDEST_HOLDING_SECONDS, who, held.total_seconds())

    def _budgets(self, look: Look) -> None:
        for source, limit in self.book.sources().items():
            self.series.set(activity.BUDGET_SECONDS, (source,), limit.total_seconds())
            self.series.set(activity.BUDGET_USED_RATIO, (source,), 0)
            self.series.set(activity.NEARING_BUDGET_QUERIES, (source,), 0)
        for case in look.judgement.cases:
            if case.budget is not None and case.used is not None and case.activity is ActivityKind.RUNNING:
                self.series.most(activity.BUDGET_USED_RATIO, (case.budget.source,), case.used)
        for finding in look.judgement.findings:
            if finding.kind is Kind.NEARING and finding.budget is not None:
                self.series.add(activity.NEARING_BUDGET_QUERIES, (finding.budget.source,), 1)
        for finished in look.judgement.finished:
            if (finished.budget,) in self.series.histograms[activity.FINISHED_RUN_BUDGET_RATIO]:
                self.series.observe(activity.FINISHED_RUN_BUDGET_RATIO, (finished.budget,), finished.used)

    def _orphans(self, look: Look, *, now: float) -> None:
        for case in look.judgement.cases:
            if case.budget is not None:
                labels = (*self._labels.of_job(case.backend, case.job), Evidence.OVER_BUDGET)
                self.series.keep(ORPHANS, labels, now=now)
                self.series.count(activity.ORPHANS_DETECTED, labels[1:], 0, now=now)
        self.series.zero(ORPHANS, unless=not look.complete)
        for finding in look.judgement.findings:
            if finding.kind is Kind.ORPHAN:
                overrun = finding.overrun.total_seconds() if finding.overrun is not None else 0.0
                self.series.add(activity.ORPHANS, self._labels.of_orphan(finding), 1)
                self.series.most(activity.ORPHAN_OLDEST_OVERRUN_SECONDS, self._labels.of_orphan(finding), overrun)
        for finding in look.judgement.detected:
            self.series.count(activity.ORPHANS_DETECTED, self._labels.of_orphan(finding)[1:], 1, now=now)

    def _neighbours(self, look: Look) -> None:
        orphans = [finding for finding in look.judgement.findings if finding.kind is Kind.ORPHAN]
        alike = [finding.alike for finding in orphans if finding.alike is not None]
        if alike or not orphans:  # without query ids the number of orphans that are alike is not known
            self.series.set(activity.ORPHANS_ALIKE_MAX, (), max(alike, default=0))
        if look.judgement.blocked_by_orphans is not None:
            self.series.set(activity.SESSIONS_BLOCKED_BY_ORPHANS, (), look.judgement.blocked_by_orphans)

    def _copies(self, look: Look, *, now: float) -> None:
        copies = look.judgement.copies.values()
        groups = [(self._labels.of_job(group[0].backend, group[0].job), group) for group in copies]
        for labels, group in groups:
            claim = group[0].claim
            judged = claim is not None and claim.rule.copies is not None
            self.series.keep(COPIES if judged else COPIES[:1], labels, now=now)
        self.series.zero(COPIES, unless=not look.complete)
        for labels, group in groups:
            self.series.most(activity.JOB_COPIES, labels, len(group))
        for finding in look.judgement.findings:
            if finding.kind is Kind.DUPLICATE and finding.key is not None:
                self.series.add(activity.DUPLICATE_COPIES, self._labels.of_job(finding.backend, finding.key.job), 1)

    def _increments(self, look: Look, *, now: float) -> None:
        for case in look.judgement.cases:
            worker = self._labels.of_job(case.backend, case.job)[1:]
            for metric in SHARES:
                self.series.count(metric, worker, 0, now=now)
            for metric in STARTS if case.key is not None else ():
                self.series.count(metric, worker[1:], 0, now=now)
        increments = look.judgement.increments
        for metric, shares in zip(SHARES, (increments.running, increments.orphaned), strict=True):
            for (role, job), span in shares.items():
                worker = self._labels.roles.fold(role), self._labels.jobs.fold(job)
                self.series.count(metric, worker, span.total_seconds(), now=now)
        for metric, started in zip(STARTS, (increments.copies_started, increments.windows_started), strict=True):
            for job, count in started.items():
                self.series.count(metric, (self._labels.jobs.fold(job),), count, now=now)


def _stopped_roles(look: Look) -> Iterator[str]:
    return (each.role for each in look.decisions.open_breakers)


def _timeouts(census: Census, *, book: BudgetBook) -> list[Gauge]:
    """The gauges of the statement_timeout of each role with a budget, and of client_connection_check_interval.

    For a pattern it is the worst of all roles that match it.
    """
    found: list[Gauge] = []
    for role in book.roles:
        matched = [each for each in census.roles.values() if book.entry_of(each) == role]
        worst = worst_timeout(stored_timeouts(census.settings, book=book, roles=matched))
        if worst is not None and worst.value is not None:
            found.append((reading.ROLE_STATEMENT_TIMEOUT_SECONDS, (role,), worst.value.total_seconds()))
            found.append((reading.TIMEOUT_INVERSION, (role,), float(bool(worst.inverted))))
    check = census.settings.effective(CHECK_INTERVAL, role=None, database=None).span(CHECK_INTERVAL)
    if check is not None:
        found.append((reading.CLIENT_CONNECTION_CHECK_INTERVAL_SECONDS, (), check.total_seconds()))
    return found
