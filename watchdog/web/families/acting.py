"""The metric families about acting: whether the cluster is armed, who holds its lease, and the results of cancels."""

from watchdog.core.acting.acts import FAILURES
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld
from watchdog.web.metric import SERVER, Metric, Type

_RULE = ("server", "rule")

_LAG_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)

ENFORCING = Metric(
    name="enforcing", type=Type.GAUGE, help="1 while the cluster is armed: what policy decides is done.", labels=SERVER
)
DISARMED = Metric(
    name="disarmed",
    type=Type.GAUGE,
    help=f"1 for each reason why the cluster is not acted on: {', '.join(DisarmReason)}.",
    labels=("server", "reason"),
)
LEADER = Metric(
    name="leader",
    type=Type.GAUGE,
    help="1 if this pgwatchdog holds the cluster's lease: only the holder acts.",
    labels=SERVER,
)
LEASE_HOLDER = Metric(
    name="lease_holder",
    type=Type.GAUGE,
    help="1; the role that holds the cluster's lease, where that is another session than ours.",
    labels=("server", "usename"),
)
CAN_CANCEL = Metric(
    name="can_cancel",
    type=Type.GAUGE,
    help="1 if our role may cancel others' queries: pg_signal_backend, or membership in their role.",
    labels=SERVER,
)
CANCEL_ATTEMPTS = Metric(
    name="cancel_attempts_total", type=Type.COUNTER, help="Guarded cancel statements that were sent.", labels=_RULE
)
CANCEL_FAILURES = Metric(
    name="cancel_failures_total",
    type=Type.COUNTER,
    help=f"Guarded cancel statements that sent no signal, or may not have: {', '.join(FAILURES)}.",
    labels=(*_RULE, "reason"),
)
CANCELS_WITHHELD = Metric(
    name="cancels_withheld_total",
    type=Type.COUNTER,
    help=f"Runs that the rule spoke about and that were left alone, once for each reason: {', '.join(Withheld)}.",
    labels=(*_RULE, "reason"),
)
CANCEL_INEFFECTIVE = Metric(
    name="cancel_ineffective_total",
    type=Type.COUNTER,
    help="Runs that went on after the last try to cancel them.",
    labels=_RULE,
)
STUCK_AFTER_CANCEL = Metric(
    name="stuck_after_cancel",
    type=Type.GAUGE,
    help="Runs that are still there after the last try to cancel them.",
    labels=SERVER,
)
BREAKER_OPEN = Metric(
    name="breaker_open",
    type=Type.GAUGE,
    help="1 while a breaker stops the rule for the role, after cancels that did not work. An empty rule means every "
    "rule, an empty role the whole cluster.",
    labels=("server", "rule", "usename"),
)
RETRIES_AFTER_CANCEL = Metric(
    name="retries_after_cancel_total",
    type=Type.COUNTER,
    help="Cancels whose work began again at once under the same job key; that key rests for a while.",
    labels=_RULE,
)
CANCEL_LAG_SECONDS = Metric(
    name="cancel_lag_seconds",
    type=Type.HISTOGRAM,
    help="From the end of budget and grace to the first signal; patience and warm-up are part of it.",
    labels=SERVER,
    buckets=_LAG_BUCKETS,
)
DRY_RUN_CANCELS = Metric(
    name="dry_run_cancels_total",
    type=Type.COUNTER,
    help="Runs that the rule would have cancelled, each counted once.",
    labels=_RULE,
)
DRY_RUN_REGRETS = Metric(
    name="dry_run_regrets_total",
    type=Type.COUNTER,
    help="Rehearsed cancels whose runs then ended by themselves, their client not known to be gone.",
    labels=_RULE,
)
