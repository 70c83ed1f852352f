"""The small version of the second part of `make truth`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from truth.acts import Plan, play
from truth.acts_table import acts_table, too_few
from truth.acts_truth import TEMPTING, ActsTruth
from watchdog.demo.guardian import Guardian


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_cancel_is_of_a_caller_who_had_given_up_and_is_on_record_with_what_the_caller_saw(
    tmp_path: Path, guardian: Guardian, tool: Callable[[str], str]
) -> None:
    plan = Plan(callers=51, seconds=12, kills=2, seed=7)
    truth = ActsTruth(play(plan, folder=tmp_path, guardian=guardian, pooler=tool("pgbouncer")))
    print(acts_table(truth))
    assert {words: found for words, found in truth.contradictions().items() if found} == {}
    assert (len(truth.played.kills), len(truth.played.reloads)) == (2, 2)
    # The callers come while the daemon is killed and warms up, so whether three of a kind are reached is not certain.
    assert len(too_few(truth, share=0.3)) <= 2
    assert len(truth.cancels) >= 12
    assert truth.tempted().keys() == set(TEMPTING)
