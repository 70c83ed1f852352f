"""The metric families about looks, and about the server's own settings and counters."""

from watchdog.core.judging.judge import BLIND_REASONS
from watchdog.web.metric import SERVER, Metric, Type

UP = Metric(
    name="up",
    type=Type.GAUGE,
    help="1 if the last look at the cluster succeeded, 0 if it could not be read.",
    labels=SERVER,
)
LAST_POLL_SUCCESS_TIMESTAMP_SECONDS = Metric(
    name="last_poll_success_timestamp_seconds",
    type=Type.GAUGE,
    help="Unix time of the last look that succeeded, by the clock of pgwatchdog's host.",
    labels=SERVER,
)
LAST_POLL_DURATION_SECONDS = Metric(
    name="last_poll_duration_seconds", type=Type.GAUGE, help="Duration of the last activity statement.", labels=SERVER
)
POLL_INTERVAL_SECONDS = Metric(
    name="poll_interval_seconds", type=Type.GAUGE, help="Interval in force between two looks.", labels=SERVER
)
SOCKETS_VISIBLE = Metric(
    name="sockets_visible",
    type=Type.GAUGE,
    help="1 if the kernel shows us the server's sockets, so that a client that is gone is known at once.",
    labels=SERVER,
)
CLIENTS_UNCERTAIN = Metric(
    name="clients_uncertain",
    type=Type.GAUGE,
    help="Running sessions of which the sockets do not tell whether their client is gone, by reason: unknown (which "
    "socket is its own), half_closed (it may still read).",
    labels=("server", "reason"),
)
IN_RECOVERY = Metric(name="in_recovery", type=Type.GAUGE, help="1 if the server is a standby.", labels=SERVER)
SERVER_INFO = Metric(
    name="server_info", type=Type.GAUGE, help="1; the server's version.", labels=("server", "server_version")
)
POLLS = Metric(
    name="polls_total", type=Type.COUNTER, help="Looks at the cluster, whether they succeeded or not.", labels=SERVER
)
POLL_FAILURES = Metric(
    name="poll_failures_total", type=Type.COUNTER, help="Looks that failed, by reason.", labels=("server", "reason")
)
SERVER_UNTESTED = Metric(
    name="server_untested",
    type=Type.GAUGE,
    help="1 if the server is newer than every version that this pgwatchdog was tested with.",
    labels=SERVER,
)
STATEMENT_FAILURES = Metric(
    name="statement_failures_total",
    type=Type.COUNTER,
    help="Statements beside the poll that failed, by the name of the statement.",
    labels=("server", "statement"),
)
CLOCK_STEPS = Metric(
    name="clock_steps_total",
    type=Type.COUNTER,
    help="Times that the server's clock was found stepped against our own elapsed time.",
    labels=SERVER,
)
CENSUS_FAILURES = Metric(
    name="census_failures_total",
    type=Type.COUNTER,
    help="Readings of names and rights that failed while looks succeeded: those in use are older than they should be.",
    labels=SERVER,
)
UNJUDGED_BACKENDS = Metric(
    name="unjudged_backends",
    type=Type.GAUGE,
    help=f"Sessions that are not judged, or only in part, by reason: {', '.join(BLIND_REASONS)}.",
    labels=("server", "reason"),
)
ROLE_STATEMENT_TIMEOUT_SECONDS = Metric(
    name="role_statement_timeout_seconds",
    type=Type.GAUGE,
    help="The statement_timeout stored for a role with a budget, where it differs by database the worst; 0 is off.",
    labels=("server", "usename"),
)
TIMEOUT_INVERSION = Metric(
    name="timeout_inversion",
    type=Type.GAUGE,
    help="1 if the statement_timeout stored for a role lets work outlive its caller: off, or above the budget.",
    labels=("server", "usename"),
)
CLIENT_CONNECTION_CHECK_INTERVAL_SECONDS = Metric(
    name="client_connection_check_interval_seconds",
    type=Type.GAUGE,
    help="How often the server looks whether the client of a running query is there; 0 is never.",
    labels=SERVER,
)
SESSIONS_ABANDONED = Metric(
    name="sessions_abandoned_total",
    type=Type.COUNTER,
    help="Sessions that ended because their client was lost, as the server counts them.",
    labels=("server", "datname"),
)
ACTIVE_SECONDS = Metric(
    name="active_seconds_total",
    type=Type.COUNTER,
    help="Time that the server spent executing, as it counts itself: the exact denominator of running seconds.",
    labels=("server", "datname"),
)
CONNECTIONS_USED = Metric(
    name="connections_used", type=Type.GAUGE, help="Client connections at the last census.", labels=SERVER
)
CONNECTIONS_MAX = Metric(name="connections_max", type=Type.GAUGE, help="The server's max_connections.", labels=SERVER)
LABEL_VALUES_FOLDED = Metric(
    name="label_values_folded",
    type=Type.GAUGE,
    help="Names that the last look folded into `other`, because the bound on the label's values is reached.",
    labels=("server", "label"),
)
