"""Every metric in one table: name, type, help and labels. The documentation and the exposition are made from it."""

from dataclasses import dataclass
from enum import StrEnum

from watchdog.core.acting.acts import FAILURES
from watchdog.core.acting.status import DisarmReason
from watchdog.core.acting.verdicts import Withheld
from watchdog.core.judging.judge import BLIND_REASONS

PREFIX = "pgwatchdog_"

LAG_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)

RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
"""Far past 1: a histogram that is clipped at the budget is blind to what it is for."""


class Type(StrEnum):
    """The Prometheus metric types in use."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family; counters are named with their `_total`."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name as it is exposed."""
        return PREFIX + self.name


_SERVER = ("server",)
_WHO = ("server", "datname", "usename")
_JOB = ("server", "datname", "usename", "job_key")
_RULE = ("server", "rule")

CLUSTER_METRICS = (
    Metric("up", Type.GAUGE, "1 if the last look at the cluster succeeded, 0 if it could not be read.", _SERVER),
    Metric(
        "last_poll_success_timestamp_seconds",
        Type.GAUGE,
        "Unix time of the last look that succeeded, by the clock of pgwatchdog's host.",
        _SERVER,
    ),
    Metric("last_poll_duration_seconds", Type.GAUGE, "Duration of the last activity statement.", _SERVER),
    Metric("poll_interval_seconds", Type.GAUGE, "Interval in force between two looks.", _SERVER),
    Metric(
        "sockets_visible",
        Type.GAUGE,
        "1 if the kernel shows us the server's sockets, so that a client that is gone is known at once.",
        _SERVER,
    ),
    Metric("in_recovery", Type.GAUGE, "1 if the server is a standby.", _SERVER),
    Metric("server_info", Type.GAUGE, "1; the server's version.", ("server", "server_version")),
    Metric("polls_total", Type.COUNTER, "Looks at the cluster, whether they succeeded or not.", _SERVER),
    Metric("poll_failures_total", Type.COUNTER, "Looks that failed, by reason.", ("server", "reason")),
    Metric(
        "census_failures_total",
        Type.COUNTER,
        "Readings of names and rights that failed while looks succeeded: those in use are older than they should be.",
        _SERVER,
    ),
    Metric(
        "unjudged_backends",
        Type.GAUGE,
        f"Sessions that are not judged, or only in part, by reason: {', '.join(BLIND_REASONS)}.",
        ("server", "reason"),
    ),
    Metric(
        "role_statement_timeout_seconds",
        Type.GAUGE,
        "The statement_timeout stored for a role with a budget, where it differs by database the worst; 0 is off.",
        ("server", "usename"),
    ),
    Metric(
        "timeout_inversion",
        Type.GAUGE,
        "1 if the statement_timeout stored for a role lets work outlive its caller: off, or above the budget.",
        ("server", "usename"),
    ),
    Metric(
        "client_connection_check_interval_seconds",
        Type.GAUGE,
        "How often the server looks whether the client of a running query is there; 0 is never.",
        _SERVER,
    ),
    Metric(
        "sessions_abandoned_total",
        Type.COUNTER,
        "Sessions that ended because their client was lost, as the server counts them.",
        ("server", "datname"),
    ),
    Metric(
        "active_seconds_total",
        Type.COUNTER,
        "Time that the server spent executing, as it counts itself: the exact denominator of running seconds.",
        ("server", "datname"),
    ),
    Metric("connections_used", Type.GAUGE, "Client connections at the last census.", _SERVER),
    Metric("connections_max", Type.GAUGE, "The server's max_connections.", _SERVER),
    Metric("running_queries", Type.GAUGE, "Backends that execute something now.", _WHO),
    Metric(
        "oldest_running_seconds",
        Type.GAUGE,
        "Age of the oldest run: since the statement began, or since the transaction began for rows with a job key.",
        _WHO,
    ),
    Metric(
        "holding_transactions",
        Type.GAUGE,
        "Backends in a transaction without a running statement, or waiting for their client.",
        _WHO,
    ),
    Metric("oldest_holding_seconds", Type.GAUGE, "Age of the oldest transaction among those that hold.", _WHO),
    Metric("budget_seconds", Type.GAUGE, "The configured budget, without grace.", ("server", "budget")),
    Metric(
        "budget_used_ratio",
        Type.GAUGE,
        "Highest share of the budget that a run uses now, without grace.",
        ("server", "budget"),
    ),
    Metric(
        "nearing_budget_queries",
        Type.GAUGE,
        "Runs past the share of the budget from which they are nearing, not yet orphans.",
        ("server", "budget"),
    ),
    Metric(
        "finished_run_budget_ratio",
        Type.HISTOGRAM,
        "Share of the budget that finished runs had used when last seen; a run that no look saw is not in it.",
        ("server", "budget"),
        RATIO_BUCKETS,
    ),
    Metric(
        "orphans",
        Type.GAUGE,
        "Runs whose caller has gone or given up, by the strongest evidence for it.",
        (*_JOB, "evidence"),
    ),
    Metric(
        "orphan_oldest_overrun_seconds",
        Type.GAUGE,
        "How long the oldest orphan has been past the end of its budget, without grace.",
        (*_JOB, "evidence"),
    ),
    Metric(
        "orphans_detected_total",
        Type.COUNTER,
        "Runs that became orphans, each counted once, by the strongest evidence at that moment.",
        ("server", "usename", "job_key", "evidence"),
    ),
    Metric(
        "running_seconds_total",
        Type.COUNTER,
        "Seconds of running work: running rows times the time since the tick before. An upper bound.",
        ("server", "usename", "job_key"),
    ),
    Metric(
        "orphan_seconds_total",
        Type.COUNTER,
        "The part of running_seconds_total that was past the end of its budget.",
        ("server", "usename", "job_key"),
    ),
    Metric(
        "sessions_blocked_by_orphans",
        Type.GAUGE,
        "Sessions that wait for an orphan, directly or through others; absent where it was not asked.",
        _SERVER,
    ),
    Metric(
        "orphans_alike_max",
        Type.GAUGE,
        "Size of the largest pile of orphans with the same database, role and query id; absent without query ids.",
        _SERVER,
    ),
    Metric("job_copies", Type.GAUGE, "Running copies of a job; of its windows the one with the most.", _JOB),
    Metric(
        "duplicate_copies",
        Type.GAUGE,
        "Running copies beyond the number that the job allows; absent for jobs without such a number.",
        _JOB,
    ),
    Metric(
        "job_copies_started_total",
        Type.COUNTER,
        "Backends that began to carry a job's key. Divided by windows started: the retry amplification.",
        ("server", "job_key"),
    ),
    Metric(
        "job_windows_started_total",
        Type.COUNTER,
        "Windows of a job that were begun.",
        ("server", "job_key"),
    ),
    Metric("enforcing", Type.GAUGE, "1 while the cluster is armed: what policy decides is done.", _SERVER),
    Metric(
        "disarmed",
        Type.GAUGE,
        f"1 for each reason why the cluster is not acted on: {', '.join(DisarmReason)}.",
        ("server", "reason"),
    ),
    Metric("leader", Type.GAUGE, "1 if this pgwatchdog holds the cluster's lease: only the holder acts.", _SERVER),
    Metric(
        "lease_holder",
        Type.GAUGE,
        "1; the role that holds the cluster's lease, where that is another session than ours.",
        ("server", "usename"),
    ),
    Metric(
        "can_cancel",
        Type.GAUGE,
        "1 if our role may cancel others' queries: pg_signal_backend, or membership in their role.",
        _SERVER,
    ),
    Metric("cancel_attempts_total", Type.COUNTER, "Guarded cancel statements that were sent.", _RULE),
    Metric(
        "cancel_failures_total",
        Type.COUNTER,
        f"Guarded cancel statements that sent no signal, or may not have: {', '.join(FAILURES)}.",
        (*_RULE, "reason"),
    ),
    Metric(
        "cancels_withheld_total",
        Type.COUNTER,
        f"Runs that the rule spoke about and that were left alone, once for each reason: {', '.join(Withheld)}.",
        (*_RULE, "reason"),
    ),
    Metric(
        "cancel_ineffective_total",
        Type.COUNTER,
        "Runs that went on after the last try to cancel them.",
        _RULE,
    ),
    Metric("stuck_after_cancel", Type.GAUGE, "Runs that are still there after the last try to cancel them.", _SERVER),
    Metric(
        "retries_after_cancel_total",
        Type.COUNTER,
        "Cancels whose work began again at once under the same job key; that key rests for a while.",
        _RULE,
    ),
    Metric(
        "cancel_lag_seconds",
        Type.HISTOGRAM,
        "From the end of budget and grace to the first signal; patience and warm-up are part of it.",
        _SERVER,
        LAG_BUCKETS,
    ),
    Metric(
        "dry_run_cancels_total",
        Type.COUNTER,
        "Runs that the rule would have cancelled, each counted once.",
        _RULE,
    ),
    Metric(
        "dry_run_regrets_total",
        Type.COUNTER,
        "Rehearsed cancels whose runs then ended by themselves, their client not known to be gone.",
        _RULE,
    ),
    Metric(
        "label_values_folded",
        Type.GAUGE,
        "Names that the last look folded into `other`, because the bound on the label's values is reached.",
        ("server", "label"),
    ),
)

PROCESS_METRICS = (
    Metric("build_info", Type.GAUGE, "1; the version of pgwatchdog and of Python.", ("version", "python_version")),
    Metric("configured_clusters", Type.GAUGE, "Clusters in the configuration in force."),
    Metric("config_last_reload_successful", Type.GAUGE, "1 if the last attempt to load the configuration succeeded."),
    Metric(
        "config_last_reload_success_timestamp_seconds",
        Type.GAUGE,
        "Unix time at which the configuration in force was loaded.",
    ),
    Metric(
        "log_lines_lost_total",
        Type.COUNTER,
        "Log lines that could not be written, to a full disk or a closed pipe for instance.",
    ),
    Metric(
        "event_loop_lag_seconds",
        Type.GAUGE,
        "How late the event loop was at worst in the last 15 seconds.",
    ),
)

BY_NAME = {metric.name: metric for metric in (*CLUSTER_METRICS, *PROCESS_METRICS)}
