"""The metric families about pgwatchdog itself. They have no label `server`."""

from watchdog.web.metric import Metric, Type

BUILD_INFO = Metric(
    name="build_info",
    type=Type.GAUGE,
    help="1; the version of pgwatchdog and of Python.",
    labels=("version", "python_version"),
)
CONFIGURED_CLUSTERS = Metric(
    name="configured_clusters", type=Type.GAUGE, help="Clusters in the configuration in force."
)
CONFIG_LAST_RELOAD_SUCCESSFUL = Metric(
    name="config_last_reload_successful",
    type=Type.GAUGE,
    help="1 if the last attempt to load the configuration succeeded.",
)
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS = Metric(
    name="config_last_reload_success_timestamp_seconds",
    type=Type.GAUGE,
    help="Unix time at which the configuration in force was loaded.",
)
LOG_LINES_LOST = Metric(
    name="log_lines_lost_total",
    type=Type.COUNTER,
    help="Log lines that could not be written, to a full disk or a closed pipe for instance.",
)
EVENT_LOOP_LAG_SECONDS = Metric(
    name="event_loop_lag_seconds",
    type=Type.GAUGE,
    help="How late the event loop was at worst in the last 15 seconds.",
)
