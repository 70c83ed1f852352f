"""The metric families about the work in a cluster: activity, budgets, orphans, and the copies of jobs."""

from watchdog.web.metric import SERVER, Metric, Type

_WHO = ("server", "datname", "usename")
_JOB = ("server", "datname", "usename", "job_key")

_RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
"""The buckets reach far above 1, because the histogram must show how far runs exceed their budget."""

RUNNING_QUERIES = Metric(
    name="running_queries", type=Type.GAUGE, help="Backends that execute something now.", labels=_WHO
)
OLDEST_RUNNING_SECONDS = Metric(
    name="oldest_running_seconds",
    type=Type.GAUGE,
    help="Age of the oldest run: since the statement began, or since the transaction began for rows with a job key.",
    labels=_WHO,
)
HOLDING_TRANSACTIONS = Metric(
    name="holding_transactions",
    type=Type.GAUGE,
    help="Backends in a transaction without a running statement, or waiting for their client.",
    labels=_WHO,
)
OLDEST_HOLDING_SECONDS = Metric(
    name="oldest_holding_seconds",
    type=Type.GAUGE,
    help="Age of the oldest transaction among those that hold.",
    labels=_WHO,
)
BUDGET_SECONDS = Metric(
    name="budget_seconds", type=Type.GAUGE, help="The configured budget, without grace.", labels=("server", "budget")
)
BUDGET_USED_RATIO = Metric(
    name="budget_used_ratio",
    type=Type.GAUGE,
    help="Highest share of the budget that a run uses now, without grace.",
    labels=("server", "budget"),
)
NEARING_BUDGET_QUERIES = Metric(
    name="nearing_budget_queries",
    type=Type.GAUGE,
    help="Runs past the share of the budget from which they are nearing, not yet orphans.",
    labels=("server", "budget"),
)
FINISHED_RUN_BUDGET_RATIO = Metric(
    name="finished_run_budget_ratio",
    type=Type.HISTOGRAM,
    help="Share of the budget that finished runs had used when last seen; a run that no look saw is not in it.",
    labels=("server", "budget"),
    buckets=_RATIO_BUCKETS,
)
ORPHANS = Metric(
    name="orphans",
    type=Type.GAUGE,
    help="Runs whose caller has gone or given up, by the strongest evidence for it.",
    labels=(*_JOB, "evidence"),
)
ORPHAN_OLDEST_OVERRUN_SECONDS = Metric(
    name="orphan_oldest_overrun_seconds",
    type=Type.GAUGE,
    help="How long the oldest orphan has been past the end of its budget, without grace.",
    labels=(*_JOB, "evidence"),
)
ORPHANS_DETECTED = Metric(
    name="orphans_detected_total",
    type=Type.COUNTER,
    help="Runs that became orphans, each counted once, by the strongest evidence at that moment.",
    labels=("server", "usename", "job_key", "evidence"),
)
RUNNING_SECONDS = Metric(
    name="running_seconds_total",
    type=Type.COUNTER,
    help="Seconds of running work: running rows times the time since the tick before. An upper bound.",
    labels=("server", "usename", "job_key"),
)
ORPHAN_SECONDS = Metric(
    name="orphan_seconds_total",
    type=Type.COUNTER,
    help="The part of running_seconds_total that was past the end of its budget.",
    labels=("server", "usename", "job_key"),
)
SESSIONS_BLOCKED_BY_ORPHANS = Metric(
    name="sessions_blocked_by_orphans",
    type=Type.GAUGE,
    help="Sessions that wait for an orphan, directly or through others; absent where it was not asked.",
    labels=SERVER,
)
ORPHANS_ALIKE_MAX = Metric(
    name="orphans_alike_max",
    type=Type.GAUGE,
    help="Size of the largest pile of orphans with the same database, role and query id; absent without query ids.",
    labels=SERVER,
)
JOB_COPIES = Metric(
    name="job_copies",
    type=Type.GAUGE,
    help="Running copies of a job; of its windows the one with the most.",
    labels=_JOB,
)
DUPLICATE_COPIES = Metric(
    name="duplicate_copies",
    type=Type.GAUGE,
    help="Running copies beyond the number that the job allows; absent for jobs without such a number.",
    labels=_JOB,
)
JOB_COPIES_STARTED = Metric(
    name="job_copies_started_total",
    type=Type.COUNTER,
    help="Backends that began to carry a job's key. Divided by windows started: the retry amplification.",
    labels=("server", "job_key"),
)
JOB_WINDOWS_STARTED = Metric(
    name="job_windows_started_total",
    type=Type.COUNTER,
    help="Windows of a job that were begun.",
    labels=("server", "job_key"),
)
