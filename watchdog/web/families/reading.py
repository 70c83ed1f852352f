"""What is read of a cluster: the looks themselves, the server, and what it has stored and counts itself."""

from watchdog.core.judging.judge import BLIND_REASONS
from watchdog.web.metric import SERVER, Metric, Type

UP = Metric("up", Type.GAUGE, "1 if the last look at the cluster succeeded, 0 if it could not be read.", SERVER)
LAST_POLL_SUCCESS_TIMESTAMP_SECONDS = Metric(
    "last_poll_success_timestamp_seconds",
    Type.GAUGE,
    "Unix time of the last look that succeeded, by the clock of pgwatchdog's host.",
    SERVER,
)
LAST_POLL_DURATION_SECONDS = Metric(
    "last_poll_duration_seconds", Type.GAUGE, "Duration of the last activity statement.", SERVER
)
POLL_INTERVAL_SECONDS = Metric("poll_interval_seconds", Type.GAUGE, "Interval in force between two looks.", SERVER)
SOCKETS_VISIBLE = Metric(
    "sockets_visible",
    Type.GAUGE,
    "1 if the kernel shows us the server's sockets, so that a client that is gone is known at once.",
    SERVER,
)
IN_RECOVERY = Metric("in_recovery", Type.GAUGE, "1 if the server is a standby.", SERVER)
SERVER_INFO = Metric("server_info", Type.GAUGE, "1; the server's version.", ("server", "server_version"))
POLLS = Metric("polls_total", Type.COUNTER, "Looks at the cluster, whether they succeeded or not.", SERVER)
POLL_FAILURES = Metric("poll_failures_total", Type.COUNTER, "Looks that failed, by reason.", ("server", "reason"))
CENSUS_FAILURES = Metric(
    "census_failures_total",
    Type.COUNTER,
    "Readings of names and rights that failed while looks succeeded: those in use are older than they should be.",
    SERVER,
)
UNJUDGED_BACKENDS = Metric(
    "unjudged_backends",
    Type.GAUGE,
    f"Sessions that are not judged, or only in part, by reason: {', '.join(BLIND_REASONS)}.",
    ("server", "reason"),
)
ROLE_STATEMENT_TIMEOUT_SECONDS = Metric(
    "role_statement_timeout_seconds",
    Type.GAUGE,
    "The statement_timeout stored for a role with a budget, where it differs by database the worst; 0 is off.",
    ("server", "usename"),
)
TIMEOUT_INVERSION = Metric(
    "timeout_inversion",
    Type.GAUGE,
    "1 if the statement_timeout stored for a role lets work outlive its caller: off, or above the budget.",
    ("server", "usename"),
)
CLIENT_CONNECTION_CHECK_INTERVAL_SECONDS = Metric(
    "client_connection_check_interval_seconds",
    Type.GAUGE,
    "How often the server looks whether the client of a running query is there; 0 is never.",
    SERVER,
)
SESSIONS_ABANDONED = Metric(
    "sessions_abandoned_total",
    Type.COUNTER,
    "Sessions that ended because their client was lost, as the server counts them.",
    ("server", "datname"),
)
ACTIVE_SECONDS = Metric(
    "active_seconds_total",
    Type.COUNTER,
    "Time that the server spent executing, as it counts itself: the exact denominator of running seconds.",
    ("server", "datname"),
)
CONNECTIONS_USED = Metric("connections_used", Type.GAUGE, "Client connections at the last census.", SERVER)
CONNECTIONS_MAX = Metric("connections_max", Type.GAUGE, "The server's max_connections.", SERVER)
LABEL_VALUES_FOLDED = Metric(
    "label_values_folded",
    Type.GAUGE,
    "Names that the last look folded into `other`, because the bound on the label's values is reached.",
    ("server", "label"),
)
