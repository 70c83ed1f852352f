"""Finds the clients that are gone, with as little work for the kernel as possible.

It owns the memory of the connections that the kernel has shown. It knows nothing of runs.
"""

import errno
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from watchdog.core.observed.activity import ClientEndpoint
from watchdog.core.observed.sockets import SocketVisibility
from watchdog.sockets.diag import Connection, established, is_established
from watchdog.sockets.pace import Pace

_NOT_OFFERED = frozenset(
    {errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENOENT, errno.EOPNOTSUPP}
)
"""The errors of a system, a sandbox or a kernel that does not offer socket diagnostics at all."""


@dataclass(slots=True)
class KernelSockets:
    """The sockets of our own network namespace.

    A call blocks for ten microseconds for each known endpoint, and for milliseconds if there are new ones.
    """

    _seen: dict[tuple[int, ClientEndpoint], Connection] = field(default_factory=dict)
    _pace: Pace = field(default_factory=Pace)

    @property
    def pause(self) -> float:
        """Seconds between two sweeps of one cluster, chosen so that the sweeps of all clusters together stay cheap."""
        return self._pace.pause

    def closed(
        self, ends: Iterable[ClientEndpoint], *, port: int, own: ClientEndpoint | None
    ) -> tuple[SocketVisibility, frozenset[ClientEndpoint]]:
        """Which of the client endpoints have no established connection to `port`, and whether that can be known here.

        `own` is the endpoint of our own session as the server sees it. If it is not among the sockets that we see, the
        server's sockets are not either.
        """
        if own is None:
            return SocketVisibility.UNIX_SOCKET, frozenset()
        begun = time.monotonic()
        try:
            return self._closed(set(ends), port=port, own=own)
        except OSError as error:
            never = error.errno in _NOT_OFFERED
            return SocketVisibility.UNAVAILABLE if never else SocketVisibility.FAILED, frozenset()
        finally:
            now = time.monotonic()
            self._pace.note(now - begun, now=now)

    def _closed(
        self, ends: set[ClientEndpoint], *, port: int, own: ClientEndpoint
    ) -> tuple[SocketVisibility, frozenset[ClientEndpoint]]:
        wanted = ends or {own}
        if self._all_stand(wanted, port):
            return SocketVisibility.SEEN, frozenset()
        self._seen = {key: each for key, each in self._seen.items() if key[0] != port}
        self._seen |= {(port, each.client): each for each in established(port)}
        if (port, own) not in self._seen:
            return SocketVisibility.ELSEWHERE, frozenset()
        return SocketVisibility.SEEN, frozenset(end for end in wanted if (port, end) not in self._seen)

    def _all_stand(self, ends: Iterable[ClientEndpoint], port: int) -> bool:
        """True if every endpoint is known from an earlier dump and still established. Then no dump is needed."""
        known = [self._seen.get((port, end)) for end in ends]
        there = [each for each in known if each is not None]
        return len(there) == len(known) and all(is_established(there))
