"""The newest state of each cluster, and the sinks that are told of it.

A state is always replaced as a whole. What a sink does with it is not known here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from watchdog.core.present.look import Look, Unread
from watchdog.logs import Event, get_logger
from watchdog.runtime.ports import Sink


@dataclass(slots=True)
class LatestStates:
    """The newest state by cluster. It is None until the first look at the cluster has succeeded or failed."""

    sinks: list[Sink] = field(default_factory=list)
    states: dict[str, Look | Unread | None] = field(default_factory=dict)

    def publish(self, state: Look | Unread) -> None:
        """Store one cluster's newest state and pass it to every sink. A sink that fails does not stop the others."""
        if state.server not in self.states:
            return  # a reload has removed this cluster
        self.states[state.server] = state
        for sink in self.sinks:
            try:
                sink.publish(state)
            except Exception:  # noqa: BLE001  # a bug in one sink must not affect the others
                get_logger().exception(Event.INTERNAL_ERROR, server=state.server, sink=type(sink).__name__)

    def list_servers(self, servers: Iterable[str]) -> None:
        """Set the clusters that are configured from now on. The states of those that stay are kept."""
        self.states = {server: self.states.get(server) for server in servers}

    @property
    def ready(self) -> bool:
        """True once the first look at every cluster has succeeded or failed."""
        return all(state is not None for state in self.states.values())

    def __iter__(self) -> Iterator[tuple[str, Look | Unread | None]]:
        """Servers and states, in the order of the configuration."""
        return iter(self.states.items())
