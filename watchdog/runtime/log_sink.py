"""Writes the log: a line when a cluster becomes readable or unreadable, and one for each new verdict.

There is no line for each tick. A run has one line for each rule and stage of its verdict (`Stage`). Outcomes of acts,
work that came back after a cancel, and changes of arming and of socket visibility are logged as well. The lines about
verdicts and outcomes are bounded for the whole process; another line counts those that were left out. Each act is
written as one line of JSON, without a bound.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from watchdog.core.acting.acts import ObservedEffect
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Stage, Verdict, stage_of
from watchdog.core.observed.activity import Run
from watchdog.core.observed.statement_failures import failing
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.phrases import lease_holder, socket_words, untested_words
from watchdog.core.present.records import act_record, finding_record, verdict_record
from watchdog.logs import Event, get_logger
from watchdog.runtime.line_limit import LineLimit

Told = dict[tuple[Run, str], set[Stage]]
"""The stages that were told of each run and rule."""


@dataclass(slots=True)
class LogSink:
    """A sink that logs what has changed since it last logged. `say` takes the line of JSON of each act."""

    say: Callable[[str], None] = lambda _: None
    verdicts: LineLimit = field(default_factory=LineLimit)
    outcomes: LineLimit = field(default_factory=LineLimit)
    said: dict[tuple[Event, str], object] = field(default_factory=dict, init=False)
    """What was last told of each cluster, by what it is about."""
    failing: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    """The statements of each cluster whose failure was told."""
    told: dict[str, Told] = field(default_factory=dict, init=False)
    """What was told of the runs of each cluster."""

    def publish(self, state: Look | Unread) -> None:
        """Log what is new about one cluster."""
        self._left_out()
        match state:
            case Unread():
                if self._changed(Event.CLUSTER_READ, state.server, state.reason):
                    get_logger().warning(
                        Event.CLUSTER_UNREAD, server=state.server, reason=str(state.reason), detail=state.detail
                    )
            case Look():
                self._read(state)
                self._arming(state)
                self._sockets(state)
                self._clock(state)
                self._statements(state)
                self._acts(state)
                self._verdicts(state)

    def close(self) -> None:
        """Say what was left out in the minute that is not over. To be called when the process stops."""
        self._left_out(early=True)

    def _left_out(self, *, early: bool = False) -> None:
        limits = ((Event.VERDICTS_LEFT_OUT, self.verdicts), (Event.OUTCOMES_LEFT_OUT, self.outcomes))
        for event, limit in limits:
            if count := limit.take_left_out(early=early):
                get_logger().info(event, count=count, most_per_minute=limit.most)

    def _read(self, look: Look) -> None:
        if not self._changed(Event.CLUSTER_READ, look.server, look.complete):
            return
        census = look.census
        get_logger().info(
            Event.CLUSTER_READ,
            server=look.server,
            version=census.version,
            in_recovery=look.snapshot.in_recovery,
            interval=look.interval.total_seconds(),
        )
        if census.behind_pooler:
            get_logger().warning(
                Event.BEHIND_POOLER,
                server=look.server,
                hint="connect to the server itself: through a pooler none of our safety settings can be set",
            )
        if (untested := untested_words(look)) is not None:
            get_logger().warning(Event.SERVER_UNTESTED, server=look.server, version=census.version, hint=untested)
        if not look.complete:
            get_logger().warning(
                Event.CLUSTER_INCOMPLETE,
                server=look.server,
                hidden=census.hidden,
                hint="other roles' sessions are hidden from us: GRANT pg_monitor to the watchdog's role",
            )

    def _arming(self, look: Look) -> None:
        """Log when a cluster becomes armed or disarmed, with every reason.

        WARMING_UP is left out, because every new actor begins with it.
        """
        reasons = tuple(str(each) for each in look.disarmed if each is not DisarmReason.WARMING_UP)
        if not self._changed(Event.ARMED, look.server, reasons):
            return
        if reasons:
            get_logger().info(Event.DISARMED, server=look.server, reasons=",".join(reasons), holder=lease_holder(look))
        else:
            get_logger().warning(Event.ARMED, server=look.server)

    def _sockets(self, look: Look) -> None:
        """Log whether the cluster's sockets can be seen: once, and again when that changes."""
        if self._changed(Event.SOCKETS, look.server, look.socket_visibility):
            get_logger().info(
                Event.SOCKETS,
                server=look.server,
                socket_visibility=str(look.socket_visibility),
                hint=socket_words(look),
            )

    def _clock(self, look: Look) -> None:
        """Say each step of the server's clock in the look that found it."""
        if look.clock_step is not None:
            get_logger().warning(
                Event.CLOCK_STEPPED,
                server=look.server,
                seconds=round(look.clock_step.total_seconds(), 3),
                hint="runs that were there are not acted on until they have been watched for their budget and grace",
            )

    def _statements(self, look: Look) -> None:
        """Say it when a statement beside the poll begins to fail, and when it no longer does."""
        now = failing(look.statement_failures)
        before = self.failing.get(look.server, frozenset())
        self.failing[look.server] = frozenset(now)
        for name, detail in now.items():
            if name not in before:
                get_logger().warning(Event.STATEMENT_FAILED, server=look.server, statement=name, detail=detail)
        for name in sorted(before - now.keys()):
            get_logger().info(Event.STATEMENT_RECOVERED, server=look.server, statement=name)

    def _acts(self, look: Look) -> None:
        for done in look.results:
            self.say(json.dumps(act_record(done)))
        for effect in look.effects:
            if self.outcomes.admit():
                _say_outcome(effect, server=look.server)
        for retry in look.retries:
            get_logger().warning(
                Event.RETRY_AFTER_CANCEL,
                server=look.server,
                act=retry.act,
                rule=retry.rule,
                role=retry.key.role,
                job=retry.key.job,
                window=retry.key.window,
                hint="its work came back at once: the key rests; look at who retries it",
            )

    def _verdicts(self, look: Look) -> None:
        """Log each verdict at a stage that was not told of its run and rule. After any other stage NOT_YET is no news.

        A line that was left out does not count as told.
        """
        present = {case.run for case in look.judgement.cases}
        told = {key: stages for key, stages in self.told.get(look.server, {}).items() if key[0] in present}
        self.told[look.server] = told
        for verdict in look.decisions.news:
            rule = "" if verdict.rule is None else verdict.rule.name
            stages, stage = told.setdefault((verdict.finding.run, rule), set()), stage_of(verdict)
            is_news = not stages if stage is Stage.NOT_YET else stage not in stages
            if is_news and self.verdicts.admit():
                stages.add(stage)
                _say(verdict, server=look.server)

    def _changed(self, topic: Event, server: str, word: object) -> bool:
        before = self.said.get((topic, server))
        self.said[topic, server] = word
        return before != word


def _say(verdict: Verdict, *, server: str) -> None:
    fields = finding_record(verdict.finding, server=server) | verdict_record(verdict)
    fields["evidence"], fields["passed_over"] = ",".join(verdict.finding.evidence), ",".join(verdict.passed_over)
    get_logger().info(Event.VERDICT, **fields)


def _say_outcome(effect: ObservedEffect, *, server: str) -> None:
    get_logger().info(
        Event.OUTCOME,
        server=server,
        act=effect.id,
        rule=effect.rule,
        pid=effect.run.pid,
        hand=str(effect.hand),
        outcome=str(effect.outcome),
    )
