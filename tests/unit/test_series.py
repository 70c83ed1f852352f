"""Series: zeros when first seen, an hour of life, bounded labels, nothing of a cluster that was not read."""

from datetime import timedelta

from support.acting import ONCE, act_of, commands_of
from support.builders import NOW, backend, book, census, judge_settings, rule, snapshot

from watchdog.core.acting.acts import ActResult, Result
from watchdog.core.acting.memory import PolicyMemory
from watchdog.core.acting.policy import Policy, decide
from watchdog.core.acting.protections import Protect, ProtectionContext
from watchdog.core.acting.rules import OVER_BUDGET_RULE
from watchdog.core.judging.judge import JudgeSettings, Memory, judge
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Look, Unread
from watchdog.web.cluster_metrics import ClusterMetrics
from watchdog.web.labels import Bound, Bounds, LabelLimiter
from watchdog.web.series import KEPT_FOR, Histogram
from watchdog.web.table import RATIO_BUCKETS

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
    return ClusterMetrics(book=JUDGE_SETTINGS.book, rules=(OVER_BUDGET_RULE,), bounds=bounds or Bounds())


def test_a_series_appears_with_0_before_anything_is_found() -> None:
    one = cluster_metrics()
    one.add(look(backend(query=1)), now=0, unix_time=0)
    assert one.series.gauges["orphans"] == {("shop", "web_app", "", "over_budget"): 0}
    assert one.series.counters["orphans_detected_total"] == {("web_app", "", "over_budget"): 0}
    assert one.series.gauges["duplicate_copies"] == {}


def test_gauges_fall_to_0_and_end_an_hour_later() -> None:
    one = cluster_metrics()
    one.add(look(backend(name="scan:a:w1", query=100)), now=0, unix_time=0)
    labels = ("shop", "web_app", "a", "over_budget")
    assert one.series.gauges["orphans"][labels] == 1
    one.add(look(), now=10, unix_time=0)
    assert one.series.gauges["orphans"][labels] == 0
    assert one.series.counters["orphans_detected_total"][labels[1:]] == 1
    one.add(look(), now=KEPT_FOR + 1, unix_time=0)
    assert one.series.gauges["orphans"] == {}
    assert one.series.counters["orphans_detected_total"] == {}
    assert one.series.gauges["running_queries"] == {}


def test_a_cluster_that_was_not_read_shows_up_0_and_no_gauge_of_what_goes_on() -> None:
    one = cluster_metrics()
    one.add(look(backend(query=100)), now=0, unix_time=5)
    one.add(Unread("main", Reason.TIMEOUT, "slow"), now=1, unix_time=6)
    shown = {name: series for name, series in one.series.gauges.items() if series}
    disarmed = shown.pop("disarmed")
    assert shown == {"up": {(): 0.0}, "last_poll_success_timestamp_seconds": {(): 5.0}, "enforcing": {(): 0.0}}
    assert [reason for (reason,), holds in disarmed.items() if holds] == ["unread"]
    assert one.series.counters["poll_failures_total"]["timeout",] == 1


def test_reasons_rules_and_budgets_exist_from_the_start() -> None:
    one = cluster_metrics()
    assert set(one.series.counters["poll_failures_total"]) == {(reason,) for reason in Reason}
    assert ("over-budget",) in one.series.counters["dry_run_cancels_total"]
    assert ("over-budget", "writer") in one.series.counters["cancels_withheld_total"]
    assert set(one.series.histograms["finished_run_budget_ratio"]) == {("role:web_app",), ("role:etl_app",)}


def test_copies_and_windows_of_named_jobs_exist_from_the_start_so_that_a_rate_sees_the_first() -> None:
    one = cluster_metrics(Bounds(jobs=Bound(frozenset({"threads"}))))
    assert one.series.counters["job_copies_started_total"] == {("threads",): 0}
    assert one.series.counters["job_windows_started_total"] == {("threads",): 0}


def test_folded_labels_share_one_series_and_the_first_seen_keep_theirs() -> None:
    bounds = Bounds(roles=Bound(frozenset({"web_app"}), 1))
    budgets = judge_settings(book(JOBS, default=10))
    one = cluster_metrics(bounds)
    for step in range(3):
        rows = [backend(pid=p, role=role) for p, role in enumerate(["web_app", "first", f"new{step}", "newer"])]
        one.add(look(*rows, judged_by=budgets), now=step, unix_time=0)
    assert one.series.gauges["running_queries"] == {
        ("shop", "web_app"): 1, ("shop", "first"): 1, ("shop", "other"): 2,
    }  # fmt: skip
    assert one.series.gauges["label_values_folded"]["usename",] == 2


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
    for name in ("orphans", "job_copies", "running_queries"):
        assert len(one.series.gauges[name]) <= (5 + 1) * (5 + 1) * (2 + 1)
    assert len(one.series.counters["job_copies_started_total"]) <= 6


def test_a_histogram_counts_far_past_the_budget() -> None:
    histogram = Histogram(RATIO_BUCKETS)
    for value in (0.05, 0.9, 7.0, 70.0):
        histogram.observe(value)
    counts = histogram.cumulative()
    assert (counts["0.1"], counts["1.0"], counts["10.0"], counts["50.0"], counts["+Inf"]) == (1, 2, 3, 3, 4)
    assert histogram.total == 77.95
