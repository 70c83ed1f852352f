"""Writes the log: a line when a cluster becomes readable or unreadable, and one for each new verdict.

There is no line for each tick. Outcomes of acts, work that came back after a cancel, and changes of arming and of
socket visibility are logged as well. Each act is written as one line of JSON.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Verdict
from watchdog.core.observed.statement_failures import failing
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.phrases import lease_holder, socket_words, untested_words
from watchdog.core.present.records import act_record, finding_record, verdict_record
from watchdog.logs import Event, get_logger


@dataclass(slots=True)
class LogSink:
    """A sink that logs what has changed since it last logged. `say` takes the line of JSON of each act."""

    say: Callable[[str], None] = lambda _: None
    said: dict[tuple[Event, str], object] = field(default_factory=dict)
    """What was last told of each cluster, by what it is about."""
    failing: dict[str, frozenset[str]] = field(default_factory=dict)
    """The statements of each cluster whose failure was told."""

    def publish(self, state: Look | Unread) -> None:
        """Log what is new about one cluster."""
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
                self._statements(state)
                self._acts(state)
                for verdict in state.decisions.news:
                    _say(verdict, server=state.server)

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
            get_logger().info(
                Event.OUTCOME,
                server=look.server,
                act=effect.id,
                rule=effect.rule,
                pid=effect.run.pid,
                hand=str(effect.hand),
                outcome=str(effect.outcome),
            )
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

    def _changed(self, topic: Event, server: str, word: object) -> bool:
        before = self.said.get((topic, server))
        self.said[topic, server] = word
        return before != word


def _say(verdict: Verdict, *, server: str) -> None:
    fields = finding_record(verdict.finding, server=server) | verdict_record(verdict)
    fields["evidence"] = ",".join(verdict.finding.evidence)
    get_logger().info(Event.VERDICT, **fields)
