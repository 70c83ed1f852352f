"""Bounded labels over time: a day of snapshots with ten thousand names, and what is left of them."""

from datetime import datetime, timedelta

from support.acting import ONCE, commands_of
from support.builders import NOW, backend, bench, book, census, rule, seconds, snapshot

from watchdog.core.activity import Backend
from watchdog.core.judge import Judgement, Memory, judge
from watchdog.core.look import Look
from watchdog.core.memory import PolicyMemory, forget
from watchdog.core.policy import Policy, decide
from watchdog.core.protections import Protect, Scene
from watchdog.core.rules import OVER_BUDGET_RULE
from watchdog.core.verdicts import Decisions
from watchdog.web.labels import Bound, Bounds
from watchdog.web.series import Series
from watchdog.web.tally import ACTIVITY, COPIES, ORPHANS, SHARES, STARTS, Tally

ROLES, JOBS, DATABASES = 20, 30, 10
BENCH = bench(book(rule(copies=1, retry_gap=10), roles={"etl_app": 60}, default=60), interval=60.0)
BOUNDS = Bounds(
    roles=Bound(frozenset({"etl_app"}), ROLES),
    jobs=Bound(frozenset({"nightly"}), JOBS),
    databases=Bound(most=DATABASES),
)

# Every label also takes the values `other` and `unknown` or '', and what the configuration names.
MOST_ROLES, MOST_JOBS, MOST_DATABASES = ROLES + 3, JOBS + 3, DATABASES + 2
CEILING = {
    **dict.fromkeys(ACTIVITY, MOST_ROLES * MOST_DATABASES),
    **dict.fromkeys(ORPHANS, MOST_ROLES * MOST_DATABASES * MOST_JOBS),
    **dict.fromkeys(COPIES, MOST_ROLES * MOST_DATABASES * MOST_JOBS),
    **dict.fromkeys(SHARES, MOST_ROLES * MOST_JOBS),
    **dict.fromkeys(STARTS, MOST_JOBS),
    "orphans_detected_total": MOST_ROLES * MOST_JOBS,
}


def count(series: Series) -> int:
    return sum(len(each) for each in (*series.gauges.values(), *series.counters.values()))


def decided(
    judgement: Judgement, rows: list[Backend], *, memory: PolicyMemory, at: datetime
) -> tuple[Decisions, PolicyMemory]:
    scene = Scene(census(), Protect(), commands_of(*rows))
    return decide(judgement, at=at, policy=Policy(), standing=ONCE, scene=scene, memory=memory, interval=BENCH.interval)


def test_c27_ten_thousand_names_in_a_day_stay_below_the_ceiling_and_end_when_their_cause_ends() -> None:
    tally, memory, said = Tally(BENCH.book, (OVER_BUDGET_RULE,), BOUNDS), Memory(), PolicyMemory()
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
        judgement, memory = judge(seen, bench=BENCH, census=census(), memory=memory, tick=True)
        present = frozenset(case.run for case in judgement.cases)
        decisions, said = decided(judgement, rows, memory=said, at=at)
        said = forget(said, present=present, at=at)
        look = Look("main", seen, census(), judgement, decisions, BENCH.interval, seconds(0.001), tick=True)
        tally.add(look, now=60.0 * minute, unix_time=0.0)
        sizes.append(count(tally.series))
        for name, most in CEILING.items():
            assert len(tally.series.gauges[name]) <= most, name
            assert len(tally.series.counters[name]) <= most, name
    assert minutes * per_minute > 10_000
    assert max(sizes[720:quiet_from]) <= max(sizes[:720]), "the second half of the day adds nothing"
    folded = tally.series.gauges["label_values_folded"]
    assert folded["usename",] == 0, "nothing is folded any more: nobody is there"
    for name in CEILING:
        assert not tally.series.gauges[name], f"{name} outlived its cause by more than an hour"
        left = set(tally.series.counters[name]) - {("nightly",)}
        assert not left, f"{name} outlived its cause by more than an hour"
    assert len(memory.accounts.carriers) == len(memory.accounts.windows) == len(memory.namings) == 0
    assert said.said == frozenset()


def test_c27_what_folds_is_said_while_it_folds() -> None:
    tally = Tally(BENCH.book, (OVER_BUDGET_RULE,), BOUNDS)
    rows = [backend(pid=k, role=f"role{k}", name=f"scan:job{k}:w", query=100) for k in range(100)]
    judgement, _ = judge(snapshot(*rows), bench=BENCH, census=census(), memory=Memory(), tick=True)
    decisions, _ = decided(judgement, rows, memory=PolicyMemory(), at=NOW)
    look = Look("main", snapshot(*rows), census(), judgement, decisions, BENCH.interval, seconds(0.001), tick=True)
    tally.add(look, now=0.0, unix_time=0.0)
    folded = tally.series.gauges["label_values_folded"]
    assert (folded["usename",], folded["job_key",]) == (100 - ROLES, 100 - JOBS)
    assert sum(tally.series.gauges["orphans"].values()) == 100, "folding loses no orphan"
