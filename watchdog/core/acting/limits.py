"""Limits: how much may be done at most, whatever the rules say. Times are the server's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on acts, per cluster.

    `per_minute` fills a bucket for each rule. `share` of the running backends may be under way at once, at least one.
    `pause` follows each act. After `stop_after_failures` ineffective acts in a row, or one that the server refused,
    nothing is done for `stop_for`. A key whose work came back at once after its cancel rests for `rest`.
    """

    per_minute: int = 6
    share: float = 0.25
    pause: timedelta = timedelta(seconds=1)
    tries: int = 3
    stop_after_failures: int = 3
    stop_for: timedelta = timedelta(minutes=10)
    rest: timedelta = timedelta(minutes=10)

    def at_once(self, running: int) -> int:
        """How many acts may be under way while `running` backends run."""
        return max(1, int(self.share * running))


@dataclass(frozen=True, slots=True)
class Bucket:
    """Acts that a rule may still do, `tokens`, as of `at`. It begins empty and holds a minute's worth at most."""

    tokens: float
    at: datetime

    def filled(self, at: datetime, *, per_minute: int) -> "Bucket":
        """The bucket at a later moment."""
        gained = max(timedelta(0), at - self.at) / MINUTE * per_minute
        return Bucket(min(float(per_minute), self.tokens + gained), at)

    def until_token(self, *, per_minute: int) -> timedelta:
        """How long until there is a token, if nothing is spent."""
        return max(timedelta(0), (1.0 - self.tokens) / per_minute * MINUTE)


Buckets = Mapping[str, Bucket]
