"""Limits: upper bounds on the number of acts, whatever the rules say.

All times are on the server's clock. This module knows nothing of findings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the acts on one cluster.

    Each rule has a bucket that gains `per_minute` acts a minute. At most `share` of the running backends, but at least
    one, may be under way at the same time. `pause` is the shortest time between two acts. `tries` is the largest number
    of attempts for one run. After `stop_after_failures` ineffective runs in a row, or after one act that the server
    refused, a breaker is open for `stop_for` (see `breakers`). After a retry of a cancelled run, the key rests for
    `rest`.
    """

    per_minute: int = 6
    share: float = 0.25
    pause: timedelta = timedelta(seconds=1)
    tries: int = 3
    stop_after_failures: int = 3
    stop_for: timedelta = timedelta(minutes=10)
    rest: timedelta = timedelta(minutes=10)

    def at_once(self, running: int) -> int:
        """The number of acts that may be under way while `running` backends run."""
        return max(1, int(self.share * running))


@dataclass(frozen=True, slots=True)
class Bucket:
    """The token bucket of one rule at time `at`. One act takes one token.

    It starts empty and holds at most the tokens of one minute.
    """

    tokens: float
    at: datetime

    def filled(self, at: datetime, *, per_minute: int) -> "Bucket":
        """The bucket at a later time, with the tokens that it gained."""
        gained = max(timedelta(0), at - self.at) / MINUTE * per_minute
        return Bucket(min(float(per_minute), self.tokens + gained), at)

    def refunded(self, *, per_minute: int) -> "Bucket":
        """The bucket with the token of an act that signalled nobody."""
        return Bucket(min(float(per_minute), self.tokens + 1.0), self.at)

    def until_token(self, *, per_minute: int) -> timedelta:
        """The time until the bucket has a whole token, if none is spent before."""
        return max(timedelta(0), (1.0 - self.tokens) / per_minute * MINUTE)


Buckets = Mapping[str, Bucket]
"""The buckets by the names of their rules."""
