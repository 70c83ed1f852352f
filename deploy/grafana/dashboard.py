"""The dashboard, built with typed builders: `make docs` writes dashboard.json. A test holds the two together.

Replicas all export, so every expression takes the maximum without their labels, after the sums. The other labels stay:
two environments with one cluster name are two lines, and the variables choose between them.
"""

from pathlib import Path
from string import ascii_uppercase

import yaml
from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as dash
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueColorMode, VizOrientation
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)

HERE = Path(__file__).parent
VALUES = yaml.safe_load((HERE.parent / "prometheus" / "values.yaml").read_text(encoding="utf-8"))
REPLICA = ", ".join((*VALUES["replica"], *VALUES["scraper"]))
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH, HEIGHT = 12, 8

PLACE = '$environment_label=~"$environment"'
SERVER = f'{PLACE}, server=~"$server"'
ROLE = 'usename=~"$role"'
JOB = 'job_key=~"$job"'
BUDGET = 'budget=~"default|role:$role|job:$job"'
WHERE = "{{$environment_label}} {{server}}"
"""Begins every legend: Grafana puts the label's name in."""


def read(metric: str, *conditions: str) -> str:
    """The chosen series of a metric."""
    return f"pgwatchdog_{metric}{{{', '.join((SERVER, *conditions))}}}"


def most(expression: str) -> str:
    """The maximum over replicas."""
    return f"max without ({REPLICA}) ({expression})"


def summed(expression: str, *labels: str) -> str:
    """The sum over `labels`, within each replica."""
    return f"sum without ({', '.join(labels)}) ({expression})"


def in_an_hour(metric: str, *conditions: str) -> str:
    """By how much a counter has grown in an hour, within each replica."""
    return f"increase({read(metric, *conditions)}[1h])"


def share_for_nobody() -> str:
    """Orphan seconds as a share of running seconds, within each replica."""
    orphaned, running = (
        summed(f"rate({read(metric, ROLE, JOB)}[$__rate_interval])", "usename", "job_key")
        for metric in ("orphan_seconds_total", "running_seconds_total")
    )
    return f"{orphaned} / ({running} > 0)"


PANELS: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Read and not read",
        "1: the last look succeeded. What is not read has no findings here, and that means nothing.",
        "short",
        ((most(read("up")), WHERE),),
    ),
    (
        "Since the last look that succeeded",
        "By the clock of pgwatchdog's host.",
        "s",
        ((f"time() - {most(read('last_poll_success_timestamp_seconds'))}", WHERE),),
    ),
    (
        "Orphans",
        "Runs whose callers have gone or given up.",
        "short",
        (
            (
                f"{most(summed(read('orphans', ROLE, JOB), 'datname'))} > 0",
                f"{WHERE} {{{{usename}}}} {{{{job_key}}}} ({{{{evidence}}}})",
            ),
        ),
    ),
    (
        "Oldest orphan, past the end of its budget",
        "Grows by a second a second while nothing ends it.",
        "s",
        (
            (
                f"{most(read('orphan_oldest_overrun_seconds', ROLE, JOB))} > 0",
                f"{WHERE} {{{{datname}}}} {{{{usename}}}} {{{{job_key}}}} ({{{{evidence}}}})",
            ),
        ),
    ),
    (
        "Share of the work that is for nobody",
        "An upper bound, sampled at each look.",
        "percentunit",
        ((most(share_for_nobody()), WHERE),),
    ),
    (
        "Sessions that wait for an orphan",
        "Directly or through others; no line where it was not asked.",
        "short",
        ((most(read("sessions_blocked_by_orphans")), WHERE),),
    ),
    (
        "Copies of jobs",
        "Of a job's windows the one with the most copies.",
        "short",
        ((most(read("job_copies", ROLE, JOB)), f"{WHERE} {{{{datname}}}} {{{{usename}}}} {{{{job_key}}}}"),),
    ),
    (
        "Retry amplification",
        "Copies started for each window begun, over an hour. Above 1.5 retries multiply the load.",
        "short",
        (
            (
                most(
                    f"{in_an_hour('job_copies_started_total', JOB)} / "
                    f"({in_an_hour('job_windows_started_total', JOB)} > 0)"
                ),
                f"{WHERE} {{{{job_key}}}}",
            ),
        ),
    ),
    (
        "Budget used",
        "The run that uses most of it; the days before the failure show here.",
        "percentunit",
        ((most(read("budget_used_ratio", BUDGET)), f"{WHERE} {{{{budget}}}}"),),
    ),
    (
        "Holding transactions",
        "Open without a running statement: they keep locks and hold back vacuum.",
        "short",
        ((most(summed(read("holding_transactions", ROLE), "datname")), f"{WHERE} {{{{usename}}}}"),),
    ),
    (
        "Acts, and what would be done in dry run",
        "Guarded cancels that were sent; runs that a rule would have cancelled, each once.",
        "short",
        (
            (most(in_an_hour("cancel_attempts_total")), f"{WHERE} {{{{rule}}}}: sent"),
            (most(in_an_hour("dry_run_cancels_total")), f"{WHERE} {{{{rule}}}}: rehearsed"),
        ),
    ),
    (
        "Acts that did not work",
        "Refused, too late, without effect, or undone by a retry.",
        "short",
        (
            (f"{most(in_an_hour('cancel_failures_total'))} > 0", f"{WHERE} {{{{rule}}}}: {{{{reason}}}}"),
            (f"{most(in_an_hour('cancel_ineffective_total'))} > 0", f"{WHERE} {{{{rule}}}}: ineffective"),
            (f"{most(in_an_hour('retries_after_cancel_total'))} > 0", f"{WHERE} {{{{rule}}}}: came back at once"),
        ),
    ),
    (
        "Armed",
        "1: what policy decides is done. Below: every reason why it is not.",
        "short",
        (
            (most(read("enforcing")), WHERE),
            (f"{most(read('disarmed'))} > 0", f"{WHERE} not: {{{{reason}}}}"),
        ),
    ),
    (
        "Left alone, and why",
        "Each run once for each reason, in dry run too.",
        "short",
        (
            (
                f"{most(summed(in_an_hour('cancels_withheld_total'), 'rule'))} > 0",
                f"{WHERE} {{{{reason}}}}",
            ),
        ),
    ),
    (
        "Not judged",
        "Sessions that could not be judged, or only in part, by reason; statements beside the poll that fail, by name.",
        "short",
        (
            (f"{most(read('unjudged_backends'))} > 0", f"{WHERE} {{{{reason}}}}"),
            (f"{most(in_an_hour('statement_failures_total'))} > 0", f"{WHERE} {{{{statement}}}} failed"),
        ),
    ),
    (
        "Connections",
        "Used, as a share of max_connections.",
        "percentunit",
        ((most(f"{read('connections_used')} / {read('connections_max')}"), WHERE),),
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
        .with_variable(_environment_label())
        .with_variable(_choice("environment", "Environment", query="label_values(pgwatchdog_up, $environment_label)"))
        .with_variable(_choice("server", "Server", query=f"label_values(pgwatchdog_up{{{PLACE}}}, server)"))
        .with_variable(_choice("role", "Role", query=f"label_values({read('running_seconds_total')}, usename)"))
        .with_variable(_choice("job", "Job", query=f"label_values({read('running_seconds_total', ROLE)}, job_key)"))
    )
    for panel in PANELS:
        builder = builder.with_panel(_panel(*panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def _environment_label() -> dash.CustomVariable:
    """Which label tells environments apart: one of a list."""
    labels = VALUES["environment"]
    current = VariableOption(selected=True, text=labels[0], value=labels[0])
    return dash.CustomVariable("environment_label").label("Environment label").values(",".join(labels)).current(current)


def _choice(name: str, label: str, *, query: str) -> dash.QueryVariable:
    """Several values of a label, or all: `.*` matches series without the label as well."""
    return (
        dash.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _panel(title: str, text: str, unit: str, targets: tuple[tuple[str, str], ...]) -> stat.Panel | timeseries.Panel:
    panel: stat.Panel | timeseries.Panel
    if title == "Read and not read":
        steps = [Threshold(color="red", value=None), Threshold(color="green", value=1.0)]
        panel = stat.Panel().color_mode(BigValueColorMode.BACKGROUND).orientation(VizOrientation.AUTO)
        panel = panel.thresholds(dash.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    else:
        panel = timeseries.Panel().legend(common.VizLegendOptions().show_legend(True))
    panel = panel.title(title).description(text).unit(unit).datasource(SOURCE).span(WIDTH).height(HEIGHT)
    for letter, (expression, legend) in zip(ascii_uppercase, targets, strict=False):
        panel = panel.with_target(prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(letter))
    return panel


if __name__ == "__main__":
    (HERE / "dashboard.json").write_text(dashboard_json(), encoding="utf-8")
