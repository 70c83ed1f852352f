"""What goes on in a cluster: activity, budgets, orphans, and the copies of jobs."""

from watchdog.web.metric import SERVER, Metric, Type

_WHO = ("server", "datname", "usename")
_JOB = ("server", "datname", "usename", "job_key")

_RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
"""Far past 1: a histogram that is clipped at the budget is blind to what it is for."""

RUNNING_QUERIES = Metric("running_queries", Type.GAUGE, "Backends that execute something now.", _WHO)
OLDEST_RUNNING_SECONDS = Metric(
    "oldest_running_seconds",
    Type.GAUGE,
    "Age of the oldest run: since the statement began, or since the transaction began for rows with a job key.",
    _WHO,
)
HOLDING_TRANSACTIONS = Metric(
    "holding_transactions",
    Type.GAUGE,
    "Backends in a transaction without a running statement, or waiting for their client.",
    _WHO,
)
OLDEST_HOLDING_SECONDS = Metric(
    "oldest_holding_seconds", Type.GAUGE, "Age of the oldest transaction among those that hold.", _WHO
)
BUDGET_SECONDS = Metric("budget_seconds", Type.GAUGE, "The configured budget, without grace.", ("server", "budget"))
BUDGET_USED_RATIO = Metric(
    "budget_used_ratio",
    Type.GAUGE,
    "Highest share of the budget that a run uses now, without grace.",
    ("server", "budget"),
)
NEARING_BUDGET_QUERIES = Metric(
    "nearing_budget_queries",
    Type.GAUGE,
    "Runs past the share of the budget from which they are nearing, not yet orphans.",
    ("server", "budget"),
)
FINISHED_RUN_BUDGET_RATIO = Metric(
    "finished_run_budget_ratio",
    Type.HISTOGRAM,
    "Share of the budget that finished runs had used when last seen; a run that no look saw is not in it.",
    ("server", "budget"),
    buckets=_RATIO_BUCKETS,
)
ORPHANS = Metric(
    "orphans",
    Type.GAUGE,
    "Runs whose caller has gone or given up, by the strongest evidence for it.",
    (*_JOB, "evidence"),
)
ORPHAN_OLDEST_OVERRUN_SECONDS = Metric(
    "orphan_oldest_overrun_seconds",
    Type.GAUGE,
    "How long the oldest orphan has been past the end of its budget, without grace.",
    (*_JOB, "evidence"),
)
ORPHANS_DETECTED = Metric(
    "orphans_detected_total",
    Type.COUNTER,
    "Runs that became orphans, each counted once, by the strongest evidence at that moment.",
    ("server", "usename", "job_key", "evidence"),
)
RUNNING_SECONDS = Metric(
    "running_seconds_total",
    Type.COUNTER,
    "Seconds of running work: running rows times the time since the tick before. An upper bound.",
    ("server", "usename", "job_key"),
)
ORPHAN_SECONDS = Metric(
    "orphan_seconds_total",
    Type.COUNTER,
    "The part of running_seconds_total that was past the end of its budget.",
    ("server", "usename", "job_key"),
)
SESSIONS_BLOCKED_BY_ORPHANS = Metric(
    "sessions_blocked_by_orphans",
    Type.GAUGE,
    "Sessions that wait for an orphan, directly or through others; absent where it was not asked.",
    SERVER,
)
ORPHANS_ALIKE_MAX = Metric(
    "orphans_alike_max",
    Type.GAUGE,
    "Size of the largest pile of orphans with the same database, role and query id; absent without query ids.",
    SERVER,
)
JOB_COPIES = Metric("job_copies", Type.GAUGE, "Running copies of a job; of its windows the one with the most.", _JOB)
DUPLICATE_COPIES = Metric(
    "duplicate_copies",
    Type.GAUGE,
    "Running copies beyond the number that the job allows; absent for jobs without such a number.",
    _JOB,
)
JOB_COPIES_STARTED = Metric(
    "job_copies_started_total",
    Type.COUNTER,
    "Backends that began to carry a job's key. Divided by windows started: the retry amplification.",
    ("server", "job_key"),
)
JOB_WINDOWS_STARTED = Metric(
    "job_windows_started_total",
    Type.COUNTER,
    "Windows of a job that were begun.",
    ("server", "job_key"),
)
