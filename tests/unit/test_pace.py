"""Sweeps: five a second of each cluster, and fewer where all of them together would take too much of a core."""

import pytest

from watchdog.sockets.pace import MAX_PAUSE, SHARE, SWEEP, WAKING, Pace


def swept(pace: Pace, *, clusters: int, cost: float, seconds: float, now: float = 0.0) -> tuple[float, float]:
    """Let so many clusters sweep at the pause in force; the last second's share of a core, and when it ended."""
    ends, spent = now + seconds, 0.0
    while now < ends:
        second, spent = now + 1.0, 0.0
        while now < second:
            now += pace.pause / clusters
            pace.note(cost, now=now)
            spent += cost + WAKING
    return spent, now


def test_a_few_clusters_are_swept_five_times_a_second() -> None:
    pace = Pace()
    share, _ = swept(pace, clusters=10, cost=0.0002, seconds=20)
    assert pace.pause == SWEEP
    assert share < SHARE


@pytest.mark.parametrize("clusters", [400, 900])
def test_many_clusters_are_swept_less_often_so_that_all_sweeps_stay_within_their_share(clusters: int) -> None:
    pace = Pace()
    share, now = swept(pace, clusters=clusters, cost=0.0002, seconds=20)
    assert SWEEP < pace.pause < MAX_PAUSE
    assert share == pytest.approx(SHARE, rel=0.1)
    swept(pace, clusters=5, cost=0.0002, seconds=60, now=now)
    assert pace.pause == SWEEP, "once they are few again, five times a second"


def test_no_cluster_waits_longer_than_the_longest_pause() -> None:
    pace = Pace()
    swept(pace, clusters=1000, cost=0.1, seconds=20)
    assert pace.pause == MAX_PAUSE
