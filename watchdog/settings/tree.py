"""The frozen settings tree, with core values inside: what the composition root takes apart."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from watchdog.core.budgets import DEFAULT_JOBS, SHORTEST_INTERVAL, BudgetBook
from watchdog.core.jobs import Allowance, JobRule, parse_pattern
from watchdog.core.protected import PROVIDER_ROLES
from watchdog.settings import schema
from watchdog.settings.durations import format_duration


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster to watch. Paths are absolute or relative to the working directory, not to the file."""

    name: str
    dsn: str
    password_file: Path | None
    password_command: tuple[str, ...] | None
    pooled_roles: frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """The label values that always have series of their own, and how many further ones may."""

    roles: frozenset[str]
    jobs: frozenset[str]
    databases: frozenset[str]
    max_roles: int
    max_jobs: int
    max_databases: int


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration that has been checked. `warnings` are sentences for people, each with its place."""

    source: str
    interval: timedelta
    census_interval: timedelta
    timeout: timedelta
    listen: tuple[str | None, int]
    lifecycle: bool
    clusters: tuple[ClusterSettings, ...]
    book: BudgetBook
    labels: LabelSettings
    warnings: tuple[str, ...]


def build(root: schema.Root, *, base: Path, source: str) -> Settings:
    """Make the tree; relative paths in the file are relative to `base`."""
    book = _book(root.budgets)
    return Settings(
        source=source,
        interval=root.poll.interval,
        census_interval=root.poll.census_interval,
        timeout=root.poll.timeout,
        listen=schema.parse_listen(root.web.listen),
        lifecycle=root.web.lifecycle,
        clusters=tuple(_cluster(each, base=base) for each in root.clusters),
        book=book,
        labels=_labels(root.labels, book=book),
        warnings=(*_cluster_warnings(root.clusters, base=base), *_warnings(book)),
    )


def _cluster_warnings(clusters: Sequence[schema.Cluster], *, base: Path) -> list[str]:
    found = []
    for i, cluster in enumerate(clusters):
        twin = next((j for j in range(i) if clusters[j].dsn == cluster.dsn), None)
        if twin is not None:
            found.append(f"clusters[{i}].dsn: the same as clusters[{twin}]: every finding will be counted twice")
        if cluster.password_file is not None and not (base / cluster.password_file).exists():
            found.append(f"clusters[{i}].password_file: {base / cluster.password_file} is not there now")
    return found


def _cluster(cluster: schema.Cluster, *, base: Path) -> ClusterSettings:
    return ClusterSettings(
        name=cluster.name,
        dsn=cluster.dsn,
        password_file=None if cluster.password_file is None else base / cluster.password_file,
        password_command=None if cluster.password_command is None else tuple(shlex.split(cluster.password_command)),
        pooled_roles=frozenset(cluster.pooled.roles),
    )


def _book(budgets: schema.Budgets) -> BudgetBook:
    return BudgetBook(
        grace=budgets.grace,
        nearing=budgets.nearing,
        default=budgets.default,
        roles={
            name: Allowance(role.budget, role.grace, role.holding, role.measured)
            for name, role in budgets.roles.items()
        },
        jobs=tuple(_rule(job) for job in budgets.jobs) or DEFAULT_JOBS,
        provider_roles=PROVIDER_ROLES,
    )


def _rule(job: schema.Job) -> JobRule:
    budgets: Mapping[str, schema.JobBudget] = job.budgets
    return JobRule(
        pattern=parse_pattern(job.pattern),
        roles=frozenset(job.roles),
        copies=job.copies,
        retry_gap=job.retry_gap,
        budgets={name: Allowance(each.budget, each.grace, clock=each.measured) for name, each in budgets.items()},
    )


def _labels(labels: schema.Labels, *, book: BudgetBook) -> LabelSettings:
    """Whatever has a budget of its own has series of its own."""
    named = {name for rule in book.jobs for name in rule.budgets if name != "*"}
    return LabelSettings(
        roles=frozenset(labels.roles) | frozenset(book.roles),
        jobs=frozenset(labels.jobs) | named,
        databases=frozenset(labels.databases),
        max_roles=labels.max_roles,
        max_jobs=labels.max_jobs,
        max_databases=labels.max_databases,
    )


def _warnings(book: BudgetBook) -> list[str]:
    found = []
    if book.empty:
        found.append("budgets: there is none, so nothing can be called an orphan; set budgets.default or budgets.roles")
    for source, crossing in book.crossings().items():
        if crossing < SHORTEST_INTERVAL:
            found.append(
                f"budgets: {source} is {format_duration(crossing)} with its grace, shorter than the shortest look "
                "(1 s); let the server end such work: ALTER ROLE … SET statement_timeout"
            )
    return found
