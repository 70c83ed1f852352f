"""All metrics of the table, and their names without the prefix `pgwatchdog_`."""

from watchdog.web.table import CLUSTER_METRICS, PROCESS_METRICS

METRICS = (*CLUSTER_METRICS, *PROCESS_METRICS)
METRIC_NAMES = frozenset(metric.name for metric in METRICS)
