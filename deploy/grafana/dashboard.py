"""The dashboard, built with typed builders: `make docs` writes dashboard.json. A test holds the two together.

Replicas all export, so every expression takes the maximum by server before it adds up.
"""

from pathlib import Path

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as dash
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueColorMode, VizOrientation
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode, VariableRefresh

HERE = Path(__file__).parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
CHOSEN = 'server=~"$server"'
WIDTH, HEIGHT = 12, 8

PANELS: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Read and not read",
        "1: the last look succeeded. What is not read has no findings here, and that means nothing.",
        "short",
        ((f"max by (server) (pgwatchdog_up{{{CHOSEN}}})", "{{server}}"),),
    ),
    (
        "Since the last look that succeeded",
        "By the clock of pgwatchdog's host.",
        "s",
        ((f"time() - max by (server) (pgwatchdog_last_poll_success_timestamp_seconds{{{CHOSEN}}})", "{{server}}"),),
    ),
    (
        "Orphans",
        "Runs whose callers have gone or given up.",
        "short",
        (
            (
                f"max by (server, usename, job_key, evidence) (pgwatchdog_orphans{{{CHOSEN}}}) > 0",
                "{{server}} {{usename}} {{job_key}} ({{evidence}})",
            ),
        ),
    ),
    (
        "Oldest orphan, past the end of its budget",
        "Grows by a second a second while nothing ends it.",
        "s",
        (
            (
                f"max by (server, usename, job_key) (pgwatchdog_orphan_oldest_overrun_seconds{{{CHOSEN}}}) > 0",
                "{{server}} {{usename}} {{job_key}}",
            ),
        ),
    ),
    (
        "Share of the work that is for nobody",
        "An upper bound, sampled at each look.",
        "percentunit",
        (
            (
                f"sum by (server) (max by (server, usename, job_key) (rate(pgwatchdog_orphan_seconds_total{{{CHOSEN}}}"
                "[$__rate_interval]))) / (sum by (server) (max by (server, usename, job_key) "
                f"(rate(pgwatchdog_running_seconds_total{{{CHOSEN}}}[$__rate_interval]))) > 0)",
                "{{server}}",
            ),
        ),
    ),
    (
        "Sessions that wait for an orphan",
        "Directly or through others; no line where it was not asked.",
        "short",
        ((f"max by (server) (pgwatchdog_sessions_blocked_by_orphans{{{CHOSEN}}})", "{{server}}"),),
    ),
    (
        "Copies of jobs",
        "Of a job's windows the one with the most copies.",
        "short",
        (
            (
                f"max by (server, usename, job_key) (pgwatchdog_job_copies{{{CHOSEN}}})",
                "{{server}} {{usename}} {{job_key}}",
            ),
        ),
    ),
    (
        "Retry amplification",
        "Copies started for each window begun, over an hour. Above 1.5 retries multiply the load.",
        "short",
        (
            (
                f"max by (server, job_key) (increase(pgwatchdog_job_copies_started_total{{{CHOSEN}}}[1h])) / "
                f"(max by (server, job_key) (increase(pgwatchdog_job_windows_started_total{{{CHOSEN}}}[1h])) > 0)",
                "{{server}} {{job_key}}",
            ),
        ),
    ),
    (
        "Budget used",
        "The run that uses most of it; the days before the failure show here.",
        "percentunit",
        ((f"max by (server, budget) (pgwatchdog_budget_used_ratio{{{CHOSEN}}})", "{{server}} {{budget}}"),),
    ),
    (
        "Holding transactions",
        "Open without a running statement: they keep locks and hold back vacuum.",
        "short",
        (
            (
                "sum by (server, usename) (max by (server, datname, usename) "
                f"(pgwatchdog_holding_transactions{{{CHOSEN}}}))",
                "{{server}} {{usename}}",
            ),
        ),
    ),
    (
        "Acts, and what would be done in dry run",
        "Guarded cancels that were sent; runs that a rule would have cancelled, each once.",
        "short",
        (
            (
                f"max by (server, rule) (increase(pgwatchdog_cancel_attempts_total{{{CHOSEN}}}[1h]))",
                "{{server}} {{rule}}: sent",
            ),
            (
                f"max by (server, rule) (increase(pgwatchdog_dry_run_cancels_total{{{CHOSEN}}}[1h]))",
                "{{server}} {{rule}}: rehearsed",
            ),
        ),
    ),
    (
        "Acts that did not work",
        "Refused, too late, without effect, or undone by a retry.",
        "short",
        (
            (
                f"max by (server, rule, reason) (increase(pgwatchdog_cancel_failures_total{{{CHOSEN}}}[1h])) > 0",
                "{{server}} {{rule}}: {{reason}}",
            ),
            (
                f"max by (server, rule) (increase(pgwatchdog_cancel_ineffective_total{{{CHOSEN}}}[1h])) > 0",
                "{{server}} {{rule}}: ineffective",
            ),
            (
                f"max by (server, rule) (increase(pgwatchdog_retries_after_cancel_total{{{CHOSEN}}}[1h])) > 0",
                "{{server}} {{rule}}: came back at once",
            ),
        ),
    ),
    (
        "Armed",
        "1: what policy decides is done. Below: every reason why it is not.",
        "short",
        (
            (f"max by (server) (pgwatchdog_enforcing{{{CHOSEN}}})", "{{server}}"),
            (f"max by (server, reason) (pgwatchdog_disarmed{{{CHOSEN}}}) > 0", "{{server}} not: {{reason}}"),
        ),
    ),
    (
        "Left alone, and why",
        "Each run once for each reason, in dry run too.",
        "short",
        (
            (
                f"max by (server, reason) (increase(pgwatchdog_cancels_withheld_total{{{CHOSEN}}}[1h])) > 0",
                "{{server}} {{reason}}",
            ),
        ),
    ),
    (
        "Not judged",
        "Sessions that could not be judged, or only in part, by reason.",
        "short",
        ((f"max by (server, reason) (pgwatchdog_unjudged_backends{{{CHOSEN}}}) > 0", "{{server}} {{reason}}"),),
    ),
    (
        "Connections",
        "Used, as a share of max_connections.",
        "percentunit",
        (
            (
                f"max by (server) (pgwatchdog_connections_used{{{CHOSEN}}}) / "
                f"max by (server) (pgwatchdog_connections_max{{{CHOSEN}}})",
                "{{server}}",
            ),
        ),
    ),
)
"""Title, what it shows, unit, and the expressions with their legends."""


def expressions() -> list[str]:
    """Every expression of the dashboard."""
    return [expression for _, _, _, targets in PANELS for expression, _ in targets]


def dashboard_json() -> str:
    """The dashboard as JSON."""
    builder = (
        dash.Dashboard("pgwatchdog")
        .uid("pgwatchdog")
        .description("Work that goes on in Postgres for nobody, and what makes it.")
        .tags(["postgresql", "pgwatchdog"])
        .refresh("30s")
        .time("now-6h", "now")
        .editable()
        .with_variable(dash.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(
            dash.QueryVariable("server")
            .label("Server")
            .query("label_values(pgwatchdog_up, server)")
            .datasource(SOURCE)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
        )
    )
    for panel in PANELS:
        builder = builder.with_panel(_panel(*panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def _panel(title: str, text: str, unit: str, targets: tuple[tuple[str, str], ...]) -> stat.Panel | timeseries.Panel:
    panel: stat.Panel | timeseries.Panel
    if title == "Read and not read":
        steps = [Threshold(color="red", value=None), Threshold(color="green", value=1.0)]
        panel = stat.Panel().color_mode(BigValueColorMode.BACKGROUND).orientation(VizOrientation.AUTO)
        panel = panel.thresholds(dash.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    else:
        panel = timeseries.Panel().legend(common.VizLegendOptions().show_legend(True))
    panel = panel.title(title).description(text).unit(unit).datasource(SOURCE).span(WIDTH).height(HEIGHT)
    for expression, legend in targets:
        panel = panel.with_target(prometheus.Dataquery().expr(expression).legend_format(legend))
    return panel


if __name__ == "__main__":
    (HERE / "dashboard.json").write_text(dashboard_json(), encoding="utf-8")
