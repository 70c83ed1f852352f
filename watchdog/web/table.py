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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    Metric(
        name="up",
        type=Type.GAUGE,
        help="1 if the last look at the cluster succeeded, 0 if it could not be read.",
        labels=_SERVER,
    ),
    Metric(
        name="last_poll_success_timestamp_seconds",
        type=Type.GAUGE,
        help="Unix time of the last look that succeeded, by the clock of pgwatchdog's host.",
        labels=_SERVER,
    ),
    Metric(
        name="last_poll_duration_seconds",
        type=Type.GAUGE,
        help="Duration of the last activity statement.",
        labels=_SERVER,
    ),
    Metric(name="poll_interval_seconds", type=Type.GAUGE, help="Interval in force between two looks.", labels=_SERVER),
    Metric(
        name="sockets_visible",
        type=Type.GAUGE,
        help="1 if the kernel shows us the server's sockets, so that a client that is gone is known at once.",
        labels=_SERVER,
    ),
    Metric(name="in_recovery", type=Type.GAUGE, help="1 if the server is a standby.", labels=_SERVER),
    Metric(name="server_info", type=Type.GAUGE, help="1; the server's version.", labels=("server", "server_version")),
    Metric(
        name="polls_total",
        type=Type.COUNTER,
        help="Looks at the cluster, whether they succeeded or not.",
        labels=_SERVER,
    ),
    Metric(
        name="poll_failures_total", type=Type.COUNTER, help="Looks that failed, by reason.", labels=("server", "reason")
    ),
    Metric(
        name="census_failures_total",
        type=Type.COUNTER,
        help="Readings of names and rights that failed while looks succeeded: "
        "those in use are older than they should be.",
        labels=_SERVER,
    ),
    Metric(
        name="unjudged_backends",
        type=Type.GAUGE,
        help=f"Sessions that are not judged, or only in part, by reason: {', '.join(BLIND_REASONS)}.",
        labels=("server", "reason"),
    ),
    Metric(
        name="role_statement_timeout_seconds",
        type=Type.GAUGE,
        help="The statement_timeout stored for a role with a budget, where it differs by database the worst; 0 is off.",
        labels=("server", "usename"),
    ),
    Metric(
        name="timeout_inversion",
        type=Type.GAUGE,
        help="1 if the statement_timeout stored for a role lets work outlive its caller: off, or above the budget.",
        labels=("server", "usename"),
    ),
    Metric(
        name="client_connection_check_interval_seconds",
        type=Type.GAUGE,
        help="How often the server looks whether the client of a running query is there; 0 is never.",
        labels=_SERVER,
    ),
    Metric(
        name="sessions_abandoned_total",
        type=Type.COUNTER,
        help="Sessions that ended because their client was lost, as the server counts them.",
        labels=("server", "datname"),
    ),
    Metric(
        name="active_seconds_total",
        type=Type.COUNTER,
        help="Time that the server spent executing, as it counts itself: the exact denominator of running seconds.",
        labels=("server", "datname"),
    ),
    Metric(name="connections_used", type=Type.GAUGE, help="Client connections at the last census.", labels=_SERVER),
    Metric(name="connections_max", type=Type.GAUGE, help="The server's max_connections.", labels=_SERVER),
    Metric(name="running_queries", type=Type.GAUGE, help="Backends that execute something now.", labels=_WHO),
    Metric(
        name="oldest_running_seconds",
        type=Type.GAUGE,
        help="Age of the oldest run: since the statement began, "
        "or since the transaction began for rows with a job key.",
        labels=_WHO,
    ),
    Metric(
        name="holding_transactions",
        type=Type.GAUGE,
        help="Backends in a transaction without a running statement, or waiting for their client.",
        labels=_WHO,
    ),
    Metric(
        name="oldest_holding_seconds",
        type=Type.GAUGE,
        help="Age of the oldest transaction among those that hold.",
        labels=_WHO,
    ),
    Metric(
        name="budget_seconds",
        type=Type.GAUGE,
        help="The configured budget, without grace.",
        labels=("server", "budget"),
    ),
    Metric(
        name="budget_used_ratio",
        type=Type.GAUGE,
        help="Highest share of the budget that a run uses now, without grace.",
        labels=("server", "budget"),
    ),
    Metric(
        name="nearing_budget_queries",
        type=Type.GAUGE,
        help="Runs past the share of the budget from which they are nearing, not yet orphans.",
        labels=("server", "budget"),
    ),
    Metric(
        name="finished_run_budget_ratio",
        type=Type.HISTOGRAM,
        help="Share of the budget that finished runs had used when last seen; a run that no look saw is not in it.",
        labels=("server", "budget"),
        buckets=RATIO_BUCKETS,
    ),
    Metric(
        name="orphans",
        type=Type.GAUGE,
        help="Runs whose caller has gone or given up, by the strongest evidence for it.",
        labels=(*_JOB, "evidence"),
    ),
    Metric(
        name="orphan_oldest_overrun_seconds",
        type=Type.GAUGE,
        help="How long the oldest orphan has been past the end of its budget, without grace.",
        labels=(*_JOB, "evidence"),
    ),
    Metric(
        name="orphans_detected_total",
        type=Type.COUNTER,
        help="Runs that became orphans, each counted once, by the strongest evidence at that moment.",
        labels=("server", "usename", "job_key", "evidence"),
    ),
    Metric(
        name="running_seconds_total",
        type=Type.COUNTER,
        help="Seconds of running work: running rows times the time since the tick before. An upper bound.",
        labels=("server", "usename", "job_key"),
    ),
    Metric(
        name="orphan_seconds_total",
        type=Type.COUNTER,
        help="The part of running_seconds_total that was past the end of its budget.",
        labels=("server", "usename", "job_key"),
    ),
    Metric(
        name="sessions_blocked_by_orphans",
        type=Type.GAUGE,
        help="Sessions that wait for an orphan, directly or through others; absent where it was not asked.",
        labels=_SERVER,
    ),
    Metric(
        name="orphans_alike_max",
        type=Type.GAUGE,
        help="Size of the largest pile of orphans with the same database, role and query id; absent without query ids.",
        labels=_SERVER,
    ),
    Metric(
        name="job_copies",
        type=Type.GAUGE,
        help="Running copies of a job; of its windows the one with the most.",
        labels=_JOB,
    ),
    Metric(
        name="duplicate_copies",
        type=Type.GAUGE,
        help="Running copies beyond the number that the job allows; absent for jobs without such a number.",
        labels=_JOB,
    ),
    Metric(
        name="job_copies_started_total",
        type=Type.COUNTER,
        help="Backends that began to carry a job's key. Divided by windows started: the retry amplification.",
        labels=("server", "job_key"),
    ),
    Metric(
        name="job_windows_started_total",
        type=Type.COUNTER,
        help="Windows of a job that were begun.",
        labels=("server", "job_key"),
    ),
    Metric(
        name="enforcing",
        type=Type.GAUGE,
        help="1 while the cluster is armed: what policy decides is done.",
        labels=_SERVER,
    ),
    Metric(
        name="disarmed",
        type=Type.GAUGE,
        help=f"1 for each reason why the cluster is not acted on: {', '.join(DisarmReason)}.",
        labels=("server", "reason"),
    ),
    Metric(
        name="leader",
        type=Type.GAUGE,
        help="1 if this pgwatchdog holds the cluster's lease: only the holder acts.",
        labels=_SERVER,
    ),
    Metric(
        name="lease_holder",
        type=Type.GAUGE,
        help="1; the role that holds the cluster's lease, where that is another session than ours.",
        labels=("server", "usename"),
    ),
    Metric(
        name="can_cancel",
        type=Type.GAUGE,
        help="1 if our role may cancel others' queries: pg_signal_backend, or membership in their role.",
        labels=_SERVER,
    ),
    Metric(
        name="cancel_attempts_total", type=Type.COUNTER, help="Guarded cancel statements that were sent.", labels=_RULE
    ),
    Metric(
        name="cancel_failures_total",
        type=Type.COUNTER,
        help=f"Guarded cancel statements that sent no signal, or may not have: {', '.join(FAILURES)}.",
        labels=(*_RULE, "reason"),
    ),
    Metric(
        name="cancels_withheld_total",
        type=Type.COUNTER,
        help=f"Runs that the rule spoke about and that were left alone, once for each reason: {', '.join(Withheld)}.",
        labels=(*_RULE, "reason"),
    ),
    Metric(
        name="cancel_ineffective_total",
        type=Type.COUNTER,
        help="Runs that went on after the last try to cancel them.",
        labels=_RULE,
    ),
    Metric(
        name="stuck_after_cancel",
        type=Type.GAUGE,
        help="Runs that are still there after the last try to cancel them.",
        labels=_SERVER,
    ),
    Metric(
        name="retries_after_cancel_total",
        type=Type.COUNTER,
        help="Cancels whose work began again at once under the same job key; that key rests for a while.",
        labels=_RULE,
    ),
    Metric(
        name="cancel_lag_seconds",
        type=Type.HISTOGRAM,
        help="From the end of budget and grace to the first signal; patience and warm-up are part of it.",
        labels=_SERVER,
        buckets=LAG_BUCKETS,
    ),
    Metric(
        name="dry_run_cancels_total",
        type=Type.COUNTER,
        help="Runs that the rule would have cancelled, each counted once.",
        labels=_RULE,
    ),
    Metric(
        name="dry_run_regrets_total",
        type=Type.COUNTER,
        help="Rehearsed cancels whose runs then ended by themselves, their client not known to be gone.",
        labels=_RULE,
    ),
    Metric(
        name="label_values_folded",
        type=Type.GAUGE,
        help="Names that the last look folded into `other`, because the bound on the label's values is reached.",
        labels=("server", "label"),
    ),
)

PROCESS_METRICS = (
    Metric(
        name="build_info",
        type=Type.GAUGE,
        help="1; the version of pgwatchdog and of Python.",
        labels=("version", "python_version"),
    ),
    Metric(name="configured_clusters", type=Type.GAUGE, help="Clusters in the configuration in force."),
    Metric(
        name="config_last_reload_successful",
        type=Type.GAUGE,
        help="1 if the last attempt to load the configuration succeeded.",
    ),
    Metric(
        name="config_last_reload_success_timestamp_seconds",
        type=Type.GAUGE,
        help="Unix time at which the configuration in force was loaded.",
    ),
    Metric(
        name="log_lines_lost_total",
        type=Type.COUNTER,
        help="Log lines that could not be written, to a full disk or a closed pipe for instance.",
    ),
    Metric(
        name="event_loop_lag_seconds",
        type=Type.GAUGE,
        help="How late the event loop was at worst in the last 15 seconds.",
    ),
)

BY_NAME = {metric.name: metric for metric in (*CLUSTER_METRICS, *PROCESS_METRICS)}
