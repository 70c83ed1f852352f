"""The board: each cluster's newest state, replaced whole, and those who want to be told of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from watchdog.core.present.look import Look, Unread
from watchdog.logs import Event, get_logger
from watchdog.runtime.ports import Sink


@dataclass(slots=True)
class LatestStates:
    """The newest state by cluster; None until the first look has come back, one way or the other."""

    sinks: list[Sink] = field(default_factory=list)
    states: dict[str, Look | Unread | None] = field(default_factory=dict)

    def publish(self, state: Look | Unread) -> None:
        """Put up one cluster's newest state and tell everybody; one who fails does not silence the rest."""
        if state.server not in self.states:
            return  # a last word of a cluster that a reload has taken away
        self.states[state.server] = state
        for sink in self.sinks:
            try:
                sink.publish(state)
            except Exception:  # noqa: BLE001  # one sink's bug is not the others'
                get_logger().exception(Event.INTERNAL_ERROR, server=state.server, sink=type(sink).__name__)

    def list_servers(self, servers: Iterable[str]) -> None:
        """The clusters that are configured from now on; what is known of those that stay is kept."""
        self.states = {server: self.states.get(server) for server in servers}

    @property
    def ready(self) -> bool:
        """True once every cluster has been tried."""
        return all(state is not None for state in self.states.values())

    def __iter__(self) -> Iterator[tuple[str, Look | Unread | None]]:
        """Servers and states, in the order of the configuration."""
        return iter(self.states.items())
