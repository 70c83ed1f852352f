"""A cancel that a person asks for. It has the same protections, guarded statement and record as any act.

It needs no arming and no lease, because a person has looked at this one run and named it. It needs the start of the
run, so that exactly the run is cancelled that was looked at. The disarm file prevents it, as it prevents every act.
"""

import asyncio
import contextlib
import secrets
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect, Outcome, Result, cancel_target
from watchdog.core.acting.effects import follow, vanished
from watchdog.core.acting.lifecycle import ActState, open_act
from watchdog.core.acting.protections import ProtectionContext, protection
from watchdog.core.acting.rules import Action, Names, Rule
from watchdog.core.acting.verdicts import Hand, Withheld
from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.observed.activity import Clock
from watchdog.core.observed.census import ServerIdentity
from watchdog.core.present.look import Look
from watchdog.errors import ReadError
from watchdog.runtime.arming import DisarmFile
from watchdog.runtime.cycle import Cycle
from watchdog.runtime.ports import Ledger
from watchdog.runtime.single_look import look_with_sockets

PATIENCE = 5.0
"""Seconds to wait for an effect of the signal."""

PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was tried, as a sentence."""

    sentence: str


def rule_for(kind: Kind) -> Rule:
    """The rule under which a person's act is recorded in the ledger."""
    return Rule(name="by-hand", kind=kind, evidence=frozenset(), action=Action.CANCEL, only=Names(roles=("*",)))


async def manual_cancel(  # one parameter for each thing that a person states
    cycle: Cycle, ledger: Ledger, *, pid: int, start: datetime, rehearse: bool, disarm_file: Path | None
) -> tuple[ActResult, ObservedEffect | None] | Refusal:
    """Cancel the run of `pid` that began at `start`, if it is an orphan or a duplicate and nothing protects it.

    Raises:
        ReadError: the cluster could not be read.
        LedgerError: the act could not be recorded. Either it was not done, or its result is missing in the ledger.

    """
    disarm = DisarmFile()
    if not rehearse and await disarm.disarms(disarm_file):
        return Refusal(f"the disarm file {disarm_file} exists, or cannot be looked for")
    look = await look_with_sockets(cycle)
    found = _found(look, pid=pid, start=start)
    if isinstance(found, Refusal):
        return found
    act = await _act(cycle, look, found, hand=Hand.REHEARSE if rehearse else Hand.SIGNAL)
    if isinstance(act, Refusal):
        return act
    await ledger.intend([act])
    result = await _carried_out(cycle, act, look=look, disarmed=not rehearse and await disarm.disarms(disarm_file))
    await ledger.record([result], effects=(), came_back=())
    effect = None
    if result.result is Result.SIGNALLED:
        with contextlib.suppress(ReadError):  # the signal was sent and is on record; its effect is not known then
            effect = await _effect(cycle, act)
    if effect is not None:
        await ledger.record((), effects=[effect], came_back=())
    return result, effect


def _found(look: Look, *, pid: int, start: datetime) -> Finding | Refusal:
    """The finding about the run of `pid` that began at `start`, or why there is none."""
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


async def _act(cycle: Cycle, look: Look, found: Finding, *, hand: Hand) -> Act | Refusal:
    """The act that was asked for, unless something protects the run."""
    pid, rule = found.backend.pid, rule_for(found.kind)
    asked = await cycle.source.backends(commands=[pid])
    context = ProtectionContext(look.census, cycle.policy.protect, asked.commands)
    withheld = protection(found, rule=rule, context=context)
    if withheld is not None or cancel_target(found, rule=rule) is None:
        return Refusal(f"pid {pid} is protected: {(withheld or Withheld.UNKNOWN_ROLE).replace('_', ' ')}")
    return Act(
        id=secrets.token_hex(8),
        server=cycle.server,
        finding=found,
        rule=rule,
        hand=hand,
        attempt=1,
        at=look.snapshot.at,
        identity=ServerIdentity(look.census.system_identifier, look.snapshot.postmaster_start),
    )


async def _carried_out(cycle: Cycle, act: Act, *, look: Look, disarmed: bool) -> ActResult:
    if act.hand is Hand.REHEARSE:
        return ActResult(act=act, result=Result.REHEARSED, took=timedelta(0))
    target = cancel_target(act.finding, rule=act.rule)
    if disarmed or target is None:
        return ActResult(act=act, result=Result.NOT_TRIED, took=_since(look), withheld=Withheld.NOT_ARMED)
    if Evidence.CLIENT_GONE in act.finding.evidence and not cycle.sweeper.is_still_gone(act.finding.backend):
        return ActResult(act=act, result=Result.NOT_TRIED, took=_since(look), withheld=Withheld.CLIENT_THERE)
    result, met, detail = await cycle.source.cancel(target, act=act.id, manual=True)
    return ActResult(act=act, result=result, took=_since(look), withheld=met, detail=detail)


def _since(look: Look) -> timedelta:
    return timedelta(seconds=time.monotonic() - look.timing.read_at)


async def _effect(cycle: Cycle, act: Act) -> ObservedEffect | None:
    """The first effect that later snapshots show. If there is none within PATIENCE seconds, it is STILL_THERE."""
    acts = {act.finding.run: open_act(act, state=ActState.AWAITING_EFFECT, at=act.at)}
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        await asyncio.sleep(PAUSE)
        snapshot, _ = await cycle.source.snapshot()
        asked = await cycle.source.backends(alive=vanished(acts, snapshot=snapshot))
        effects, _ = follow(
            acts, snapshot=snapshot, at=snapshot.at, alive=asked.alive, interval=timedelta(seconds=PATIENCE), tries=1
        )
        if effects:
            return effects[0]
    return ObservedEffect(
        id=act.id,
        run=act.finding.run,
        rule=act.rule.name,
        hand=act.hand,
        outcome=Outcome.STILL_THERE,
        at=snapshot.at,
    )
