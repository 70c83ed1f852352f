"""Leadership of one cluster: whether we hold the lease, and the number of our actor.

At most one session of all pgwatchdogs holds a cluster's lease, and only its holder acts. This module knows nothing of
acts.
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

    `generation` counts the actors so far. A new actor begins with empty buckets and watches for two intervals before it
    acts. A new actor begins at a start, when we acquire the lease, when the rules, the mode or the ledger change, and
    when a disarm ends.
    """

    source: Source
    lease: Lease = UNKNOWN_HOLDER
    generation: int = 0
    _asked: bool = False

    async def renew(self, *, tick: bool) -> bool:
        """Take the lease if it is free. True if we have just acquired it, and at the first call.

        While another session holds the lease, it is asked for once a tick.
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
        """True while the session that took the lease is open.

        A new session means a new actor, which has observed nothing yet.
        """
        if not self.source.is_open:
            self.lease = UNKNOWN_HOLDER
        return self.lease.leads

    async def give_up(self) -> None:
        """Release the lease, so that another pgwatchdog can lead while this one cannot act. Then read who holds it."""
        if self.source.is_open:  # nothing is sent if the session does not hold it
            with contextlib.suppress(ReadError):
                await self.source.release_lease()
        await self.read_holder()

    async def read_holder(self) -> None:
        """Read who holds the lease, if the session is open. This actor counts as having lost it.

        That is so even if our session holds it. The next look then begins a new actor.
        """
        self.lease = UNKNOWN_HOLDER
        if self.source.is_open:
            with contextlib.suppress(ReadError):
                now = await self.source.lease_holder()
                if not now.leads:
                    self.lease = now
