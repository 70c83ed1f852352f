"""The frozen settings tree, which holds values of the core, and its construction from the validated schema.

Only the package `cli` reads the tree.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

from watchdog.core.acting.limits import Limits
from watchdog.core.acting.policy import Policy
from watchdog.core.acting.protected_names import PROVIDER_ROLES
from watchdog.core.acting.protections import Protect
from watchdog.core.acting.rules import Action, Names, Rule
from watchdog.core.chain.chain import Chain
from watchdog.core.judging.budgets import DEFAULT_JOBS, MIN_INTERVAL, BudgetBook
from watchdog.core.judging.cases import Network
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.judging.jobs import BudgetSpec, JobRule, parse_pattern
from watchdog.core.observed.names import is_glob
from watchdog.settings import acting, schema
from watchdog.settings.chain import chain_of
from watchdog.settings.durations import format_duration
from watchdog.settings.quoting import looks_like_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster to watch. Paths are absolute or relative to the working directory, not to the file."""

    name: str
    dsn: str
    password_file: Path | None
    password_command: tuple[str, ...] | None
    pooled_roles: frozenset[str]
    pooled_networks: tuple[Network, ...] = ()
    enforces: bool = False
    allow_untested: bool = False
    lease_database: str = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings:
    """The label values that always have series of their own, and how many further values may have them."""

    roles: frozenset[str]
    jobs: frozenset[str]
    databases: frozenset[str]
    max_roles: int
    max_jobs: int
    max_databases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A valid configuration. `warnings` are sentences for people, each with its place."""

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
    policy: Policy = field(default_factory=Policy)
    enforces: bool = False
    disarm_file: Path | None = None
    ledger_url: str | None = None
    ledger_keep: timedelta = timedelta(days=30)
    chain: Chain | None = None

    @property
    def armed(self) -> tuple[str, ...]:
        """The names of the clusters that are armed: `policy.mode` and the cluster's mode are both enforce."""
        return tuple(each.name for each in self.clusters if self.enforces and each.enforces)


def build(root: schema.Root, *, base: Path, source: str) -> Settings:
    """Build the tree. Paths in the file are relative to `base`."""
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
        warnings=(*_cluster_warnings(root.clusters, base=base), *_warnings(book), *_key_warnings(root)),
        policy=policy_of(root.policy),
        enforces=root.policy.mode == "enforce",
        disarm_file=None if root.policy.disarm_file is None else base / root.policy.disarm_file,
        ledger_url=root.ledger.url,
        ledger_keep=root.ledger.keep,
        chain=None if root.chain is None else chain_of(root.chain),
    )


def _cluster_warnings(clusters: Sequence[schema.Cluster], *, base: Path) -> list[str]:
    found = []
    for i, cluster in enumerate(clusters):
        twin = next((j for j in range(i) if clusters[j].dsn == cluster.dsn), None)
        if twin is not None:
            found.append(f"clusters[{i}].dsn: the same as clusters[{twin}]: every finding will be counted twice")
        if cluster.password_file is not None and not (base / cluster.password_file).exists():
            shown = base / cluster.password_file if looks_like_path(cluster.password_file) else "the file"
            found.append(f"clusters[{i}].password_file: {shown} is not there now")
    return found


def _cluster(cluster: schema.Cluster, *, base: Path) -> ClusterSettings:
    return ClusterSettings(
        name=cluster.name,
        dsn=cluster.dsn,
        password_file=None if cluster.password_file is None else base / cluster.password_file,
        password_command=None if cluster.password_command is None else tuple(shlex.split(cluster.password_command)),
        pooled_roles=frozenset(cluster.pooled.roles),
        pooled_networks=tuple(ip_network(each) for each in cluster.pooled.addresses),
        enforces=cluster.mode == "enforce",
        allow_untested=cluster.allow_untested,
        lease_database=cluster.lease_database,
    )


def _key_warnings(root: schema.Root) -> list[str]:
    """Warnings if only one of the two keys says enforce, because arming needs both."""
    enforcing = [f"clusters[{i}].mode" for i, each in enumerate(root.clusters) if each.mode == "enforce"]
    if root.policy.mode == "enforce" and not enforcing:
        return ["policy.mode: enforce arms nothing as long as no cluster says mode: enforce as well"]
    if root.policy.mode != "enforce":
        return [f"{place}: enforce arms nothing as long as policy.mode does not say it as well" for place in enforcing]
    return []


def policy_of(section: acting.PolicySection) -> Policy:
    """The section `policy` as the core's `Policy`."""
    limits, protect = section.limits, section.protect
    return Policy(
        rules=tuple(_policy_rule(each) for each in section.rules) if section.rules is not None else Policy().rules,
        limits=Limits(
            per_minute=limits.per_minute,
            share=limits.share,
            pause=limits.pause,
            tries=limits.tries,
            stop_after_failures=limits.stop_after_failures,
            stop_for=limits.stop_for,
            rest=limits.rest,
        ),
        protect=Protect(
            superusers=protect.superusers,
            maintenance=protect.maintenance,
            backups=protect.backups,
            talking=protect.talking,
            roles=tuple(protect.roles),
            applications=tuple(protect.applications),
        ),
    )


def _policy_rule(rule: acting.Rule) -> Rule:
    return Rule(
        name=rule.name,
        kind=Kind(rule.finding),
        evidence=frozenset(map(Evidence, rule.evidence)),
        action=Action(rule.action),
        only=_names(rule),
        ignore=_names(rule.ignore),
        after=rule.after,
        writers=rule.writers == "allow",
    )


def _names(names: acting.Rule | acting.Ignored) -> Names:
    return Names(tuple(names.roles), tuple(names.databases), tuple(names.jobs), tuple(names.applications))


def _book(budgets: schema.Budgets) -> BudgetBook:
    return BudgetBook(
        grace=budgets.grace,
        nearing=budgets.nearing,
        clock_skew=budgets.clock_skew,
        default=budgets.default,
        roles={
            name: BudgetSpec(
                limit=role.budget, grace=role.grace, holding=role.holding, clock=role.measured, detached=role.detached
            )
            for name, role in budgets.roles.items()
            if role.budget is not None
        },
        jobs=tuple(_rule(job) for job in budgets.jobs) or DEFAULT_JOBS,
        provider_roles=PROVIDER_ROLES,
        spares_half_closed=budgets.half_close == "spare",
        exempt=frozenset(name for name, role in budgets.roles.items() if role.budget is None),
        exempt_and_detached=frozenset(
            name for name, role in budgets.roles.items() if role.budget is None and role.detached
        ),
    )


def _rule(job: schema.Job) -> JobRule:
    budgets: Mapping[str, schema.JobBudget] = job.budgets
    return JobRule(
        pattern=parse_pattern(job.pattern),
        roles=frozenset(job.roles),
        copies=job.copies,
        retry_gap=job.retry_gap,
        budgets={
            name: BudgetSpec(limit=each.budget, grace=each.grace, clock=each.measured, detached=each.detached)
            for name, each in budgets.items()
        },
    )


def _labels(labels: schema.Labels, *, book: BudgetBook) -> LabelSettings:
    """The settings of labels. Roles and jobs with a budget under their own name always have series of their own."""
    jobs = {name for rule in book.jobs for name in rule.budgets if not is_glob(name)}
    return LabelSettings(
        roles=frozenset(labels.roles) | {name for name in book.roles if not is_glob(name)},
        jobs=frozenset(labels.jobs) | jobs,
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
        if crossing < MIN_INTERVAL:
            found.append(
                f"budgets: {source} is {format_duration(crossing)} with its grace, shorter than the shortest look "
                "(1 s); let the server end such work: ALTER ROLE … SET statement_timeout"
            )
    return found
