"""What is done about orphans: whether the cluster is armed, who holds its lease, and what came of the cancels."""

from watchdog.core.acting.acts import FAILURES
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld
from watchdog.web.metric import SERVER, Metric, Type

_RULE = ("server", "rule")

_LAG_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)

ENFORCING = Metric("enforcing", Type.GAUGE, "1 while the cluster is armed: what policy decides is done.", SERVER)
DISARMED = Metric(
    "disarmed",
    Type.GAUGE,
    f"1 for each reason why the cluster is not acted on: {', '.join(DisarmReason)}.",
    ("server", "reason"),
)
LEADER = Metric("leader", Type.GAUGE, "1 if this pgwatchdog holds the cluster's lease: only the holder acts.", SERVER)
LEASE_HOLDER = Metric(
    "lease_holder",
    Type.GAUGE,
    "1; the role that holds the cluster's lease, where that is another session than ours.",
    ("server", "usename"),
)
CAN_CANCEL = Metric(
    "can_cancel",
    Type.GAUGE,
    "1 if our role may cancel others' queries: pg_signal_backend, or membership in their role.",
    SERVER,
)
CANCEL_ATTEMPTS = Metric("cancel_attempts_total", Type.COUNTER, "Guarded cancel statements that were sent.", _RULE)
CANCEL_FAILURES = Metric(
    "cancel_failures_total",
    Type.COUNTER,
    f"Guarded cancel statements that sent no signal, or may not have: {', '.join(FAILURES)}.",
    (*_RULE, "reason"),
)
CANCELS_WITHHELD = Metric(
    "cancels_withheld_total",
    Type.COUNTER,
    f"Runs that the rule spoke about and that were left alone, once for each reason: {', '.join(Withheld)}.",
    (*_RULE, "reason"),
)
CANCEL_INEFFECTIVE = Metric(
    "cancel_ineffective_total",
    Type.COUNTER,
    "Runs that went on after the last try to cancel them.",
    _RULE,
)
STUCK_AFTER_CANCEL = Metric(
    "stuck_after_cancel", Type.GAUGE, "Runs that are still there after the last try to cancel them.", SERVER
)
RETRIES_AFTER_CANCEL = Metric(
    "retries_after_cancel_total",
    Type.COUNTER,
    "Cancels whose work began again at once under the same job key; that key rests for a while.",
    _RULE,
)
CANCEL_LAG_SECONDS = Metric(
    "cancel_lag_seconds",
    Type.HISTOGRAM,
    "From the end of budget and grace to the first signal; patience and warm-up are part of it.",
    SERVER,
    buckets=_LAG_BUCKETS,
)
DRY_RUN_CANCELS = Metric(
    "dry_run_cancels_total",
    Type.COUNTER,
    "Runs that the rule would have cancelled, each counted once.",
    _RULE,
)
DRY_RUN_REGRETS = Metric(
    "dry_run_regrets_total",
    Type.COUNTER,
    "Rehearsed cancels whose runs then ended by themselves, their client not known to be gone.",
    _RULE,
)
