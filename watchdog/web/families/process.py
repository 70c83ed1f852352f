"""What pgwatchdog says about itself. These have no label `server`."""

from watchdog.web.metric import Metric, Type

BUILD_INFO = Metric(
    "build_info", Type.GAUGE, "1; the version of pgwatchdog and of Python.", ("version", "python_version")
)
CONFIGURED_CLUSTERS = Metric("configured_clusters", Type.GAUGE, "Clusters in the configuration in force.")
CONFIG_LAST_RELOAD_SUCCESSFUL = Metric(
    "config_last_reload_successful", Type.GAUGE, "1 if the last attempt to load the configuration succeeded."
)
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS = Metric(
    "config_last_reload_success_timestamp_seconds",
    Type.GAUGE,
    "Unix time at which the configuration in force was loaded.",
)
LOG_LINES_LOST = Metric(
    "log_lines_lost_total",
    Type.COUNTER,
    "Log lines that could not be written, to a full disk or a closed pipe for instance.",
)
EVENT_LOOP_LAG_SECONDS = Metric(
    "event_loop_lag_seconds",
    Type.GAUGE,
    "How late the event loop was at worst in the last 15 seconds.",
)
