"""Which clients are gone, asked as cheaply as it can be: the one owner of what the kernel was seen to know."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from watchdog.core.activity import End
from watchdog.core.sockets import Sight
from watchdog.sockets.diag import Connection, established, is_established


@dataclass(slots=True)
class KernelSockets:
    """The sockets of our own network namespace. Blocks ten microseconds for each end, milliseconds for new ones."""

    _seen: dict[tuple[int, End], Connection] = field(default_factory=dict)

    def closed(self, ends: Iterable[End], *, port: int, own: End | None) -> tuple[Sight, frozenset[End]]:
        """Which of the clients' ends are in no established connection to `port`, and whether that can be told here.

        `own` is our own session's end as the server sees it: where it is not among the sockets, the server's are not
        either.
        """
        if own is None:
            return Sight.UNIX_SOCKET, frozenset()
        wanted = {own, *ends}
        try:
            if self._all_stand(wanted, port):
                return Sight.SEEN, frozenset()
            self._seen = {key: each for key, each in self._seen.items() if key[0] != port}
            self._seen |= {(port, each.client): each for each in established(port)}
        except OSError:
            return Sight.UNAVAILABLE, frozenset()
        if (port, own) not in self._seen:
            return Sight.ELSEWHERE, frozenset()
        return Sight.SEEN, frozenset(end for end in wanted if (port, end) not in self._seen)

    def _all_stand(self, ends: Iterable[End], port: int) -> bool:
        """True where every end is known from before and is established still: then no dump is needed."""
        known = [self._seen.get((port, end)) for end in ends]
        there = [each for each in known if each is not None]
        return len(there) == len(known) and all(is_established(there))
