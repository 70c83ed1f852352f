"""The log: a line when a cluster is read again or no longer, and one for each new verdict. Not one a tick."""

from dataclasses import dataclass, field

from watchdog.core.look import Look, Unread
from watchdog.core.policy import Verdict
from watchdog.core.records import finding_record, verdict_record
from watchdog.logs import Event, get_logger


@dataclass(slots=True)
class Journal:
    """A sink that writes what has changed since it was last told."""

    said: dict[str, str] = field(default_factory=dict)

    def publish(self, state: Look | Unread) -> None:
        """Log what is new about one cluster."""
        match state:
            case Unread():
                if self._changed(state.server, f"unread: {state.reason}"):
                    get_logger().warning(
                        Event.CLUSTER_UNREAD, server=state.server, reason=str(state.reason), detail=state.detail
                    )
            case Look():
                self._read(state)
                for verdict in state.decisions.news:
                    _say(verdict, server=state.server)

    def _read(self, look: Look) -> None:
        if not self._changed(look.server, "complete" if look.complete else "incomplete"):
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
        if not look.complete:
            get_logger().warning(
                Event.CLUSTER_INCOMPLETE,
                server=look.server,
                hidden=census.hidden,
                hint="other roles' sessions are hidden from us: GRANT pg_monitor to the watchdog's role",
            )

    def _changed(self, server: str, word: str) -> bool:
        before = self.said.get(server)
        self.said[server] = word
        return before != word


def _say(verdict: Verdict, *, server: str) -> None:
    fields = finding_record(verdict, server=server) | verdict_record(verdict)
    del fields["verdict"]
    fields["evidence"] = ",".join(verdict.finding.evidence)
    get_logger().info(Event.VERDICT, **fields)
