"""The life of an act: every state, every observation, and what becomes of it."""

from datetime import datetime, timedelta

import pytest
from support.builders import NOW, seconds

from watchdog.core.acting.acts import SUCCESSES, Outcome, Result
from watchdog.core.acting.lifecycle import (
    TRANSITIONS,
    ActState,
    Observation,
    OpenAct,
    Transition,
    awaits_effect,
    closed_because,
    is_under_way,
    observed,
    pause_after,
    state_after_answer,
    state_on_record,
    takes_share,
)
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.cases import is_fetch_loop
from watchdog.core.observed.activity import Clock, Run

AWAITING = {ActState.AWAITING_EFFECT, ActState.UNANSWERED}
RUN = Run(7, NOW - seconds(1000), NOW - seconds(100))
TRIES = 3

TABLE = """
state            observation          try left                        no try left
rehearsed        in_pause             rehearsed                       rehearsed
rehearsed        still_there          rehearsed                       rehearsed
rehearsed        waits_for_client     rehearsed                       rehearsed
rehearsed        loop_goes_on         rehearsed                       rehearsed
rehearsed        ended                - ended_by_itself               - ended_by_itself
rehearsed        between_statements   - ended_by_itself               - ended_by_itself
rehearsed        moved_on             - ended_by_itself               - ended_by_itself
rehearsed        transaction_goes_on  - ended_by_itself               - ended_by_itself
awaiting_effect  in_pause             awaiting_effect                 awaiting_effect
awaiting_effect  still_there          retryable still_there           ineffective ineffective
awaiting_effect  waits_for_client     pending waits_for_client        pending waits_for_client
awaiting_effect  loop_goes_on         - transaction_goes_on           - transaction_goes_on
awaiting_effect  ended                - ended                         - ended
awaiting_effect  between_statements   - between_statements            - between_statements
awaiting_effect  moved_on             - moved_on                      - moved_on
awaiting_effect  transaction_goes_on  - transaction_goes_on           - transaction_goes_on
unanswered       in_pause             unanswered                      unanswered
unanswered       still_there          retryable still_there           ineffective ineffective
unanswered       waits_for_client     pending waits_for_client        pending waits_for_client
unanswered       loop_goes_on         - unknown                       - unknown
unanswered       ended                - unknown                       - unknown
unanswered       between_statements   - unknown                       - unknown
unanswered       moved_on             - unknown                       - unknown
unanswered       transaction_goes_on  - unknown                       - unknown
retryable        in_pause             retryable                       ineffective ineffective
retryable        still_there          retryable                       ineffective ineffective
retryable        waits_for_client     pending waits_for_client        pending waits_for_client
retryable        loop_goes_on         retryable                       ineffective ineffective
retryable        ended                -                               -
retryable        between_statements   -                               -
retryable        moved_on             -                               -
retryable        transaction_goes_on  -                               -
pending          in_pause             pending                         pending
pending          still_there          pending                         pending
pending          waits_for_client     pending                         pending
pending          loop_goes_on         - transaction_goes_on           - transaction_goes_on
pending          ended                - ended                         - ended
pending          between_statements   - between_statements            - between_statements
pending          moved_on             - moved_on                      - moved_on
pending          transaction_goes_on  - transaction_goes_on           - transaction_goes_on
refused          in_pause             refused                         refused
refused          still_there          refused                         refused
refused          waits_for_client     refused                         refused
refused          loop_goes_on         refused                         refused
refused          ended                -                               -
refused          between_statements   -                               -
refused          moved_on             -                               -
refused          transaction_goes_on  -                               -
ineffective      in_pause             ineffective                     ineffective
ineffective      still_there          ineffective                     ineffective
ineffective      waits_for_client     ineffective                     ineffective
ineffective      loop_goes_on         ineffective                     ineffective
ineffective      ended                - ended_late                    - ended_late
ineffective      between_statements   - ended_late                    - ended_late
ineffective      moved_on             - ended_late                    - ended_late
ineffective      transaction_goes_on  - ended_late                    - ended_late
"""
"""Written by hand. In the last two columns the next state, `-` for none, and the outcome that is told, if any."""


def opened(state: ActState, *, attempts: int = 1, client_gone: bool = False) -> OpenAct:
    return OpenAct(
        id="a1",
        rule="orphans",
        state=state,
        attempts=attempts,
        at=NOW,
        statement=NOW,
        transaction=NOW,
        clock=Clock.STATEMENT,
        role="web_app",
        client_gone=client_gone,
    )


def cells() -> list[tuple[ActState, Observation, tuple[str, str]]]:
    found = []
    for line in TABLE.strip().splitlines()[1:]:
        state, seen, left, spent = line[:17].strip(), line[17:38].strip(), line[38:70].strip(), line[70:].strip()
        found.append((ActState(state), Observation(seen), (left, spent)))
    return found


def written(transition: Transition) -> str:
    return " ".join(filter(None, (str(transition.state or "-"), str(transition.outcome or ""))))


def test_the_table_is_complete_and_is_the_one_that_people_read_here() -> None:
    in_code = {
        (state, seen): tuple(map(written, both)) for state, row in TRANSITIONS.items() for seen, both in row.items()
    }
    assert in_code == {(state, seen): words for state, seen, words in cells()}
    assert in_code.keys() == {(state, seen) for state in ActState for seen in Observation}


@pytest.mark.parametrize("attempts", [1, TRIES, TRIES + 1])
@pytest.mark.parametrize("seen", Observation)
@pytest.mark.parametrize("state", ActState)
def test_an_observation_makes_of_an_act_what_the_table_says(state: ActState, seen: Observation, attempts: int) -> None:
    effect, goes_on = observed(RUN, opened(state, attempts=attempts), seen, at=NOW + seconds(9), tries=TRIES)
    wanted = TRANSITIONS[state][seen][attempts >= TRIES]
    assert (None if goes_on is None else goes_on.state) == wanted.state
    assert (None if effect is None else effect.outcome) == wanted.outcome
    if effect is not None:
        assert (effect.id, effect.run, effect.rule, effect.at) == ("a1", RUN, "orphans", NOW + seconds(9))
        assert effect.hand is (Hand.REHEARSE if state is ActState.REHEARSED else Hand.SIGNAL)


@pytest.mark.parametrize("client_gone", [True, False])
def test_only_a_rehearsed_cancel_of_somebody_who_may_still_have_waited_is_a_regret(*, client_gone: bool) -> None:
    rehearsed = opened(ActState.REHEARSED, client_gone=client_gone)
    effect, _ = observed(RUN, rehearsed, Observation.ENDED, at=NOW, tries=TRIES)
    assert effect is not None
    assert effect.regret is not client_gone
    signalled, _ = observed(RUN, opened(ActState.AWAITING_EFFECT), Observation.ENDED, at=NOW, tries=TRIES)
    assert signalled is not None
    assert signalled.regret is False


@pytest.mark.parametrize("result", Result)
def test_every_answer_leads_to_a_state_or_leaves_what_was_before(result: Result) -> None:
    states = {
        Result.SIGNALLED: ActState.AWAITING_EFFECT,
        Result.TIMED_OUT: ActState.AWAITING_EFFECT,
        Result.REHEARSED: ActState.REHEARSED,
        Result.NOT_PERMITTED: ActState.REFUSED,
    }
    assert state_after_answer(result, fetch_loop=False) is states.get(result)
    in_a_loop = ActState.RETRYABLE if result is Result.MOVED_ON else states.get(result)
    assert state_after_answer(result, fetch_loop=True) is in_a_loop


@pytest.mark.parametrize("outcome", [None, *Outcome])
@pytest.mark.parametrize("result", [None, *Result])
def test_what_is_on_record_leads_to_the_state_in_which_a_daemon_that_ran_through_would_be(
    result: Result | None, outcome: Outcome | None
) -> None:
    left = state_on_record(result, outcome, hand=Hand.SIGNAL, fetch_loop=False)
    answered = ActState.UNANSWERED if result is None else state_after_answer(result, fetch_loop=False)
    if answered is None:
        assert left is None
    elif outcome in SUCCESSES or outcome is Outcome.ENDED_LATE:
        assert left == Transition(None, outcome)
    else:
        told = {
            Outcome.STILL_THERE: ActState.RETRYABLE,
            Outcome.WAITS_FOR_CLIENT: ActState.PENDING,
            Outcome.INEFFECTIVE: ActState.INEFFECTIVE,
        }
        assert left == Transition(told.get(outcome, answered) if outcome is not None else answered)


def test_an_intent_without_an_answer_may_have_been_carried_out() -> None:
    signal = state_on_record(None, None, hand=Hand.SIGNAL, fetch_loop=False)
    rehearsed = state_on_record(None, None, hand=Hand.REHEARSE, fetch_loop=False)
    assert (signal, rehearsed) == (Transition(ActState.UNANSWERED), Transition(ActState.REHEARSED))


def test_what_a_state_means_for_the_next_decision() -> None:
    acts = {state: opened(state) for state in ActState}
    assert {state for state, act in acts.items() if awaits_effect(act)} == AWAITING
    under_way = {state for state, act in acts.items() if is_under_way(act, rehearses=True)}
    assert under_way == AWAITING | {ActState.REHEARSED}
    assert {state for state, act in acts.items() if is_under_way(act, rehearses=False)} == AWAITING
    closed = {state: reason for state, act in acts.items() if (reason := closed_because(act)) is not None}
    assert closed == {
        ActState.PENDING: Withheld.WAITS_FOR_CLIENT,
        ActState.REFUSED: Withheld.REFUSED,
        ActState.INEFFECTIVE: Withheld.INEFFECTIVE,
    }
    shares = [takes_share(opened(ActState.AWAITING_EFFECT, attempts=attempts)) for attempts in (1, 2)]
    assert shares == [True, False], "a stubborn run leaves the share at its first pause"


def test_pauses_grow_with_each_attempt() -> None:
    interval = timedelta(seconds=5)
    assert [pause_after(attempts, interval=interval) for attempts in (1, 2, 3)] == [
        interval,
        2 * interval,
        4 * interval,
    ]


@pytest.mark.parametrize(
    ("clock", "statement", "is_loop"),
    [
        (Clock.RUN, NOW + seconds(1), True),
        (Clock.RUN, NOW + seconds(0.05), False),  # Parse and Bind, BEGIN and its statement
        (Clock.RUN, NOW, False),
        (Clock.RUN, None, False),
        (Clock.STATEMENT, NOW + seconds(1), False),
    ],
)
def test_a_fetch_loop_is_a_run_whose_statement_began_clearly_later(
    clock: Clock, statement: datetime | None, *, is_loop: bool
) -> None:
    assert is_fetch_loop(clock, start=NOW, statement=statement) is is_loop
