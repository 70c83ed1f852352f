"""The defaults of common layers: the number of attempts, and the pauses between them.

This module holds only defaults that the layer's own documentation states. A random pause is counted as no pause,
because the shortest pause is the worst case for the number of copies that run at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from watchdog.core.chain.chain import ZERO


@dataclass(frozen=True, slots=True)
class Known:
    """The defaults of one kind of layer. `attempts` includes the first attempt."""

    attempts: int
    pause: timedelta = ZERO
    backoff: float = 1.0
    asynchronous: bool = False


KNOWN: Mapping[str, Known] = MappingProxyType(
    {
        # botocore, retry mode "legacy", which is its default: max_attempts 5, including the first attempt.
        "boto3-legacy": Known(5),
        # botocore, retry modes "standard" and "adaptive": max_attempts 3, including the first attempt.
        "boto3-standard": Known(3),
        # Step Functions, defaults of a Retry block: MaxAttempts 3 counts retries, IntervalSeconds 1, BackoffRate 2.
        "step-functions": Known(4, timedelta(seconds=1), 2.0),
        # Lambda, asynchronous invocation: two retries of a function that failed, after one and after two minutes.
        "lambda-async": Known(3, timedelta(minutes=1), 2.0, asynchronous=True),
        # Kubernetes Job: backoffLimit 6 counts retries. The pauses (10 s, 20 s, 40 s …) are below the cap of 6 min.
        "kubernetes-job": Known(7, timedelta(seconds=10), 2.0),
        # Celery, a task that calls retry(): max_retries 3, default_retry_delay 180 s.
        "celery-retry": Known(4, timedelta(minutes=3)),
    }
)
