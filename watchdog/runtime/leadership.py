"""Leadership of one cluster: the lease, and the number of the actor that we are.

At most one session of all pgwatchdogs holds a cluster's lease, and only its holder acts.
"""

import contextlib
from dataclasses import dataclass

from watchdog.core.acting.status import DisarmReason, Lease
from watchdog.errors import ReadError
from watchdog.runtime.ports import Source

UNKNOWN_HOLDER = Lease(leads=False, disarm_reason=DisarmReason.LEASE_UNREAD)
"""Where nobody knows who leads, only that it is not us."""


@dataclass(slots=True)
class Leadership:
    """Takes the lease and keeps it.

    `generation` counts the actors that there have been. A new one begins with empty buckets and watches for two
    intervals before it acts. Begins one: a start, a lease that has come to us, other rules, a disarm that has ended.
    """

    source: Source
    lease: Lease = UNKNOWN_HOLDER
    generation: int = 0
    _asked: bool = False

    async def renew(self, *, tick: bool) -> bool:
        """Take the lease where it is free; True where it has come to us, and at the first call.

        Whoever does not lead asks once a tick.
        """
        before = self.lease.leads
        if not tick and not before and self._asked:
            return False
        try:
            self.lease = await self.source.lease()
        except ReadError:
            self.lease = UNKNOWN_HOLDER
        came = not self._asked or self.lease.just_acquired or (self.lease.leads and not before)
        self._asked = True
        return came

    def is_held(self) -> bool:
        """True while the session that took the lease stands: another session is another actor and has seen nothing."""
        if not self.source.is_open:
            self.lease = UNKNOWN_HOLDER
        return self.lease.leads

    async def give_up(self) -> None:
        """Let another pgwatchdog lead, because this one cannot act; who leads is read, not taken."""
        if self.lease.leads and self.source.is_open:
            with contextlib.suppress(ReadError):
                await self.source.release_lease()
        await self.read_holder()

    async def read_holder(self) -> None:
        """Note who holds the lease, if that can be had on the session that is open. We count as having lost it.

        Should the holder be ourselves again, this actor has lost it all the same; the next look makes a new one.
        """
        self.lease = UNKNOWN_HOLDER
        if self.source.is_open:
            with contextlib.suppress(ReadError):
                now = await self.source.lease_holder()
                if not now.leads:
                    self.lease = now
