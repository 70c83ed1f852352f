"""What the log says of verdicts and outcomes: once for each run, rule and stage, and at most so many in a minute."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from structlog.testing import capture_logs
from support.acting import act_of, cancel_rule
from support.builders import NOW, backend
from test_series import look

from watchdog.core.acting.acts import ActResult, ObservedEffect, Outcome, Result
from watchdog.core.acting.rules import Rule
from watchdog.core.acting.verdicts import (
    LASTING,
    PASSING,
    ActionWithheld,
    Decisions,
    Due,
    Hand,
    Observed,
    Stage,
    UnderWay,
    Verdict,
    Withheld,
    stage_of,
)
from watchdog.core.judging.evidence import Finding
from watchdog.core.present.look import Look
from watchdog.runtime.line_limit import LINES_PER_MINUTE, LineLimit
from watchdog.runtime.log_sink import LogSink

RULE = cancel_rule()


@dataclass
class Hours:
    """A monotonic clock that a test sets."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Log:
    """A sink on a clock of its own, and the lines that it wrote."""

    hours: Hours = field(default_factory=Hours)
    acts: list[str] = field(default_factory=list)
    sink: LogSink = field(init=False)

    def __post_init__(self) -> None:
        self.sink = LogSink(
            self.acts.append, verdicts=LineLimit(clock=self.hours), outcomes=LineLimit(clock=self.hours)
        )

    def of(self, state: Look, event: str = "verdict") -> list[dict[str, object]]:
        """The lines of one event that the sink writes for a state."""
        with capture_logs() as lines:
            self.sink.publish(state)
        return [dict(line) for line in lines if line["event"] == event]


def finding(pid: int = 1) -> Finding:
    return busy(1, first=pid).judgement.findings[0]


def busy(count: int, *, first: int = 1) -> Look:
    """A look at so many orphans, about which nothing is new."""
    seen = look(*(backend(pid=first + i, query=100) for i in range(count)))
    return replace(seen, decisions=Decisions(verdicts=seen.decisions.verdicts), results=(), effects=())


def news(seen: Look, verdicts: Iterable[Verdict]) -> Look:
    return replace(seen, decisions=replace(seen.decisions, news=tuple(verdicts)))


def withheld(reason: Withheld, *, pid: int = 1, rule: Rule = RULE) -> ActionWithheld:
    return ActionWithheld(finding=finding(pid), rule=rule, reason=reason)


def all_withheld(seen: Look, reason: Withheld) -> Look:
    return news(seen, (ActionWithheld(finding=each, rule=RULE, reason=reason) for each in seen.judgement.findings))


def test_each_reason_is_either_passing_or_lasting() -> None:
    assert set(Withheld) == PASSING | LASTING
    assert PASSING.isdisjoint(LASTING)


def test_the_stage_of_each_kind_of_verdict() -> None:
    one = finding()
    stages = {
        stage_of(Observed(finding=one, rule=RULE)): Stage.OBSERVED,
        stage_of(withheld(Withheld.PAUSE)): Stage.NOT_YET,
        stage_of(withheld(Withheld.WRITER)): Stage.LEFT_ALONE,
        stage_of(Due(finding=one, rule=RULE, hand=Hand.REHEARSE)): Stage.REHEARSED,
        stage_of(UnderWay(finding=one, rule=RULE, hand=Hand.SIGNAL)): Stage.SIGNALLED,
    }
    assert [found for found, meant in stages.items() if found is not meant] == []
    assert set(stages) == set(Stage)


def test_a_run_that_waits_for_changing_reasons_has_one_line() -> None:
    log, seen = Log(), busy(1)
    told = [log.of(news(seen, [withheld(reason)])) for reason in Withheld if reason in PASSING]
    assert [len(lines) for lines in told] == [1, *[0] * (len(PASSING) - 1)]


def test_a_run_is_told_again_when_it_is_acted_on_and_when_it_is_protected() -> None:
    log, seen, one = Log(), busy(1), finding()
    verdicts: list[Verdict] = [
        withheld(Withheld.WARMING_UP),
        Due(finding=one, rule=RULE, hand=Hand.SIGNAL),
        UnderWay(finding=one, rule=RULE, hand=Hand.SIGNAL),
        withheld(Withheld.PAUSE),
        withheld(Withheld.INEFFECTIVE),
        withheld(Withheld.LIMIT),
        withheld(Withheld.WRITER),
    ]
    told = [(each["hand"], each.get("withheld")) for v in verdicts for each in log.of(news(seen, [v]))]
    assert told == [("none", "warming_up"), ("signal", None), ("none", "ineffective")]


def test_a_run_that_was_acted_on_at_once_has_no_line_for_what_it_waits_for_later() -> None:
    log, seen = Log(), busy(1)
    assert len(log.of(news(seen, [Due(finding=finding(), rule=RULE, hand=Hand.SIGNAL)]))) == 1
    assert log.of(news(seen, [withheld(Withheld.PAUSE)])) == []


def test_a_rehearsal_and_a_signal_are_told_apart() -> None:
    log, seen, one = Log(), busy(1), finding()
    hands = [log.of(news(seen, [Due(finding=one, rule=RULE, hand=hand)])) for hand in (Hand.REHEARSE, Hand.SIGNAL)]
    assert [line["hand"] for lines in hands for line in lines] == ["rehearse", "signal"]


def test_each_rule_and_each_run_has_its_own_line() -> None:
    log, seen = Log(), busy(2)
    other = replace(RULE, name="other")
    verdicts = [withheld(Withheld.PAUSE), withheld(Withheld.PAUSE, rule=other), withheld(Withheld.PAUSE, pid=2)]
    assert [(line["pid"], line["rule"]) for line in log.of(news(seen, verdicts))] == [
        (1, RULE.name), (1, "other"), (2, RULE.name),
    ]  # fmt: skip


def test_what_was_told_is_forgotten_with_the_run_and_kept_for_other_clusters() -> None:
    log, seen = Log(), busy(1)
    log.of(news(seen, [withheld(Withheld.PAUSE)]))
    log.of(replace(busy(0), server="other"))
    assert log.of(news(seen, [withheld(Withheld.LIMIT)])) == []
    log.of(busy(0))
    assert log.sink.told["main"] == {}


def test_a_flood_of_verdicts_is_bounded_and_what_was_left_out_is_said_when_the_minute_is_over() -> None:
    log, seen = Log(), busy(230)
    assert len(log.of(all_withheld(seen, Withheld.WARMING_UP))) == LINES_PER_MINUTE
    log.hours.now += 59
    assert log.of(seen, "verdicts_left_out") == []
    log.hours.now += 1
    [line] = log.of(seen, "verdicts_left_out")
    assert (line["count"], line["most_per_minute"]) == (110, 120)
    assert log.of(seen, "verdicts_left_out") == []


def test_a_run_whose_line_was_left_out_is_told_with_its_next_reason() -> None:
    log, seen = Log(), busy(230)
    log.of(all_withheld(seen, Withheld.WARMING_UP))
    log.hours.now += 60
    assert len(log.of(all_withheld(seen, Withheld.PAUSE))) == 110


def test_what_was_left_out_is_said_when_the_process_stops() -> None:
    log = Log()
    log.of(all_withheld(busy(121), Withheld.PAUSE))
    with capture_logs() as lines:
        log.sink.close()
        log.sink.close()
    assert [(line["event"], line["count"]) for line in lines] == [("verdicts_left_out", 1)]


def test_outcomes_have_a_bound_of_their_own_and_the_records_of_acts_have_none() -> None:
    log, seen = Log(), busy(130)
    due = [Due(finding=each, rule=RULE, hand=Hand.SIGNAL) for each in seen.judgement.findings]
    acts = [act_of(each, number=i) for i, each in enumerate(due)]
    done = tuple(ActResult(act=act, result=Result.SIGNALLED, took=seen.took) for act in acts)
    effects = tuple(
        ObservedEffect(
            id=act.id,
            run=act.finding.run,
            rule=RULE.name,
            hand=Hand.SIGNAL,
            outcome=Outcome.ENDED,
            at=NOW,
            regret=False,
        )
        for act in acts
    )
    flood = replace(news(seen, due), results=done, effects=effects)
    assert len(log.of(flood, "outcome")) == LINES_PER_MINUTE
    assert [json.loads(line)["pid"] for line in log.acts] == [act.finding.backend.pid for act in acts]
    log.hours.now += 60
    assert [line["count"] for line in log.of(seen, "outcomes_left_out")] == [10]


def test_a_minute_begins_with_the_first_line_after_the_one_before() -> None:
    hours = Hours()
    limit = LineLimit(most=1, clock=hours)
    admitted = []
    for seconds in (0, 59.9, 0.1, 59.9):
        hours.now += seconds
        admitted.append(limit.admit())
    assert admitted == [True, False, True, False]
    assert limit.take_left_out(early=True) == 2


def test_each_step_of_the_servers_clock_is_said_once() -> None:
    log = Log()
    steady = busy(1)
    stepped = replace(steady, clock_step=timedelta(hours=-1))
    lines = [line for state in (steady, stepped, steady, stepped) for line in log.of(state, "clock_stepped")]
    assert [(line["server"], line["seconds"]) for line in lines] == [(steady.server, -3600.0)] * 2
