"""Series: zeros when first seen, an hour of life, bounded labels, nothing of a cluster that was not read."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from support.acting import ONCE, act_of, commands_of
from support.builders import NOW, backend, book, census, judge_settings, rule, snapshot

from watchdog.core.acting.acts import ActResult, Result
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy, decide
from watchdog.core.acting.protections import Protect, ProtectionContext
from watchdog.core.acting.rules import EVERY_ORPHAN_RULE
from watchdog.core.judging.judge import JudgeSettings, Memory, judge
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.census import DatabaseWork
from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Look, Unread
from watchdog.web.cluster_metrics import ClusterMetrics
from watchdog.web.families import acting, activity, reading
from watchdog.web.labels import Bound, Bounds, LabelLimiter
from watchdog.web.metric import Labels, Metric, Type
from watchdog.web.series import KEPT_FOR, Histogram, Series
from watchdog.web.server_counters import ServerCounters

JOBS = rule(copies=1, retry_gap=10)
JUDGE_SETTINGS = judge_settings(book(JOBS))


def look(*rows: Backend, judged_by: JudgeSettings = JUDGE_SETTINGS) -> Look:
    judgement, _ = judge(snapshot(*rows), settings=judged_by, census=census(), memory=Memory(), tick=True)
    decisions, _ = decide(
        judgement,
        at=NOW,
        policy=Policy(),
        status=ONCE,
        context=ProtectionContext(census(), Protect(), commands_of(*rows)),
        memory=PolicyMemory(),
        interval=judged_by.interval,
    )
    took = timedelta(milliseconds=1)
    results = tuple(
        ActResult(act=act_of(verdict, number=i), result=Result.REHEARSED, took=took)
        for i, verdict in enumerate(decisions.due)
    )
    return Look(
        server="main",
        snapshot=snapshot(*rows),
        census=census(),
        judgement=judgement,
        decisions=decisions,
        interval=judged_by.interval,
        took=took,
        tick=True,
        status=ONCE,
        results=results,
    )


def cluster_metrics(bounds: Bounds | None = None) -> ClusterMetrics:
    return ClusterMetrics(book=JUDGE_SETTINGS.book, rules=(EVERY_ORPHAN_RULE,), bounds=bounds or Bounds())


def test_a_series_appears_with_0_before_anything_is_found() -> None:
    one = cluster_metrics()
    one.add(look(backend(query=1)), now=0, unix_time=0)
    assert one.series.gauges[activity.ORPHANS] == {("shop", "web_app", "", "over_budget"): 0}
    assert one.series.counters[activity.ORPHANS_DETECTED] == {("web_app", "", "over_budget"): 0}
    assert one.series.gauges[activity.DUPLICATE_COPIES] == {}


def test_gauges_fall_to_0_and_end_an_hour_later() -> None:
    one = cluster_metrics()
    one.add(look(backend(name="scan:a:w1", query=100)), now=0, unix_time=0)
    labels = ("shop", "web_app", "a", "over_budget")
    assert one.series.gauges[activity.ORPHANS][labels] == 1
    one.add(look(), now=10, unix_time=0)
    assert one.series.gauges[activity.ORPHANS][labels] == 0
    assert one.series.counters[activity.ORPHANS_DETECTED][labels[1:]] == 1
    one.add(look(), now=KEPT_FOR + 1, unix_time=0)
    assert one.series.gauges[activity.ORPHANS] == {}
    assert one.series.counters[activity.ORPHANS_DETECTED] == {}
    assert one.series.gauges[activity.RUNNING_QUERIES] == {}


def test_a_cluster_that_was_not_read_shows_up_0_and_no_gauge_of_what_goes_on() -> None:
    one = cluster_metrics()
    one.add(look(backend(query=100)), now=0, unix_time=5)
    one.add(Unread("main", Reason.TIMEOUT, "slow"), now=1, unix_time=6)
    shown = {metric: series for metric, series in one.series.gauges.items() if series}
    disarmed = shown.pop(acting.DISARMED)
    assert shown == {
        reading.UP: {(): 0.0},
        reading.LAST_POLL_SUCCESS_TIMESTAMP_SECONDS: {(): 5.0},
        acting.ENFORCING: {(): 0.0},
    }
    assert [reason for (reason,), holds in disarmed.items() if holds] == ["unread"]
    assert one.series.counters[reading.POLL_FAILURES]["timeout",] == 1


def test_reasons_rules_and_budgets_exist_from_the_start() -> None:
    one = cluster_metrics()
    assert set(one.series.counters[reading.POLL_FAILURES]) == {(reason,) for reason in Reason}
    assert ("every-orphan",) in one.series.counters[acting.DRY_RUN_CANCELS]
    assert ("every-orphan", "writer") in one.series.counters[acting.CANCELS_WITHHELD]
    assert set(one.series.histograms[activity.FINISHED_RUN_BUDGET_RATIO]) == {("role:web_app",), ("role:etl_app",)}


def test_copies_and_windows_of_named_jobs_exist_from_the_start_so_that_a_rate_sees_the_first() -> None:
    one = cluster_metrics(Bounds(jobs=Bound(frozenset({"threads"}))))
    assert one.series.counters[activity.JOB_COPIES_STARTED] == {("threads",): 0}
    assert one.series.counters[activity.JOB_WINDOWS_STARTED] == {("threads",): 0}


def test_folded_labels_share_one_series_and_the_first_seen_keep_theirs() -> None:
    bounds = Bounds(roles=Bound(frozenset({"web_app"}), 1))
    budgets = judge_settings(book(JOBS, default=10))
    one = cluster_metrics(bounds)
    for step in range(3):
        rows = [backend(pid=p, role=role) for p, role in enumerate(["web_app", "first", f"new{step}", "newer"])]
        one.add(look(*rows, judged_by=budgets), now=step, unix_time=0)
    assert one.series.gauges[activity.RUNNING_QUERIES] == {
        ("shop", "web_app"): 1, ("shop", "first"): 1, ("shop", "other"): 2,
    }  # fmt: skip
    assert one.series.gauges[reading.LABEL_VALUES_FOLDED]["usename",] == 2


def test_an_unknown_role_and_no_job_are_never_folded() -> None:
    folder = LabelLimiter(Bound(most=0))
    folder.begin_look(["", "unknown", "somebody"])
    assert [folder.fold(each) for each in ("", "unknown", "somebody")] == ["", "unknown", "other"]
    assert folder.folded == {"somebody"}


def test_the_number_of_series_is_bounded_however_many_names_come_by() -> None:
    bounds = Bounds(roles=Bound(most=5), jobs=Bound(most=5), databases=Bound(most=2))
    one = cluster_metrics(bounds)
    for i in range(500):
        row = backend(pid=i, role=f"r{i}", database=f"d{i}", name=f"scan:j{i}:w{i}", query=100)
        one.add(look(row, judged_by=judge_settings(book(JOBS, default=10))), now=i, unix_time=0)
    for metric in (activity.ORPHANS, activity.JOB_COPIES, activity.RUNNING_QUERIES):
        assert len(one.series.gauges[metric]) <= (5 + 1) * (5 + 1) * (2 + 1)
    assert len(one.series.counters[activity.JOB_COPIES_STARTED]) <= 6


def test_a_histogram_counts_far_past_the_budget() -> None:
    histogram = Histogram(activity.FINISHED_RUN_BUDGET_RATIO.buckets)
    for value in (0.05, 0.9, 7.0, 70.0):
        histogram.observe(value)
    counts = histogram.cumulative()
    assert (counts["0.1"], counts["1.0"], counts["10.0"], counts["50.0"], counts["+Inf"]) == (1, 2, 3, 3, 4)
    assert histogram.total == 77.95


COUNTER = Metric(name="some_total", type=Type.COUNTER, help="A counter.", labels=("server", "rule", "reason"))
GAUGE = Metric(name="some", type=Type.GAUGE, help="A gauge.", labels=("server", "rule", "reason"))
HISTOGRAM = Metric(
    name="some_seconds", type=Type.HISTOGRAM, help="A histogram.", labels=("server", "rule", "reason"), buckets=(1.0,)
)
Use = Callable[[Series, Metric, Labels], None]
USES: list[tuple[Metric, Use]] = [
    (COUNTER, lambda series, metric, labels: series.count(metric, labels, 1)),
    (COUNTER, lambda series, metric, labels: series.count(metric, labels, 0, now=0)),
    (COUNTER, lambda series, metric, labels: series.copy(metric, {labels: 1})),
    (GAUGE, lambda series, metric, labels: series.set(metric, labels, 1)),
    (GAUGE, lambda series, metric, labels: series.add(metric, labels, 1)),
    (GAUGE, lambda series, metric, labels: series.most(metric, labels, 1)),
    (GAUGE, lambda series, metric, labels: series.keep([metric], labels, now=0)),
    (HISTOGRAM, lambda series, metric, labels: series.offer(metric, [labels])),
    (HISTOGRAM, lambda series, metric, labels: series.observe(metric, labels, 1)),
]
USE_NAMES = ["count", "count until unused", "copy", "set", "add", "most", "keep", "offer", "observe"]


@pytest.mark.parametrize("labels", [(), ("every-orphan",), ("main", "every-orphan", "gone")])
@pytest.mark.parametrize(("metric", "use"), USES, ids=USE_NAMES)
def test_a_wrong_number_of_labels_is_an_error_that_names_the_metric_and_both(
    metric: Metric, use: Use, labels: Labels
) -> None:
    series = Series()
    for _ in range(2):  # the first use leaves nothing behind that would let the second pass
        with pytest.raises(ValueError, match=rf"^{metric.name} has the labels \('rule', 'reason'\); ") as raised:
            use(series, metric, labels)
        assert str(raised.value).endswith(f"; the values are {labels}")
    assert series.changes() == set()


@pytest.mark.parametrize(("right", "use"), USES, ids=USE_NAMES)
def test_a_metric_of_another_type_is_an_error_that_names_the_metric_and_both_types(right: Metric, use: Use) -> None:
    series = Series()
    for wrong in {COUNTER, GAUGE, HISTOGRAM} - {right}:
        for _ in range(2):
            with pytest.raises(ValueError, match=f"^{wrong.name} is a {wrong.type}, not a {right.type}$"):
                use(series, wrong, ("every-orphan", "gone"))
    assert series.changes() == set()


def test_kept_gauges_of_a_counter_are_an_error() -> None:
    with pytest.raises(ValueError, match=f"^{COUNTER.name} is a counter, not a gauge$"):
        Series().zero([COUNTER], unless=False)


def work_of(**databases: tuple[float, int]) -> dict[str, DatabaseWork]:
    return {name: DatabaseWork(timedelta(seconds=active), abandoned) for name, (active, abandoned) in databases.items()}


def test_d02_places_are_for_databases_that_have_something_to_show() -> None:
    one = cluster_metrics(Bounds(databases=Bound(most=20)))
    idle = {f"tenant{i:02}": DatabaseWork(timedelta(seconds=i), i) for i in range(30)}
    found = look(backend(database="tenant29", query=100))
    one.add(
        replace(found, census=replace(found.census, work={**idle, **work_of(template0=(0, 0))})), now=0, unix_time=0
    )
    assert [labels[0] for labels in one.series.gauges[activity.ORPHANS]] == ["tenant29"]
    assert set(one.series.counters[reading.ACTIVE_SECONDS]) == {("other",), ("tenant29",)}
    assert one.series.gauges[reading.LABEL_VALUES_FOLDED][("datname",)] == 0


def test_d02_what_the_server_counts_never_falls_and_a_dropped_database_takes_nothing_away() -> None:
    one = ServerCounters()
    totals = []
    for work in (
        work_of(a=(100, 5), b=(10, 1)),
        work_of(a=(101, 6), b=(10, 1)),
        work_of(b=(12, 1)),  # a is dropped
        work_of(b=(12, 1), a=(3, 0)),  # another database of the name
        work_of(b=(1, 0), a=(3, 0)),  # the statistics of b are reset
        work_of(b=(2, 0), a=(3, 0)),
    ):
        one.add(work, label_of=lambda _: "other")
        totals.append((one.active[("other",)], one.abandoned[("other",)]))
    assert totals == [(110, 6), (111, 7), (113, 7), (116, 7), (117, 7), (118, 7)]


def test_d02_a_database_that_is_really_called_other_has_a_series_of_its_own() -> None:
    one = LabelLimiter(Bound(most=1))
    one.begin_look(["other", "second"])
    assert [one.fold(name) for name in ("other", "second", "unknown")] == ['"other"', "other", "unknown"]
