"""Compares what the ledger says of the second part with the server's log and with what the callers saw."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from support.crashing import NOT_SIGNALLED

from truth.acts import INTERVAL, TRIES, Played
from truth.acts_callers import BUDGET, GRACE, LOST, Caller, Step
from truth.acts_log import Hit, Label, Sent

EDGE = 0.25
"""Seconds by which a caller may learn of something later than the server shows it, on a machine with other work."""

MOMENT = 0.05
"""The same for what the server's own log shows."""

SOON = 5.0
"""Seconds within which a cancel follows the guarded statement that has sent it."""

LEAVERS = (
    "plain",
    "killed",
    "loop",
    "savepoint",
    "stubborn",
    "renaming",
    "foreign_read",
    "retry",
    "pooled_late",
)
"""Kinds of callers that give up. All others wait until they have their answer."""

TEMPTING = ("writer", "migration", "foreign_write", "backup", "pooled")
"""Kinds that a daemon without protections, or one that believes the names behind a pooler, would cancel."""

STILL_RUNS = ("still_there", "ineffective", "waits_for_client")
"""Outcomes that say that the command was still running."""

CANCELLED = "57014"

Row = Mapping[str, Any]  # the rows have the types of the ledger


@dataclass(frozen=True, slots=True)
class Aim:
    """A row of the ledger, the cancel that is its work, and the command that was hit, or else was aimed at."""

    row: Row
    sent: Sent | None
    caller: Caller | None
    step: Step | None
    hit: Hit | None

    def __str__(self) -> str:
        """What is needed to understand a contradiction."""
        shown = ("id", "pid", "attempt", "statement_start", "intended_at", "result", "outcome", "outcome_at", "detail")
        row = ", ".join(f"{name} {self.row[name]}" for name in shown)
        return f"{row}; {self.sent}; {self.step}; {self.hit}; {self.caller}"


@dataclass
class ActsTruth:
    """What was played, and every contradiction in it. Each list of contradictions should be empty."""

    played: Played
    unexplained: list[Hit] = field(default_factory=list)
    """Cancels in the server's log without an act of their own."""

    by_act: dict[str, Hit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the act of each cancel: the last one before it that was sent to its session and has no cancel yet."""
        rows = {str(row["id"]): row for row in self.played.ledger}
        sent: dict[int, list[Sent]] = defaultdict(list)
        for each in self.played.log.sent:
            row = rows.get(each.act)
            if row is not None and row["result"] not in NOT_SIGNALLED:
                sent[int(row["pid"])].append(each)
        for hit in self.cancels:
            before = [
                each
                for each in sent[hit.pid]
                if each.order < hit.order and hit.at - each.at <= SOON and each.act not in self.by_act
            ]
            if before:
                self.by_act[before[-1].act] = hit
            else:
                self.unexplained.append(hit)

    @cached_property
    def cancels(self) -> list[Hit]:
        """The cancels in the log, without those that postgres_fdw has handed on."""
        return [hit for hit in self.played.log.hits if not hit.application.startswith("far ")]

    @cached_property
    def handed_on(self) -> list[Hit]:
        """The cancels that postgres_fdw has handed on to the other server."""
        return [hit for hit in self.played.log.hits if hit.application.startswith("far ")]

    @cached_property
    def aims(self) -> list[Aim]:
        """Every row of the ledger with what belongs to it."""
        sent = {each.act: each for each in self.played.log.sent}
        found = []
        for row in self.played.ledger:
            act, pid = str(row["id"]), int(row["pid"])
            hit, guarded = self.by_act.get(act), sent.get(act)
            if guarded is not None:  # it has compared the start of the command
                began = self.played.log.command_before(pid, guarded.order)
                aimed = None if began is None else began.label
            else:
                aimed = self._label_at(row)
            label = hit.label if hit is not None else aimed
            caller = None if label is None else self.played.callers.get(label[0])
            step = None if caller is None or label is None else caller.steps[label[1]]
            found.append(Aim(row, guarded, caller, step, hit))
        return found

    def contradictions(self) -> dict[str, list[str]]:
        """Every check by its words, with what contradicts it."""
        checks: dict[str, Callable[[], Iterator[str]]] = {
            "a cancelled caller had given up": self._of_cancels,
            "a caller saw every cancel of its commands, and no other": self._of_what_was_seen,
            "a cancel has one intent": self._of_intents,
            "what is said to be signalled was aimed at a caller who had given up": self._of_aims,
            "an outcome is what the caller saw": self._of_outcomes,
            "unknown is only what a killed daemon has left": self._of_unknown,
            "a stubborn session is left alone in the end": self._of_stubborn,
            "who waits for an answer gets it": self._of_protected,
            "what was written is there": self._of_written,
            "no daemon has had an error of its own": lambda: iter(self.played.errors),
        }
        return {words: list(check()) for words, check in checks.items()}

    # The checks

    def _of_cancels(self) -> Iterator[str]:
        for hit in self.cancels:
            caller = self._caller_of(hit)
            if caller is None or caller.kind not in LEAVERS or not _had_given_up(caller, hit.at):
                yield f"{hit} {caller}"

    def _of_what_was_seen(self) -> Iterator[str]:
        hit = Counter(each.label for each in self.cancels if not each.swallowed)
        yield from (f"{number} cancels of {label}" for label, number in hit.items() if number > 1)
        for caller in self.played.callers.values():
            for number, step in enumerate(caller.steps):
                was_hit = (caller.number, number) in hit
                if step.saw != LOST and was_hit != (step.saw == CANCELLED):
                    yield f"command {number} of {caller}"

    def _of_intents(self) -> Iterator[str]:
        known = {str(row["id"]) for row in self.played.ledger}
        times = Counter(each.act for each in self.played.log.sent)
        yield from (f"no intent: {act}" for act in times if act not in known)
        yield from (f"sent {number} times: {act}" for act, number in times.items() if number > 1)
        yield from (f"no act: {hit} {self._caller_of(hit)}" for hit in self.unexplained)
        for hit in self.handed_on:
            pid = int(hit.application.split()[1])
            if not any(each.pid == pid and abs(each.at - hit.at) <= 1 for each in self.cancels):
                yield f"no cancel to hand on: {hit}"

    def _of_aims(self) -> Iterator[str]:
        for aim in self._signalled():
            if aim.sent is None or aim.caller is None or not _had_given_up(aim.caller, aim.sent.at):
                yield f"{aim}"
            elif not self._is_about(aim):
                yield f"another caller was hit: {aim}"
            elif aim.hit is None and self._end(aim)[0] > aim.sent.at + EDGE:
                yield f"no cancel in the log: {aim}"

    def _of_outcomes(self) -> Iterator[str]:
        for aim in self.aims:
            outcome = aim.row["outcome"]
            if outcome is None:
                if aim.row["result"] not in NOT_SIGNALLED:
                    yield f"no outcome: {aim}"
            elif outcome != "unknown" and (aim.step is None or not self._agrees(aim, str(outcome))):
                yield f"{aim}"

    def _of_unknown(self) -> Iterator[str]:
        for row in self.played.ledger:
            if row["result"] is None or row["outcome"] == "unknown":
                began = row["intended_at"].timestamp()
                ended = began if row["outcome_at"] is None else row["outcome_at"].timestamp()
                # A reload closes open acts as unknown until their outcome is seen, and a kill may come before that.
                seen = began + INTERVAL * 2.0 ** (row["attempt"] - 1) + 2 * INTERVAL
                if not any(began <= kill <= max(ended, seen) for kill in self.played.kills):
                    yield f"{row}"

    def _of_stubborn(self) -> Iterator[str]:
        attempts = Counter((row["pid"], row["run_start"]) for row in self._rows_that_may_have_signalled())
        yield from (f"{number} attempts at {run}" for run, number in attempts.items() if number > TRIES)
        for aim in self.aims:
            if aim.row["outcome"] in {"ineffective", "ended_late"}:
                if aim.caller is None or aim.caller.kind != "stubborn" or aim.row["attempt"] != TRIES:
                    yield f"not stubborn: {aim}"
            elif aim.row["outcome"] == "still_there" and aim.row["attempt"] >= TRIES:
                yield f"the last attempt: {aim}"

    def _of_protected(self) -> Iterator[str]:
        for caller in self.played.callers.values():
            if caller.kind not in LEAVERS and (caller.gave_up is not None or any(step.saw for step in caller.steps)):
                yield f"{caller}"
            if caller.kind == "savepoint" and (caller.steps[-1].verb, caller.steps[-1].saw) != ("COMMIT", ""):
                yield f"not cancelled once, and committed: {caller}"

    def _of_written(self) -> Iterator[str]:
        for caller in self.played.callers.values():
            if caller.kind in {"writer", "foreign_write"} and caller.number not in self.played.written:
                yield f"{caller}"

    # What a caller saw

    def _agrees(self, aim: Aim, outcome: str) -> bool:
        """Whether the outcome of an act is what its caller saw at that time."""
        assert aim.caller is not None
        assert aim.step is not None
        at: float = aim.row["outcome_at"].timestamp()
        end, slack = self._end(aim)
        if outcome in STILL_RUNS:
            return end >= at - slack
        return end <= at + slack and self._was_ended_by_it(aim) and self._session_agrees(aim, outcome, at)

    def _was_ended_by_it(self, aim: Aim) -> bool:
        """Whether the cancel is in the log, if it is said to be signalled. The command may have ended just then."""
        if aim.hit is not None or aim.row["result"] != "signalled" or aim.row["outcome"] == "ended_late":
            return True
        return aim.sent is not None and self._end(aim)[0] <= aim.sent.at + EDGE

    def _session_agrees(self, aim: Aim, outcome: str, at: float) -> bool:
        """Whether a session is in the state after its command that an outcome says."""
        assert aim.caller is not None
        left = self.played.log.left.get(int(aim.row["pid"]), float("inf"))
        match outcome:
            case "ended":
                return left <= at + EDGE
            case "between_statements":
                return left >= at - MOMENT and not _in_transaction(aim.caller, at - EDGE, at + EDGE)
            case "transaction_goes_on":
                return _in_transaction(aim.caller, at + EDGE, at - EDGE)
            case "moved_on":
                since = aim.hit.order if aim.hit is not None else aim.sent.order if aim.sent is not None else 0
                commands = self.played.log.commands[int(aim.row["pid"])]
                went_on = any(each.order > since and each.at <= at + EDGE for each in commands)
                return went_on and not _in_transaction(aim.caller, at - EDGE, at + EDGE)
        return outcome == "ended_late"

    def _end(self, aim: Aim) -> tuple[float, float]:
        """When the command that an act was about has ended, and how much later than that it may be by the snapshot."""
        assert aim.step is not None
        if aim.step.saw == LOST:
            return self.played.log.left.get(int(aim.row["pid"]), float("inf")), MOMENT
        if aim.step.saw == CANCELLED and aim.hit is not None:
            return aim.hit.at, MOMENT
        return aim.step.ended, EDGE

    def _is_about(self, aim: Aim) -> bool:
        """Whether the caller of an act is the one whose command the ledger says was running."""
        label = self._label_at(aim.row)
        return aim.caller is not None and label is not None and label[0] == aim.caller.number

    def _label_at(self, row: Row) -> Label | None:
        """The command that the session of a row began at the start in the row, between its sending and its answer."""
        start = row["statement_start"].timestamp()
        for each in self.played.log.commands[int(row["pid"])]:
            caller = self.played.callers.get(each.label[0])
            if caller is not None and caller.steps[each.label[1]].began <= start <= caller.steps[each.label[1]].ended:
                return each.label
        return None

    def _caller_of(self, hit: Hit) -> Caller | None:
        return None if hit.label is None else self.played.callers.get(hit.label[0])

    def _signalled(self) -> list[Aim]:
        return [aim for aim in self.aims if aim.row["result"] == "signalled"]

    def _rows_that_may_have_signalled(self) -> list[Row]:
        return [row for row in self.played.ledger if row["result"] not in NOT_SIGNALLED]

    # Figures

    def cancelled_kinds(self) -> Counter[str]:
        """How many cancels hit callers of each kind."""
        return Counter(caller.kind for hit in self.cancels if (caller := self._caller_of(hit)) is not None)

    def outcomes(self) -> Counter[str]:
        """How many acts that may have signalled have which outcome."""
        return Counter(str(row["outcome"]) for row in self._rows_that_may_have_signalled())

    def tempted(self) -> Counter[str]:
        """How many commands of protected callers ran on for an interval after a plain query would have been late."""
        late = BUDGET + GRACE + INTERVAL
        return Counter(
            caller.kind
            for caller in self.played.callers.values()
            for step in caller.steps
            if caller.kind in TEMPTING and step.ended - step.began >= (late if caller.kind != "pooled" else late / 2)
        )


def _had_given_up(caller: Caller, at: float) -> bool:
    return caller.gave_up is not None and caller.gave_up <= at + 0.001  # the log's times end with milliseconds


def _in_transaction(caller: Caller, since: float, until: float) -> bool:
    """Whether a caller had a transaction open that began by `since` and had not ended at `until`."""
    begins = [step.ended for step in caller.steps if step.verb == "BEGIN"]
    ends = [step.began for step in caller.steps if step.verb in {"COMMIT", "ROLLBACK"}]
    return any(begin <= since and end >= until for begin, end in zip(begins, ends, strict=False))
