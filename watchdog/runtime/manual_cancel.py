"""An act that a person asks for: the same protections, the same guarded statement, the same record.

It needs no arming and no lease, because somebody has looked at this one run and named it. It needs the run's start,
so that what is cancelled is what was looked at.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, OpenAct, Outcome, Result, cancel_target, open_act
from watchdog.core.acting.effects import follow, vanished
from watchdog.core.acting.protections import ProtectionContext, protection
from watchdog.core.acting.rules import Names, Rule
from watchdog.core.acting.verdicts import Action, Hand, Verdict, Withheld
from watchdog.core.judging.evidence import Finding, Kind
from watchdog.core.observed.activity import Clock, Run
from watchdog.core.present.look import Look
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.ports import Ledger

PATIENCE = 5.0
"""Seconds to wait for an effect."""

PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was tried, as a sentence."""

    sentence: str


def rule_for(kind: Kind) -> Rule:
    """The rule under which a person's act stands in the ledger."""
    return Rule("by-hand", kind, frozenset(), Action.CANCEL, only=Names(roles=("*",)))


async def manual_cancel(
    cycle: Cycle, ledger: Ledger, *, pid: int, start: datetime, rehearse: bool
) -> tuple[ActResult, ObservedEffect | None] | Refusal:
    """Cancel the run of `pid` that began at `start`, if it is an orphan or a duplicate and nothing protects it.

    Raises:
        ReadError: the cluster could not be read.
        LedgerError: the act could not be put on record: it was not done, or its outcome is not there.

    """
    look = await cycle.look(tick=True)
    found = _found(look, pid=pid, start=start)
    if isinstance(found, Refusal):
        return found
    rule = rule_for(found.kind)
    asked = await cycle.source.backends(commands=[pid])
    withheld = protection(
        found, rule=rule, context=ProtectionContext(look.census, cycle.policy.protect, asked.commands)
    )
    target = cancel_target(found, rule=rule)
    if withheld is not None or target is None:
        return Refusal(f"pid {pid} is protected: {(withheld or Withheld.UNKNOWN_ROLE).replace('_', ' ')}")
    hand = Hand.REHEARSE if rehearse else Hand.SIGNAL
    act = Act(secrets.token_hex(8), cycle.server, Verdict(found, hand, Action.CANCEL, rule.name), 1, look.snapshot.at)
    await ledger.intend([act])
    if rehearse:
        done = ActResult(act, Result.REHEARSED, timedelta(0))
    else:
        result, met, detail = await cycle.source.cancel(target, act=act.id, manual=True)
        done = ActResult(act, result, timedelta(seconds=time.monotonic() - cycle.read_at), met, detail)
    await ledger.record([done], effects=(), came_back=())
    effect = await _effect(cycle, act) if done.result is Result.SIGNALLED else None
    if effect is not None:
        await ledger.record((), effects=[effect], came_back=())
    return done, effect


def _found(look: Look, *, pid: int, start: datetime) -> Finding | Refusal:
    """The finding about the run that was meant."""
    mine = [each for each in look.judgement.cases if each.backend.pid == pid]
    if not mine:
        return Refusal(f"no session with pid {pid} runs anything or is in a transaction")
    statement = mine[0].backend.start(Clock.STATEMENT)
    starts = {mine[0].run.start, None if statement is None else statement.at}
    if start not in starts:
        began = mine[0].run.start.isoformat()
        return Refusal(f"pid {pid} runs something else by now: it began at {began}")
    findings = [each for each in look.judgement.findings if each.backend.pid == pid]
    wanted = [each for each in findings if each.kind in {Kind.ORPHAN, Kind.DUPLICATE}]
    if not wanted:
        return Refusal(f"pid {pid} is neither an orphan nor a duplicate by this configuration")
    return wanted[0]


async def _effect(cycle: Cycle, act: Act) -> ObservedEffect | None:
    """What the next looks show of the act, as soon as it is more than that it is still there."""
    acts: dict[Run, OpenAct] = {act.finding.run: open_act(act, hand=Hand.SIGNAL)}
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        await asyncio.sleep(PAUSE)
        snapshot, _ = await cycle.source.snapshot()
        asked = await cycle.source.backends(alive=vanished(acts, snapshot=snapshot))
        effects, _ = follow(acts, snapshot=snapshot, alive=asked.alive, interval=timedelta(seconds=PATIENCE), tries=1)
        if effects:
            return effects[0]
    return ObservedEffect(
        act.id, act.finding.run, act.verdict.rule or "", Hand.SIGNAL, Outcome.STILL_THERE, snapshot.at
    )
