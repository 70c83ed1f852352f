"""The life of an act, from the answer of the statement that signals to its end, as one state machine.

Three questions are answered here and nowhere else: which state an answer leads to, what a look's observation of the
run makes of a state, and what a state means for the next decision. Rows come in as values; nothing here reads one.

`TRANSITIONS` is the table. Its rows are a state; its columns what a look showed of the run that was acted on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.core.acting.acts import SUCCESSES, Act, ObservedEffect, Outcome, Result
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.copies import CopyKey, copy_key
from watchdog.core.judging.evidence import Evidence
from watchdog.core.observed.activity import Clock, Run


class ActState(StrEnum):
    """Where an act stands while its run may still be there. The last two are closed: there is no further try."""

    REHEARSED = "rehearsed"
    AWAITING_EFFECT = "awaiting_effect"
    RETRYABLE = "retryable"
    REFUSED = "refused"
    INEFFECTIVE = "ineffective"


class Observation(StrEnum):
    """What a look showed of a run that was acted on.

    `in_pause`: the statement is still there, and the pause after the act is not over. `loop_goes_on`: another
    statement of the same run, measured by clock run. The last four are the outcomes of these names: the run is over.
    """

    IN_PAUSE = "in_pause"
    STILL_THERE = "still_there"
    LOOP_GOES_ON = "loop_goes_on"
    ENDED = "ended"
    BETWEEN_STATEMENTS = "between_statements"
    MOVED_ON = "moved_on"
    TRANSACTION_GOES_ON = "transaction_goes_on"


@dataclass(frozen=True, slots=True)
class Transition:
    """The next state, None for none: nothing is remembered any more. `outcome` is told and put on record, if any."""

    state: ActState | None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAct:
    """What is remembered of the acts on one run while its row may be there; `id` and `at` are the last one's."""

    id: str
    rule: str
    state: ActState
    attempts: int
    at: datetime
    statement: datetime | None
    transaction: datetime | None
    clock: Clock
    key: CopyKey | None = None
    client_gone: bool = False

    @property
    def hand(self) -> Hand:
        """By which hand it was carried out."""
        return Hand.REHEARSE if self.state is ActState.REHEARSED else Hand.SIGNAL


GOES_ON = (Observation.IN_PAUSE, Observation.STILL_THERE, Observation.LOOP_GOES_ON)
OVER = tuple(each for each in Observation if each not in GOES_ON)

Row = Mapping[Observation, tuple[Transition, Transition]]
"""By observation: the transition while a try is left, and the one with none left."""


def _rehearsed() -> Row:
    """A rehearsed run that is over has ended by itself; one measured by clock run, with its transaction."""
    stays = Transition(ActState.REHEARSED)
    over = Transition(None, Outcome.ENDED_BY_ITSELF)
    return dict.fromkeys(GOES_ON, (stays, stays)) | dict.fromkeys(OVER, (over, over))


def _awaiting_effect() -> Row:
    """An act whose run is over is told with what was seen; one that is still there after its pause had no effect."""
    waits, lost = Transition(ActState.AWAITING_EFFECT), Transition(None, Outcome.TRANSACTION_GOES_ON)
    again = Transition(ActState.RETRYABLE, Outcome.STILL_THERE)
    last = Transition(ActState.INEFFECTIVE, Outcome.INEFFECTIVE)
    over = {each: Transition(None, Outcome(each)) for each in OVER}
    return {
        Observation.IN_PAUSE: (waits, waits),
        Observation.STILL_THERE: (again, last),
        Observation.LOOP_GOES_ON: (lost, lost),
    } | {each: (told, told) for each, told in over.items()}


def _retryable() -> Row:
    """What came of the last try has been told. The run may be tried again while it goes on and a try is left."""
    stays = Transition(ActState.RETRYABLE)
    last, over = Transition(ActState.INEFFECTIVE, Outcome.INEFFECTIVE), Transition(None)
    return dict.fromkeys(GOES_ON, (stays, last)) | dict.fromkeys(OVER, (over, over))


def _closed(state: ActState) -> Row:
    """Nothing more is done or told; it is remembered while the run goes on, so that it stays closed."""
    stays, over = Transition(state), Transition(None)
    return dict.fromkeys(GOES_ON, (stays, stays)) | dict.fromkeys(OVER, (over, over))


TRANSITIONS: Mapping[ActState, Row] = {
    ActState.REHEARSED: _rehearsed(),
    ActState.AWAITING_EFFECT: _awaiting_effect(),
    ActState.RETRYABLE: _retryable(),
    ActState.REFUSED: _closed(ActState.REFUSED),
    ActState.INEFFECTIVE: _closed(ActState.INEFFECTIVE),
}

_AFTER_ANSWER: Mapping[Result, ActState | None] = {
    Result.SIGNALLED: ActState.AWAITING_EFFECT,
    Result.TIMED_OUT: ActState.AWAITING_EFFECT,  # the signal may have been sent
    Result.REHEARSED: ActState.REHEARSED,
    Result.NOT_PERMITTED: ActState.REFUSED,
    Result.GONE: None,
    Result.MOVED_ON: None,
    Result.PROTECTED: None,
    Result.NOT_TRIED: None,
}

_CLOSED_BECAUSE = {ActState.REFUSED: Withheld.REFUSED, ActState.INEFFECTIVE: Withheld.INEFFECTIVE}


def state_after_answer(result: Result, *, fetch_loop: bool) -> ActState | None:
    """The state that an answer leads to; None: nothing was done, and what was remembered before stays true.

    A FETCH loop that was met between two statements has moved on and goes on all the same: that counts as a try.
    """
    if result is Result.MOVED_ON and fetch_loop:
        return ActState.RETRYABLE
    return _AFTER_ANSWER[result]


def state_on_record(
    result: Result | None, outcome: Outcome | None, *, hand: Hand, fetch_loop: bool
) -> Transition | None:
    """Where the ledger leaves an act; None: nothing was done.

    Without a `result` the process ended before it knew the answer, so the signal may have been sent.
    """
    unanswered = Result.REHEARSED if hand is Hand.REHEARSE else Result.TIMED_OUT
    state = state_after_answer(result or unanswered, fetch_loop=fetch_loop)
    if state is None:
        return None
    if outcome in SUCCESSES:
        return Transition(None, outcome)
    if outcome is Outcome.STILL_THERE:
        return Transition(ActState.RETRYABLE)
    return Transition(ActState.INEFFECTIVE if outcome is Outcome.INEFFECTIVE else state)


def observed(
    run: Run, act: OpenAct, seen: Observation, *, at: datetime, tries: int
) -> tuple[ObservedEffect | None, OpenAct | None]:
    """What a look's observation makes of an act: the effect to tell now, if any, and the act as it goes on, if so."""
    left, none_left = TRANSITIONS[act.state][seen]
    next_step = left if act.attempts < tries else none_left
    effect = None
    if next_step.outcome is not None:
        regret = next_step.outcome is Outcome.ENDED_BY_ITSELF and not act.client_gone
        effect = ObservedEffect(
            id=act.id, run=run, rule=act.rule, hand=act.hand, outcome=next_step.outcome, at=at, regret=regret
        )
    return effect, None if next_step.state is None else replace(act, state=next_step.state)


def pause_after(attempts: int, *, interval: timedelta) -> timedelta:
    """How long to wait after the last of `attempts` before its effect is said to be none: 1, 2, 4 intervals."""
    return interval * float(2 ** (attempts - 1))


def awaits_effect(act: OpenAct) -> bool:
    """True while a signal was sent whose effect is not known: it counts for the share of acts at once."""
    return act.state is ActState.AWAITING_EFFECT


def is_under_way(act: OpenAct, *, rehearses: bool) -> bool:
    """True where nothing is to be decided about its run now. A rehearsal is no act once we are armed."""
    return awaits_effect(act) or (rehearses and act.state is ActState.REHEARSED)


def closed_because(act: OpenAct) -> Withheld | None:
    """Why there is no further try for its run; None where there may be one."""
    return _CLOSED_BECAUSE.get(act.state)


def open_act(act: Act, *, state: ActState) -> OpenAct:
    """What is to be remembered of an act from now on."""
    finding = act.finding
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    return OpenAct(
        id=act.id,
        rule=act.rule.name,
        state=state,
        attempts=act.attempt,
        at=act.at,
        statement=None if statement is None else statement.at,
        transaction=None if backend.transaction is None else backend.transaction.at,
        clock=finding.clock,
        key=copy_key(finding),
        client_gone=Evidence.CLIENT_GONE in finding.evidence,
    )
