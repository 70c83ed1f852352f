"""The schema of the configuration: strict models with a description of every key. Every key is in use.

The descriptions become the JSON Schema that `pgwatchdog schema` prints. The module reads no files.
"""

import re
import shlex
from datetime import timedelta
from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from watchdog.core.judging.budgets import DEFAULT_GRACE, DEFAULT_NEARING, DEFAULT_SKEW
from watchdog.core.judging.jobs import DEFAULT_PATTERN, PatternError, parse_pattern
from watchdog.core.observed.activity import Clock
from watchdog.settings.acting import LedgerSection, Mode, PolicySection
from watchdog.settings.chain import ChainSection
from watchdog.settings.durations import Duration, Grace, OptionalDuration
from watchdog.settings.model import Model
from watchdog.settings.patterns import Name, untied
from watchdog.settings.policy_checks import DEFAULT_INTERVAL
from watchdog.settings.words import ClockWord

HIGHEST_PORT = 65_535
REFUSED_KEYS = {
    "discovery": "is not available yet; list the clusters under `clusters`",
    "privacy": "is gone, there is nothing to choose: query text is never read; leave the section out",
}
"""Top-level keys that this version refuses, each with its reason."""


class Poll(Model):
    """How often clusters are looked at."""

    interval: Duration = Field(default=DEFAULT_INTERVAL, description="time between two looks at a cluster")
    census_interval: Duration = Field(
        default=timedelta(seconds=60), description="time between two readings of roles, rights"
    )
    timeout: Duration = Field(default=timedelta(seconds=3), description="deadline of one round trip to a server")


class Web(Model):
    """The HTTP server."""

    listen: str = Field(default=":10187", description="address and port; an empty address means all")
    lifecycle: bool = Field(default=False, description="allow POST /-/reload; SIGHUP always reloads")

    @field_validator("listen", mode="before")
    @classmethod
    def _is_quoted(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            raise PydanticCustomError("listen", f'write it with a colon and in quotes: ":{value}"')
        return value

    @field_validator("listen")
    @classmethod
    def _has_port(cls, value: str) -> str:
        parse_listen(value)
        return value


class Pooled(Model):
    """Sessions that come through a transaction pooler, so that application_name says nothing about the caller."""

    roles: list[Name] = Field(default_factory=list, description="login roles whose application_name is not read")
    addresses: list[str] = Field(
        default_factory=list, description="addresses or networks of poolers, whose clients' names are not read"
    )

    @field_validator("addresses")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for each in value:
            try:
                ip_network(each)
            except ValueError as error:
                raise PydanticCustomError(
                    "network", f"{each!r} is no address or network: write 10.0.0.7 or 10.0.0.0/24"
                ) from error
        return value


class Cluster(Model):
    """One Postgres server instance."""

    name: str = Field(pattern=r"^[^\x00-\x1f\x7f]{1,63}$", description="its name; the label `server` of every metric")
    dsn: str = Field(min_length=1, description="any libpq form: URL, key=value or service=")
    password_file: str | None = Field(
        default=None, min_length=1, description="file with the password, read at each connect"
    )
    password_command: str | None = Field(
        default=None, description="command that prints the password, run at every connect, ended after 15 s"
    )

    @field_validator("password_command")
    @classmethod
    def _splits(cls, value: str | None) -> str | None:
        try:
            words = None if value is None else shlex.split(value)
        except ValueError as error:
            raise PydanticCustomError("command", f"cannot be split into words: {str(error).lower()}") from error
        if words == []:
            raise PydanticCustomError("command", "is empty: write a command that prints the password")
        return value

    mode: Mode = Field(
        default="dry-run",
        description="dry-run: everything is decided, nothing is signalled; enforce, here and in policy.mode, arms",
    )
    allow_untested: bool = Field(
        default=False, description="act also on a server newer than every version that pgwatchdog was tested with"
    )
    pooled: Pooled = Field(default_factory=Pooled)
    lease_database: str = Field(
        default="postgres", min_length=1, description="where the lock of the one actor lives; connect to this database"
    )


def _spelled_out(value: object) -> object:
    """Expand the short form: `30s` means `{budget: 30s}`."""
    return value if isinstance(value, (dict, BaseModel)) else {"budget": value}


class BudgetOptions(Model):
    """What a budget may say besides its duration."""

    grace: Grace | None = Field(
        default=None, description="added before a run is an orphan; the common one if not given"
    )
    clock: ClockWord | None = Field(default=None, description="statement or run: which start counts")
    detached: bool = Field(default=False, description="callers leave on purpose: a closed socket is no evidence")

    @property
    def measured(self) -> Clock | None:
        """The clock as a member of the core's enumeration."""
        return None if self.clock is None else Clock(self.clock)


class JobBudget(BudgetOptions):
    """The budget of one job; the short form is the duration alone."""

    budget: Duration = Field(description="how long the caller waits")


class RoleBudget(BudgetOptions):
    """The budget of one role; the short form is the duration alone, or `none`."""

    budget: OptionalDuration = Field(description="how long the caller waits; none: it has no budget, and that is meant")
    holding: Duration | None = Field(
        default=None, description="limit for holding transactions; the budget if not given"
    )


class Job(Model):
    """One family of jobs: the pattern of their names, their allowed copies and their budgets."""

    pattern: str = Field(default=DEFAULT_PATTERN, description="a field never holds the separator that follows it")
    roles: list[Name] = Field(default_factory=list, description="for these the job's budget replaces the role's")
    copies: int | None = Field(
        default=None, ge=1, description="copies of one window that are fine; without it only counted"
    )
    retry_gap: Duration | None = Field(default=None, description="a copy this much younger is a retry")
    budgets: dict[Name, Annotated[JobBudget, BeforeValidator(_spelled_out)]] = Field(
        default_factory=dict, description="by job; * for all others"
    )

    @field_validator("budgets")
    @classmethod
    def _say_which_counts(cls, value: dict[str, JobBudget]) -> dict[str, JobBudget]:
        return untied(value)

    @field_validator("pattern")
    @classmethod
    def _parses(cls, value: str) -> str:
        try:
            parse_pattern(value)
        except PatternError as error:
            raise PydanticCustomError("pattern", "{problem}", {"problem": str(error)}) from error
        return value


class Budgets(Model):
    """How long callers wait."""

    grace: Grace = Field(default=DEFAULT_GRACE, description="added to every budget before anything is an orphan")
    nearing: float = Field(
        default=DEFAULT_NEARING, gt=0, lt=1, description="share of the budget from which a run is nearing"
    )
    clock_skew: Grace = Field(
        default=DEFAULT_SKEW, description="how far the clocks of callers that state a deadline may be off"
    )
    half_close: Literal["gone", "spare"] = Field(
        default="gone",
        description="a client elsewhere that has closed its sending half: gone, or spared because it may read",
    )
    default: Duration | None = Field(
        default=None, description="for every role not listed; null: those are only counted"
    )
    roles: dict[Name, Annotated[RoleBudget, BeforeValidator(_spelled_out)]] = Field(
        default_factory=dict, description="by login role; a name counts before a pattern with `*`"
    )
    jobs: list[Job] = Field(default_factory=list, description="what application_name says, the first that fits counts")

    @field_validator("roles")
    @classmethod
    def _say_which_counts(cls, value: dict[str, RoleBudget]) -> dict[str, RoleBudget]:
        return untied(value)


class Labels(Model):
    """What may become a label value; all other values become `other`."""

    roles: list[Name] = Field(
        default_factory=list, description="roles that always have series of their own; a pattern has one for all"
    )
    jobs: list[Name] = Field(
        default_factory=list, description="jobs that always have series of their own; a pattern has one for all"
    )
    databases: list[Name] = Field(
        default_factory=list, description="databases that always have series of their own; a pattern has one for all"
    )
    max_roles: int = Field(default=50, ge=0, le=10_000, description="further roles, the first seen")
    max_jobs: int = Field(default=50, ge=0, le=10_000, description="further jobs, the first seen")
    max_databases: int = Field(default=20, ge=0, le=10_000, description="further databases, the first seen")


class Root(Model):
    """The whole configuration."""

    poll: Poll = Field(default_factory=Poll)
    web: Web = Field(default_factory=Web)
    clusters: list[Cluster] = Field(min_length=1, description="the servers to watch")
    budgets: Budgets = Field(default_factory=Budgets)
    policy: PolicySection = Field(default_factory=PolicySection)
    labels: Labels = Field(default_factory=Labels)
    ledger: LedgerSection = Field(default_factory=LedgerSection)
    chain: ChainSection | None = Field(
        default=None, description="the layers above the database, for `pgwatchdog chain`"
    )


def parse_listen(value: str) -> tuple[str | None, int]:
    """`:10187`, `127.0.0.1:10187` or `[::1]:10187` as host and port; the host is None for all addresses.

    Raises:
        PydanticCustomError: no port, or one out of range.

    """
    match = re.fullmatch(r"(?:\[(?P<six>[0-9a-fA-F:.%a-z]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})", value)
    if match is None or not int(match["port"]) <= HIGHEST_PORT:
        raise PydanticCustomError("listen", f"{value!r} is no address: write :10187, 127.0.0.1:10187 or [::1]:10187")
    return match["six"] or match["host"] or None, int(match["port"])
