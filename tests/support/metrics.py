"""The metrics of the table by the names under which they are exposed, without the prefix."""

from watchdog.web.table import CLUSTER_METRICS, PROCESS_METRICS

METRICS = (*CLUSTER_METRICS, *PROCESS_METRICS)
METRIC_NAMES = frozenset(metric.name for metric in METRICS)
