"""Bounded labels over time: a day of snapshots with ten thousand names, and what is left of them."""

from datetime import datetime, timedelta

from support.acting import ONCE, commands_of
from support.builders import NOW, backend, book, census, judge_settings, rule, seconds, snapshot

from watchdog.core.acting.limits import Limits
from watchdog.core.acting.memory import PolicyMemory, prune
from watchdog.core.acting.policy import Policy, decide
from watchdog.core.acting.protections import Protect, ProtectionContext
from watchdog.core.acting.rules import EVERY_ORPHAN_RULE
from watchdog.core.acting.verdicts import Decisions
from watchdog.core.judging.judge import Judgement, Memory, judge
from watchdog.core.observed.activity import Backend
from watchdog.core.present.look import Look
from watchdog.web.cluster_metrics import ACTIVITY, COPIES, ORPHANS, SHARES, STARTS, ClusterMetrics
from watchdog.web.families import activity, reading
from watchdog.web.labels import Bound, Bounds
from watchdog.web.series import Series

ROLES, JOBS, DATABASES = 20, 30, 10
JUDGE_SETTINGS = judge_settings(book(rule(copies=1, retry_gap=10), roles={"etl_app": 60}, default=60), interval=60.0)
BOUNDS = Bounds(
    roles=Bound(frozenset({"etl_app"}), ROLES),
    jobs=Bound(frozenset({"nightly"}), JOBS),
    databases=Bound(most=DATABASES),
)

# Every label also takes the values `other` and `unknown` or '', and what the configuration names.
MAX_ROLES, MAX_JOBS, MAX_DATABASES = ROLES + 3, JOBS + 3, DATABASES + 2
CEILING = {
    **dict.fromkeys(ACTIVITY, MAX_ROLES * MAX_DATABASES),
    **dict.fromkeys(ORPHANS, MAX_ROLES * MAX_DATABASES * MAX_JOBS),
    **dict.fromkeys(COPIES, MAX_ROLES * MAX_DATABASES * MAX_JOBS),
    **dict.fromkeys(SHARES, MAX_ROLES * MAX_JOBS),
    **dict.fromkeys(STARTS, MAX_JOBS),
    activity.ORPHANS_DETECTED: MAX_ROLES * MAX_JOBS,
}


def count(series: Series) -> int:
    return sum(len(each) for each in (*series.gauges.values(), *series.counters.values()))


def decided(
    judgement: Judgement, rows: list[Backend], *, memory: PolicyMemory, at: datetime
) -> tuple[Decisions, PolicyMemory]:
    context = ProtectionContext(census(), Protect(), commands_of(*rows))
    return decide(
        judgement, at=at, policy=Policy(), status=ONCE, context=context, memory=memory, interval=JUDGE_SETTINGS.interval
    )


def test_c27_ten_thousand_names_in_a_day_stay_below_the_ceiling_and_end_when_their_cause_ends() -> None:
    cluster_metrics, memory, said = (
        ClusterMetrics(book=JUDGE_SETTINGS.book, rules=(EVERY_ORPHAN_RULE,), bounds=BOUNDS),
        Memory(),
        PolicyMemory(),
    )
    quiet_from, minutes, per_minute = 1440, 1440 + 90, 7
    sizes = []
    for minute in range(minutes):
        at = NOW + timedelta(minutes=minute)
        rows = [
            backend(
                pid=100 + k,
                role=f"role{minute * per_minute + k}",
                database=f"db{(minute * per_minute + k) % 3000}",
                name=f"scan:job{(minute * per_minute + k) % 5000}:window{minute * per_minute + k}",
                query=100,
                started=200 + k,
                now=at,
            )
            for k in range(per_minute if minute < quiet_from else 0)
        ]
        seen = snapshot(*rows, at=at)
        judgement, memory = judge(seen, settings=JUDGE_SETTINGS, census=census(), memory=memory, tick=True)
        present = frozenset(case.run for case in judgement.cases)
        decisions, said = decided(judgement, rows, memory=said, at=at)
        said = prune(said, present=present, limits=Limits(), at=at)
        look = Look(
            server="main",
            snapshot=seen,
            census=census(),
            judgement=judgement,
            decisions=decisions,
            interval=JUDGE_SETTINGS.interval,
            took=seconds(0.001),
            tick=True,
        )
        cluster_metrics.add(look, now=60.0 * minute, unix_time=0.0)
        sizes.append(count(cluster_metrics.series))
        for metric, most in CEILING.items():
            assert len(cluster_metrics.series.gauges[metric]) <= most, metric.name
            assert len(cluster_metrics.series.counters[metric]) <= most, metric.name
    assert minutes * per_minute > 10_000
    assert max(sizes[720:quiet_from]) <= max(sizes[:720]), "the second half of the day adds nothing"
    folded = cluster_metrics.series.gauges[reading.LABEL_VALUES_FOLDED]
    assert folded["usename",] == 0, "nothing is folded any more: nobody is there"
    for metric in CEILING:
        assert not cluster_metrics.series.gauges[metric], f"{metric.name} outlived its cause by more than an hour"
        left = set(cluster_metrics.series.counters[metric]) - {("nightly",)}
        assert not left, f"{metric.name} outlived its cause by more than an hour"
    assert len(memory.accounts.sessions) == len(memory.accounts.windows) == len(memory.namings) == 0
    assert said.said == frozenset()


def test_c27_what_folds_is_said_while_it_folds() -> None:
    cluster_metrics = ClusterMetrics(book=JUDGE_SETTINGS.book, rules=(EVERY_ORPHAN_RULE,), bounds=BOUNDS)
    rows = [backend(pid=k, role=f"role{k}", name=f"scan:job{k}:w", query=100) for k in range(100)]
    judgement, _ = judge(snapshot(*rows), settings=JUDGE_SETTINGS, census=census(), memory=Memory(), tick=True)
    decisions, _ = decided(judgement, rows, memory=PolicyMemory(), at=NOW)
    look = Look(
        server="main",
        snapshot=snapshot(*rows),
        census=census(),
        judgement=judgement,
        decisions=decisions,
        interval=JUDGE_SETTINGS.interval,
        took=seconds(0.001),
        tick=True,
    )
    cluster_metrics.add(look, now=0.0, unix_time=0.0)
    folded = cluster_metrics.series.gauges[reading.LABEL_VALUES_FOLDED]
    assert (folded["usename",], folded["job_key",]) == (100 - ROLES, 100 - JOBS)
    assert sum(cluster_metrics.series.gauges[activity.ORPHANS].values()) == 100, "folding loses no orphan"
