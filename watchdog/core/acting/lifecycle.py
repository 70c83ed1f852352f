"""The state machine of an act, from the answer of the guarded statement to the end of the run.

This module alone decides three things: the state after an answer, the state after an observation at a look, and what a
state means for the next decision. It does not read rows of a snapshot: `effects` turns a row into an observation.

`TRANSITIONS` is the table of the state machine. It has a row for each state and a column for each observation.
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
    """The state of an act while its run may still be there.

    - `rehearsed`: the cancel was rehearsed.
    - `awaiting_effect`: a signal was or may have been sent, and its effect is not known yet.
    - `unanswered`: the process that acted ended before it had the answer. It will never be known whether a signal was
      sent, so an end of the run is no success of the act.
    - `retryable`: the last attempt had no effect, and another attempt may follow.
    - `pending`: the server waits for the client to read, so the signal stays pending. It ends the statement when the
      client reads on. No further attempt is made.
    - `refused`: the server refused the cancel. No further attempt is made.
    - `ineffective`: the last allowed attempt had no effect. No further attempt is made.
    """

    REHEARSED = "rehearsed"
    AWAITING_EFFECT = "awaiting_effect"
    UNANSWERED = "unanswered"
    RETRYABLE = "retryable"
    PENDING = "pending"
    REFUSED = "refused"
    INEFFECTIVE = "ineffective"


class Observation(StrEnum):
    """What a look showed of a run that was acted on.

    - `in_pause`: the statement still runs, and the pause after the act is not over.
    - `still_there`: the statement still runs, and the pause is over.
    - `waits_for_client`: as `still_there`, and the server waits for the client to read (`ClientWrite`).
    - `loop_goes_on`: another statement of the same run; the run is measured by the run clock.

    The other four mean that the run is over. They are described at the members of `Outcome` with the same names.
    """

    IN_PAUSE = "in_pause"
    STILL_THERE = "still_there"
    WAITS_FOR_CLIENT = "waits_for_client"
    LOOP_GOES_ON = "loop_goes_on"
    ENDED = "ended"
    BETWEEN_STATEMENTS = "between_statements"
    MOVED_ON = "moved_on"
    TRANSACTION_GOES_ON = "transaction_goes_on"


@dataclass(frozen=True, slots=True)
class Transition:
    """The next state and the outcome to report.

    A `state` of None means that the act is not remembered any more. An `outcome` is logged and written to the ledger.
    """

    state: ActState | None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAct:
    """What is remembered of the acts on one run while its row may be there.

    `id` and `at` are those of the last act; `at` is a steady time.
    """

    id: str
    rule: str
    state: ActState
    attempts: int
    at: datetime
    statement: datetime | None
    transaction: datetime | None
    clock: Clock
    role: str
    key: CopyKey | None = None
    client_gone: bool = False

    @property
    def hand(self) -> Hand:
        """The hand by which the act was carried out."""
        return Hand.REHEARSE if self.state is ActState.REHEARSED else Hand.SIGNAL


GOES_ON = (
    Observation.IN_PAUSE,
    Observation.STILL_THERE,
    Observation.WAITS_FOR_CLIENT,
    Observation.LOOP_GOES_ON,
)
"""Observations of a run that is not over."""

OVER = tuple(each for each in Observation if each not in GOES_ON)
"""Observations of a run that is over."""

Row = Mapping[Observation, tuple[Transition, Transition]]
"""For each observation, the transition if an attempt is left and the transition if none is left."""


_PENDING = Transition(ActState.PENDING, Outcome.WAITS_FOR_CLIENT)


def _rehearsed() -> Row:
    """After a rehearsal: a run that is over has ended by itself.

    A run that is measured by the run clock is over when its transaction is over.
    """
    stays = Transition(ActState.REHEARSED)
    over = Transition(None, Outcome.ENDED_BY_ITSELF)
    return dict.fromkeys(GOES_ON, (stays, stays)) | dict.fromkeys(OVER, (over, over))


def _awaiting_effect() -> Row:
    """After a signal: the outcome of a run that is over is the observation. A statement that still runs had no effect.

    If a run that is measured by the run clock goes on with another statement, the outcome is `transaction_goes_on`.
    """
    waits, lost = Transition(ActState.AWAITING_EFFECT), Transition(None, Outcome.TRANSACTION_GOES_ON)
    again = Transition(ActState.RETRYABLE, Outcome.STILL_THERE)
    last = Transition(ActState.INEFFECTIVE, Outcome.INEFFECTIVE)
    return {
        Observation.IN_PAUSE: (waits, waits),
        Observation.STILL_THERE: (again, last),
        Observation.WAITS_FOR_CLIENT: (_PENDING, _PENDING),
        Observation.LOOP_GOES_ON: (lost, lost),
    } | _over_as_seen()


def _unanswered() -> Row:
    """After an act whose answer is lost: as after a signal, but how the run ended says nothing about the act."""
    ended = Transition(None, Outcome.UNKNOWN)
    over = dict.fromkeys((*OVER, Observation.LOOP_GOES_ON), (ended, ended))
    waits = {Observation.IN_PAUSE: (Transition(ActState.UNANSWERED), Transition(ActState.UNANSWERED))}
    return {**_awaiting_effect(), **waits, **over}


def _retryable() -> Row:
    """After an attempt without effect, which has been reported: another attempt may follow while one is left."""
    stays = Transition(ActState.RETRYABLE)
    last, over = Transition(ActState.INEFFECTIVE, Outcome.INEFFECTIVE), Transition(None)
    pending = {Observation.WAITS_FOR_CLIENT: (_PENDING, _PENDING)}
    return dict.fromkeys(GOES_ON, (stays, last)) | pending | dict.fromkeys(OVER, (over, over))


def _pending() -> Row:
    """After a signal that stays pending: nothing more is done, and the outcome is what the run's end shows."""
    stays, lost = Transition(ActState.PENDING), Transition(None, Outcome.TRANSACTION_GOES_ON)
    loop = {Observation.LOOP_GOES_ON: (lost, lost)}
    return dict.fromkeys(GOES_ON, (stays, stays)) | loop | _over_as_seen()


def _closed(state: ActState, *, over: Transition) -> Row:
    """After a refusal or the last attempt: nothing more is done. The act is remembered to the run's end."""
    stays = Transition(state)
    return dict.fromkeys(GOES_ON, (stays, stays)) | dict.fromkeys(OVER, (over, over))


def _over_as_seen() -> dict[Observation, tuple[Transition, Transition]]:
    """The outcome of a run that is over is the observation."""
    return {each: (told, told) for each in OVER for told in (Transition(None, Outcome(each)),)}


TRANSITIONS: Mapping[ActState, Row] = {
    ActState.REHEARSED: _rehearsed(),
    ActState.AWAITING_EFFECT: _awaiting_effect(),
    ActState.UNANSWERED: _unanswered(),
    ActState.RETRYABLE: _retryable(),
    ActState.PENDING: _pending(),
    ActState.REFUSED: _closed(ActState.REFUSED, over=Transition(None)),
    ActState.INEFFECTIVE: _closed(ActState.INEFFECTIVE, over=Transition(None, Outcome.ENDED_LATE)),
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

_CLOSED_BECAUSE = {
    ActState.PENDING: Withheld.WAITS_FOR_CLIENT,
    ActState.REFUSED: Withheld.REFUSED,
    ActState.INEFFECTIVE: Withheld.INEFFECTIVE,
}

_ON_RECORD = {
    Outcome.STILL_THERE: ActState.RETRYABLE,
    Outcome.WAITS_FOR_CLIENT: ActState.PENDING,
    Outcome.INEFFECTIVE: ActState.INEFFECTIVE,
}
"""The states to which the outcomes of runs that are not over lead. After other outcomes it is the one of the answer."""

SIGNALLED_NOBODY = frozenset({Result.NOT_PERMITTED, Result.GONE, Result.MOVED_ON, Result.PROTECTED, Result.NOT_TRIED})
"""Answers after which it is certain that no signal was sent."""


def state_after_answer(result: Result, *, fetch_loop: bool) -> ActState | None:
    """The state after an answer. It is None if nothing was done; the state before the act is then kept.

    If the guarded statement finds a FETCH loop between two statements, its answer is `moved_on` although the run goes
    on. This counts as an attempt.
    """
    if result is Result.MOVED_ON and fetch_loop:
        return ActState.RETRYABLE
    return _AFTER_ANSWER[result]


def state_on_record(
    result: Result | None, outcome: Outcome | None, *, hand: Hand, fetch_loop: bool
) -> Transition | None:
    """The state of an act according to its record in the ledger, or None if nothing was done.

    A `result` of None means that the process ended before it had the answer, so the signal may have been sent.
    """
    state: ActState | None
    if result is None:
        state = ActState.REHEARSED if hand is Hand.REHEARSE else ActState.UNANSWERED
    else:
        state = state_after_answer(result, fetch_loop=fetch_loop)
    if state is None:
        return None
    if outcome in SUCCESSES or outcome is Outcome.ENDED_LATE:
        return Transition(None, outcome)
    return Transition(state if outcome is None else _ON_RECORD.get(outcome, state))


def observed(
    run: Run, act: OpenAct, seen: Observation, *, at: datetime, tries: int
) -> tuple[ObservedEffect | None, OpenAct | None]:
    """Apply an observation to an act.

    The first value is the outcome to report now, or None. The second is the act in its next state, or None if it is not
    remembered any more.
    """
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
    """How long to wait for the effect of attempt number `attempts`: 1, 2, 4 intervals and so on."""
    return interval * float(2 ** (attempts - 1))


def awaits_effect(act: OpenAct) -> bool:
    """True if a signal was or may have been sent and its effect is not known yet."""
    return act.state in (ActState.AWAITING_EFFECT, ActState.UNANSWERED)


def may_have_cancelled(outcome: Outcome | None, *, answered: bool) -> bool:
    """True if the end of the run is, or may be, the work of an act. A retry of such a run lets its key rest."""
    return outcome in SUCCESSES or (outcome is Outcome.UNKNOWN and not answered)


def takes_share(act: OpenAct) -> bool:
    """True if the act counts towards `Limits.share`: until the pause after the first attempt is over.

    A run that did not end by then is stubborn. It would hold the share against all others.
    """
    return awaits_effect(act) and act.attempts == 1


def is_under_way(act: OpenAct, *, rehearses: bool) -> bool:
    """True if no new act on the run is decided now. A rehearsal is ignored once the cluster is armed."""
    return awaits_effect(act) or (rehearses and act.state is ActState.REHEARSED)


def closed_because(act: OpenAct) -> Withheld | None:
    """Why no further attempt is made on the run, or None if one may follow."""
    return _CLOSED_BECAUSE.get(act.state)


def open_act(act: Act, *, state: ActState, at: datetime) -> OpenAct:
    """What is remembered of an act that has been carried out. `at` is its steady time."""
    finding = act.finding
    backend = finding.backend
    statement = backend.start(Clock.STATEMENT)
    return OpenAct(
        id=act.id,
        rule=act.rule.name,
        state=state,
        attempts=act.attempt,
        at=at,
        statement=None if statement is None else statement.at,
        transaction=None if backend.transaction is None else backend.transaction.at,
        clock=finding.clock,
        role=backend.role,
        key=copy_key(finding),
        client_gone=Evidence.CLIENT_GONE in finding.evidence,
    )
