"""Makes the generated pages and manifests from the code: `make docs`. A test compares them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from watchdog.core.acting.protections import PROTECTIONS
from watchdog.core.doctor.grants import grants
from watchdog.core.judging.evidence import EVIDENCE
from watchdog.core.observed.services import SERVICES, Service
from watchdog.settings.environment import scalar_names
from watchdog.settings.load import json_schema
from watchdog.web.metric import Metric
from watchdog.web.table import CLUSTER_METRICS, PROCESS_METRICS

HERE = Path(__file__).parent
Node = dict[str, Any]  # a piece of JSON Schema

METRICS_HEAD = """\
# Metrics

Generated from the table in `watchdog/web/table.py`.

Every replica exports everything: queries take the maximum `without` the labels in which replicas differ (`replica` in
`deploy/prometheus/values.yaml`). A maximum by `server` would merge environments that use one cluster name. A cluster
that could not be read has `pgwatchdog_up` 0 and none of the gauges about its sessions, not even 0; one that was read
only in part has no 0 either.
A series with `datname`, `usename` or `job_key` appears with 0 when a run with these labels is first seen and ends
an hour after the last. `job_key` is the job without its window, empty for runs without a key. Names beyond the bounds
under `labels` in the configuration fold into `other`.

"""

CONFIGURATION_HEAD = """\
# Configuration

Generated from the schema in `watchdog/settings/schema.py`. A sample with every key is `config/every-key.yaml`; the JSON
Schema comes from `pgwatchdog schema`, and `pgwatchdog check -c FILE` names every mistake with its line.

Durations carry a unit: `ms`, `s`, `min` (or `m`), `h`, `d`; decimals are fine. Duplicate and unknown keys, bare numbers
where a duration is meant, and words that YAML turns into booleans or other numbers are errors.

Names of roles, databases, jobs and applications may be patterns everywhere: `*` stands for any characters, `?` for one.
Brackets stand for themselves; after the prefix `glob:` they are sets of characters, as in `glob:web[0-9]`. Where
several patterns of a mapping fit a name, the name itself counts first, then the pattern with more characters of its
own; two that are equal in this are an error. The server shows an application name without what is not ASCII, and cuts
it at 63 bytes; PgBouncer may append its client's address. `protect.applications` and `ignore.applications` allow for
all of this: write the name as the application does. `rules[].applications` asks for the whole name.

| key | default | meaning |
|---|---|---|
"""


EVIDENCE_HEAD = """
## Evidence

The words of `policy.rules[].evidence`, of findings and of the label `evidence`, weakest first. A finding lists all that
it has; metrics carry the strongest.

| evidence | a run has it if |
|---|---|
"""

PROTECTIONS_HEAD = """
## Protections

A run that one of these protects is not acted on; the first one in this order is the reason that metrics, log and ledger
carry. Those with a yes are tested once more in the statement that signals, because they can begin after the look.

| reason | a run is protected if | tested again |
|---|---|---|
"""

SERVICES_HEAD = """\
# Managed services

Generated from the table in `watchdog/core/observed/services.py`, which protections, `pgwatchdog doctor`,
`pgwatchdog grants --service KEY` and the hints of errors read. What is not known is not in the provider's
documentation, or was not found there; nothing is assumed in its place.

The doctor prints `ALTER SYSTEM` on none of them, but how the service sets the parameter.

"""


def metrics_page() -> str:
    """The page about metrics."""
    parts = [METRICS_HEAD]
    for title, metrics in (("Of each cluster", CLUSTER_METRICS), ("Of pgwatchdog itself", PROCESS_METRICS)):
        parts.append(f"## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
        parts += [_metric(each) for each in metrics]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def configuration_page() -> str:
    """The page about the configuration."""
    document: Node = json_schema()
    rows = "".join(f"| `{key}` | {default} | {text} |\n" for key, default, text in _keys(document, document, ""))
    names = "\n".join(f"- `{name}`: `{'.'.join(map(str, place))}`" for name, place in scalar_names().items())
    return (
        f"{CONFIGURATION_HEAD}{rows}\n## Environment\n\nThese variables win over the file:\n\n{names}\n\n"
        "In a file that arms, a variable that would make it act sooner or on more is an error.\n\n"
        "Without a file, `PGWATCHDOG_DSN` (or `PGWATCHDOG_DSN_FILE`), `PGWATCHDOG_PASSWORD_FILE`,\n"
        "`PGWATCHDOG_BUDGET` and `PGWATCHDOG_NAME` describe one cluster. `PGWATCHDOG_CONFIG_FILE`,\n"
        "`PGWATCHDOG_LOG_LEVEL` and `PGWATCHDOG_LOG_FORMAT` stand for flags. Any other variable with this prefix is\n"
        "an error, except what Kubernetes injects for a Service of our name.\n"
        f"{EVIDENCE_HEAD}{_evidence()}{PROTECTIONS_HEAD}{_protections()}"
    )


def services_page() -> str:
    """The page about managed services."""
    return SERVICES_HEAD + "\n".join(f"## {each.name}\n\n{_service(each)}" for each in SERVICES)


def _service(service: Service) -> str:
    marks = [f"role {each}" for each in _named(service.roles)]
    marks += [f"settings that begin with `{each}`" for each in service.settings]
    marks += [f"schema {each}" for each in _named(service.schemas)]
    reserved = service.reserved
    sleeps = {True: "yes", False: "no", None: None}[service.sleeps]
    rows = {
        "key": f"`{service.key}`",
        "recognised by": ", ".join(marks),
        "the provider's roles, never touched": ", ".join(_named(service.provider_roles)) or None,
        "reserved connections of its own": None if reserved is None else f"`{reserved.setting}`: {reserved.hint}",
        "a parameter is set": service.parameters,
        "rights": service.rights,
        "`sslrootcert`": service.ca,
        "can sleep": sleeps,
        "sources": "; ".join(service.sources),
    }
    return "".join(f"- {title}: {text or 'not known'}\n" for title, text in rows.items())


def _named(names: Iterable[str]) -> list[str]:
    return [f"`{each}`" for each in sorted(names)]


def _evidence() -> str:
    return "".join(f"| `{kind.name}` | {kind.meaning} |\n" for kind in EVIDENCE)


def _protections() -> str:
    return "".join(
        f"| `{each.reason}` | {each.meaning} | {'yes' if each.guarded else 'no'} |\n" for each in PROTECTIONS
    )


def _metric(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
    return f"| `{metric.full_name}` | {metric.type} | {labels} | {metric.help} |\n"


def _keys(node: Node, document: Node, path: str) -> Iterator[tuple[str, str, str]]:
    for name, each in node.get("properties", {}).items():
        key = f"{path}.{name}" if path else name
        inner, suffix = _inner(each, document)
        if inner is None or "description" in each:
            default = "-" if name in node.get("required", []) else _default(each.get("default"))
            yield key, default, each.get("description", "")
        if inner is not None:
            yield from _keys(inner, document, f"{key}{suffix}")


def _inner(node: Node, document: Node) -> tuple[Node | None, str]:
    """The model behind a key, and how its entries are written."""
    for option in node.get("anyOf", ()):  # a section that may be missing
        model, suffix = _inner(option, document)
        if model is not None:
            return model, suffix
    for candidate, suffix in ((node, ""), (node.get("items", {}), "[]"), (node.get("additionalProperties"), ".NAME")):
        if isinstance(candidate, dict) and "$ref" in candidate:
            found: Node = document["$defs"][candidate["$ref"].rpartition("/")[2]]
            return found, suffix
    return None, ""


def _default(value: object) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def prometheus_rule() -> str:
    """The alerts as an object of the Prometheus operator."""
    groups = yaml.safe_load((HERE.parent / "deploy" / "prometheus" / "rules.yaml").read_text(encoding="utf-8"))
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "pgwatchdog"},
        "spec": groups,
    }
    head = "# Generated from deploy/prometheus/rules.yaml: make docs.\n"
    return head + yaml.dump(rule, Dumper=_Dumper, sort_keys=False, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block, as a person would."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def grants_for(version: int, *, acting: bool) -> Callable[[], str]:
    """The SQL of `pgwatchdog grants` for servers from `version` on."""
    return lambda: grants(role="pgwatchdog", version=version * 10_000, acting=acting)


PAGES = {
    "deploy/sql/dry-run-14-15.sql": grants_for(14, acting=False),
    "deploy/sql/dry-run.sql": grants_for(16, acting=False),
    "deploy/sql/enforce-14-15.sql": grants_for(14, acting=True),
    "deploy/sql/enforce.sql": grants_for(16, acting=True),
    "docs/metrics.md": metrics_page,
    "docs/configuration.md": configuration_page,
    "docs/services.md": services_page,
    "deploy/kubernetes/prometheusrule.yaml": prometheus_rule,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE.parent / name).write_text(page(), encoding="utf-8")
