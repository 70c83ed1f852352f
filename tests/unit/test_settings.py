"""The configuration: strict, every problem at once with its place, the environment beside the file."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from watchdog.core.acting.rules import Action
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.observed.activity import Clock
from watchdog.errors import ConfigurationError
from watchdog.ledger.url import check_url
from watchdog.postgres.dsn import check_dsn
from watchdog.settings.environment import scalar_names
from watchdog.settings.load import json_schema, load_environment, load_file
from watchdog.settings.tree import Settings

BAD = sorted((Path(__file__).parents[1] / "golden" / "config").glob("*.yaml"))
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
SMALLEST = "clusters: [{name: a, dsn: host=db1}]\n"


def load(folder: Path, text: str, **env: str) -> Settings:
    file = folder / "pgwatchdog.yaml"
    file.write_text(text)
    return load_file(file, env=env, check_dsn=check_dsn, check_url=check_url)


def problems(folder: Path, text: str, **env: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(folder, text, **env)
    return tuple(problem.replace(f"{folder}/", "") for problem in caught.value.problems)


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_golden_every_mistake_is_named_with_its_place(file: Path, golden: Callable[[str, str], None]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_file(file, env={}, check_dsn=check_dsn, check_url=check_url)
    text = "".join(f"{line}\n" for line in caught.value.problems).replace(f"{file.parent}/", "")
    assert "my secret" not in text
    golden(f"config/{file.stem}.txt", text)


def test_the_smallest_configuration_observes_only(tmp_path: Path) -> None:
    settings = load(tmp_path, SMALLEST)
    assert [cluster.name for cluster in settings.clusters] == ["a"]
    assert settings.book.empty
    assert settings.interval == timedelta(seconds=5)
    assert any("there is none" in warning for warning in settings.warnings)


def test_in_braces_a_key_may_have_no_value_but_not_no_colon(tmp_path: Path) -> None:
    """A comma ends a value that is not in quotes, and the rest of it reads like a key."""
    settings = load(tmp_path, SMALLEST + "budgets: {default: , roles: {web: 30s}}\n")
    assert settings.book.sources() == {"role:web": timedelta(seconds=30)}
    [problem] = problems(tmp_path, "clusters: [{name: a, dsn: host=db1,options=x}]\n")
    assert problem.startswith("pgwatchdog.yaml:1: clusters[0]: a key without a value in { }")


def test_what_yaml_finds_wrong_is_told_without_quoting_the_file(tmp_path: Path) -> None:
    assert problems(tmp_path, "clusters:\n\t- x\n") == (
        "pgwatchdog.yaml:2: not YAML: found character '\\t' that cannot start any token",
    )
    assert problems(tmp_path, "clusters: [1\n") == (
        "pgwatchdog.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'",
    )
    assert problems(tmp_path, "clusters: !a!b c\n") == ("pgwatchdog.yaml:1: not YAML: found undefined tag handle …",)


def test_budgets_become_core_values(tmp_path: Path) -> None:
    budgets = """
budgets:
  grace: 1s
  default: 2min
  roles: {web_app: 30s, etl_app: {budget: 15min, grace: 10s, holding: 1min, clock: run}}
  jobs:
    - {pattern: "scan:{job}:{window}", roles: [etl_app], copies: 1, retry_gap: 30s, budgets: {threads: 14min}}
"""
    book = load(tmp_path, SMALLEST + budgets).book
    etl = book.budget("etl_app", claim=None)
    assert etl is not None
    assert (etl.limit, etl.grace, etl.holding, etl.clock) == (
        timedelta(minutes=15), timedelta(seconds=10), timedelta(minutes=1), Clock.RUN,
    )  # fmt: skip
    assert book.sources() == {
        "role:web_app": timedelta(seconds=30),
        "role:etl_app": timedelta(minutes=15),
        "job:threads": timedelta(minutes=14),
        "default": timedelta(minutes=2),
    }
    assert (book.jobs[0].copies, book.jobs[0].retry_gap) == (1, timedelta(seconds=30))


def test_password_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    settings = load(tmp_path, "clusters: [{name: a, dsn: host=db1, password_file: secrets/a}]\n")
    assert settings.clusters[0].password_file == tmp_path / "secrets" / "a"


def test_scalars_may_come_from_the_environment_and_win_over_the_file(tmp_path: Path) -> None:
    env = {
        "PGWATCHDOG_POLL_INTERVAL": "2s",
        "PGWATCHDOG_LABELS_MAX_JOBS": "7",
        "PGWATCHDOG_BUDGETS_DEFAULT": "1min",
        "PGWATCHDOG_WEB_LIFECYCLE": "true",
    }
    settings = load(tmp_path, f"{SMALLEST}poll: {{interval: 9s}}\n", **env)
    assert settings.interval == timedelta(seconds=2)
    assert settings.labels.max_jobs == 7
    assert settings.book.default == timedelta(minutes=1)
    assert settings.lifecycle


def test_every_default_of_the_schema_and_of_the_page_may_be_written_into_a_file(tmp_path: Path) -> None:
    documented = dict(re.findall(r"(?m)^\| `([^`]+)` \| `([^`]+)` \|", PAGE.read_text()))
    defaults = dict(schema_defaults())
    assert defaults["ledger.keep"] == "30d"
    assert len(documented) > 30
    assert {key: json.dumps(yaml.safe_load(text)) for key, text in documented.items()} == {
        key: json.dumps(value) for key, value in defaults.items() if value is not None
    }
    for key, value in defaults.items():
        assert load(tmp_path, yaml.safe_dump(with_value(key, value))).clusters, key


def schema_defaults() -> Iterator[tuple[str, object]]:
    """Each key of the JSON Schema that has a default, as docs/configuration.md writes it, and the default."""
    document: dict[str, Any] = json_schema()
    definitions = document["$defs"]

    def walk(model: dict[str, Any], path: str) -> Iterator[tuple[str, object]]:
        for name, node in model["properties"].items():
            key = f"{path}{name}"
            if "default" in node:
                yield key, node["default"]
            for option in (node, *node.get("anyOf", ())):
                for inner, suffix in (
                    (option, "."),
                    (option.get("items"), "[]."),
                    (option.get("additionalProperties"), ".NAME."),
                ):
                    if isinstance(inner, dict) and "$ref" in inner:
                        yield from walk(definitions[inner["$ref"].rpartition("/")[2]], f"{key}{suffix}")

    return walk(document, "")


NEEDED: dict[str, dict[str, object]] = {
    "clusters[]": {"name": "a", "dsn": "host=db1"},
    "budgets.roles.NAME": {"budget": "30s"},
    "budgets.jobs[].budgets.NAME": {"budget": "30s"},
    "policy.rules[]": {"name": "one", "finding": "orphan"},
    "chain": {"work": "1s", "layers": [{"name": "one", "timeout": "1s"}]},
    "chain.layers[]": {"name": "one", "timeout": "1s"},
}
"""What else must be in a section or entry, by its key."""


def with_value(key: str, value: object) -> dict[str, Any]:
    """The smallest configuration in which `key` has this value."""
    document: dict[str, Any] = {"clusters": [dict(NEEDED["clusters[]"])]}
    inner, path = document, ""
    *sections, last = key.split(".")
    for section in sections:
        path = f"{path}.{section}".lstrip(".")
        needed = dict(NEEDED.get(path, {}))
        if section.endswith("[]"):
            inner[section[:-2]] = [needed]
            inner = needed
        elif section == "NAME":
            inner["NAME"] = needed
            inner = needed
        else:
            inner = inner.setdefault(section, needed)
    inner[last] = value
    return document


def test_only_scalars_outside_clusters_have_variables() -> None:
    assert set(scalar_names()) == {
        "PGWATCHDOG_POLL_INTERVAL", "PGWATCHDOG_POLL_CENSUS_INTERVAL", "PGWATCHDOG_POLL_TIMEOUT",
        "PGWATCHDOG_WEB_LISTEN", "PGWATCHDOG_WEB_LIFECYCLE",
        "PGWATCHDOG_BUDGETS_GRACE", "PGWATCHDOG_BUDGETS_NEARING", "PGWATCHDOG_BUDGETS_DEFAULT",
            "PGWATCHDOG_BUDGETS_CLOCK_SKEW", "PGWATCHDOG_BUDGETS_HALF_CLOSE",
        "PGWATCHDOG_LABELS_MAX_ROLES", "PGWATCHDOG_LABELS_MAX_JOBS", "PGWATCHDOG_LABELS_MAX_DATABASES",
        "PGWATCHDOG_LEDGER_URL", "PGWATCHDOG_LEDGER_KEEP",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("PGWATCHDOG_POLL_INTERVALL", "2s", "unknown variable; did you mean PGWATCHDOG_POLL_INTERVAL?"),
        ("PGWATCHDOG_POLL_INTERVAL", "2", "2 has no unit"),
        ("PGWATCHDOG_POLICY_MODE", "enforce", "what may be touched is decided in the file alone"),
        ("PGWATCHDOG_MODE", "enforce", "what may be touched is decided in the file alone"),
        ("PGWATCHDOG_WEB_LIFECYCLE", "on", "on is a boolean in YAML"),
        ("PGWATCHDOG_PORT", "10187", "unknown variable"),
        ("PGWATCHDOG_DSN", "host=db1", "with a file it would be ignored"),
        ("PGWATCHDOG_BUDGET", "30s", "with a file it would be ignored"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_an_error_with_its_name(
    tmp_path: Path, name: str, value: str, complaint: str
) -> None:
    [problem] = problems(tmp_path, SMALLEST, **{name: value})
    assert problem.startswith(f"environment {name}")
    assert complaint in problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PGWATCHDOG_PORT", "tcp://10.1.2.3:10187"),
        ("PGWATCHDOG_PORT_10187_TCP", "tcp://10.1.2.3:10187"),
        ("PGWATCHDOG_PORT_10187_TCP_ADDR", "10.1.2.3"),
        ("PGWATCHDOG_PORT_10187_TCP_PROTO", "tcp"),
        ("PGWATCHDOG_SERVICE_HOST", "10.1.2.3"),
        ("PGWATCHDOG_SERVICE_PORT", "10187"),
        ("PGWATCHDOG_SERVICE_PORT_METRICS", "10187"),
        ("PGWATCHDOG_METRICS_SERVICE_HOST", "10.1.2.3"),
    ],
)
def test_what_kubernetes_injects_for_a_service_of_our_name_is_no_error(tmp_path: Path, name: str, value: str) -> None:
    load(tmp_path, SMALLEST, **{name: value})


def test_one_cluster_from_the_environment(tmp_path: Path) -> None:
    dsn = tmp_path / "dsn"
    dsn.write_text("host=db1 user=watch\n")
    env = {"PGWATCHDOG_DSN_FILE": str(dsn), "PGWATCHDOG_PASSWORD_FILE": "/run/secret", "PGWATCHDOG_BUDGET": "30s"}
    settings = load_environment({**env, "PGWATCHDOG_NAME": "orders"}, check_dsn=check_dsn, check_url=check_url)
    [cluster] = settings.clusters
    assert (cluster.name, cluster.dsn, str(cluster.password_file)) == ("orders", "host=db1 user=watch", "/run/secret")
    assert settings.book.default == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({}, "nothing to watch"),
        ({"PGWATCHDOG_DSN": "host=db1", "PGWATCHDOG_BUDGET": "30"}, "PGWATCHDOG_BUDGET: '30' is not a duration"),
        ({"PGWATCHDOG_DSN": "nonsense"}, "not a connection string"),
        ({"PGWATCHDOG_DSN_FILE": "/nonexistent"}, "PGWATCHDOG_DSN_FILE: /nonexistent cannot be read"),
    ],
)
def test_a_wrong_environment_says_which_variable(env: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load_environment(env, check_dsn=check_dsn, check_url=check_url)


def test_a_budget_under_a_second_points_to_statement_timeout(tmp_path: Path) -> None:
    settings = load(tmp_path, f"{SMALLEST}budgets: {{grace: 0s, roles: {{web: 200ms}}}}\n")
    [warning] = settings.warnings
    assert "statement_timeout" in warning
    assert "role:web is 200ms" in warning


def test_every_key_of_the_schema_says_what_it_is_for() -> None:
    def undescribed(node: object, path: str = "") -> list[str]:
        found: list[str] = []
        if isinstance(node, dict):
            for name, each in node.get("properties", {}).items():
                if not ({"description", "$ref", "allOf", "const"} & set(each)):
                    found.append(f"{path}.{name}")
            for name, each in node.get("$defs", {}).items():
                found += undescribed(each, name)
        return found

    assert undescribed(json_schema()) == []


ARMED = """
clusters:
  - {name: a, dsn: host=db1, mode: enforce}
  - {name: b, dsn: host=db2}
policy:
  mode: enforce
  disarm_file: disarm
  rules:
    - {name: orphans, finding: orphan, evidence: [over_budget], roles: ["etl_*"], after: 10s, action: cancel}
    - name: copies
      finding: duplicate
      evidence: [superseded]
      jobs: [threads]
      ignore: {databases: [archive]}
      writers: allow
  limits: {per_minute: 2}
  protect: {backups: false, roles: [boss]}
ledger: {url: "sqlite:////var/lib/pgwatchdog/ledger.db", keep: 7d}
"""


def test_policy_becomes_core_values(tmp_path: Path) -> None:
    settings = load(tmp_path, ARMED)
    orphans, copies = settings.policy.rules
    assert (orphans.kind, orphans.action, orphans.only.roles) == (Kind.ORPHAN, Action.CANCEL, ("etl_*",))
    assert (orphans.after, orphans.writers) == (timedelta(seconds=10), False)
    assert (copies.action, copies.only.jobs, copies.ignore.databases) == (Action.OBSERVE, ("threads",), ("archive",))
    assert (copies.kind, copies.evidence, copies.writers) == (Kind.DUPLICATE, frozenset({Evidence.SUPERSEDED}), True)
    assert (settings.policy.limits.per_minute, settings.policy.limits.tries) == (2, 3)
    assert (settings.policy.protect.backups, settings.policy.protect.superusers) == (False, True)
    assert (settings.disarm_file, settings.ledger_keep) == (tmp_path / "disarm", timedelta(days=7))


def test_arming_takes_two_keys(tmp_path: Path) -> None:
    assert load(tmp_path, ARMED).armed == ("a",)
    one = load(tmp_path, ARMED.replace("  mode: enforce\n", "  mode: dry-run\n"))
    other = load(tmp_path, ARMED.replace(", mode: enforce}", "}"))
    assert (one.armed, other.armed) == ((), ())
    assert any("clusters[0].mode: enforce arms nothing" in warning for warning in one.warnings)
    assert any("policy.mode: enforce arms nothing" in warning for warning in other.warnings)


def test_without_a_policy_every_orphan_is_rehearsed_and_nothing_is_armed(tmp_path: Path) -> None:
    settings = load(tmp_path, SMALLEST)
    assert [rule.name for rule in settings.policy.rules] == ["every-orphan"]
    assert (settings.enforces, settings.armed, settings.ledger_url) == (False, (), None)


@pytest.mark.parametrize(("mode", "who"), [(0o622, "everybody"), (0o620, "its group")])
def test_a_file_that_arms_and_that_others_may_write_is_refused(tmp_path: Path, mode: int, who: str) -> None:
    load(tmp_path, ARMED)
    file = tmp_path / "pgwatchdog.yaml"
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"this file arms and {who} may write it: chmod go-w pgwatchdog.yaml"):
        load_file(file, env={}, check_dsn=check_dsn, check_url=check_url)
    file.write_text(ARMED.replace(", mode: enforce}", "}"))
    assert load_file(file, env={}, check_dsn=check_dsn, check_url=check_url).armed == ()


@pytest.mark.parametrize(
    "name",
    ["PGWATCHDOG_POLICY_MODE", "PGWATCHDOG_MODE", "PGWATCHDOG_CLUSTERS_MODE", "PGWATCHDOG_ENFORCE", "PGWATCHDOG_ARMED"],
)
def test_no_variable_arms(tmp_path: Path, name: str) -> None:
    [problem] = problems(tmp_path, SMALLEST, **{name: "enforce"})
    assert problem == f"environment {name}: cannot be set here; what may be touched is decided in the file alone"


def test_the_ledger_may_come_from_the_environment(tmp_path: Path) -> None:
    settings = load(tmp_path, SMALLEST, PGWATCHDOG_LEDGER_URL="sqlite:////state/ledger.db")
    assert settings.ledger_url == "sqlite:////state/ledger.db"
    [problem] = problems(tmp_path, SMALLEST, PGWATCHDOG_LEDGER_URL="ledger.db")
    assert problem.startswith("environment PGWATCHDOG_LEDGER_URL: is no URL: write sqlite:////")
