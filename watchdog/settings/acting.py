"""The sections about acting: policy with its limits and protections, and the ledger.

Only the configuration file can arm. At run time pgwatchdog can be disarmed, but nothing outside the file can arm it.
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from watchdog.core.acting.limits import Limits
from watchdog.settings.durations import Duration, Grace
from watchdog.settings.model import Model
from watchdog.settings.patterns import Application, Name, Names, SparedApplication
from watchdog.settings.words import ActionWord, EvidenceWord, FindingWord

Mode = Literal["dry-run", "enforce"]

_LIMITS = Limits()


class Selection(Model):
    """Names that select runs; `*` selects all. A run without a usable job key has no job."""

    roles: Names = Field(default_factory=list, description="login roles, `*` and `?` as wildcards")
    databases: Names = Field(default_factory=list, description="databases")
    jobs: Names = Field(default_factory=list, description="jobs, without their windows")


class Ignored(Selection):
    """What a rule leaves alone."""

    applications: Annotated[list[SparedApplication], Field(min_length=1)] = Field(
        default_factory=list, description="application names; one that the server cut matches by its beginning"
    )


class Rule(Selection):
    """One rule; every condition that is given must hold. The first rule that speaks about a finding decides."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$", description="its name; a label of metrics")
    finding: FindingWord = Field(description="what it is about")
    evidence: Annotated[list[EvidenceWord], Field(min_length=1)] = Field(
        default_factory=list, description="any of these; required for cancel"
    )
    applications: Annotated[list[Application], Field(min_length=1)] = Field(
        default_factory=list, description="whole application names"
    )
    ignore: Ignored = Field(default_factory=Ignored, description="one hit here, and the rule does not speak")
    after: Grace = Field(default=timedelta(0), description="patience from the moment it became what the rule is about")
    keep: Literal["newest"] | None = Field(
        default=None, description="duplicates: which copy stays; the evidence is about the older ones"
    )
    writers: Literal["protect", "allow"] = Field(
        default="protect", description="allow: a transaction that has written is rolled back whole"
    )
    action: ActionWord = Field(default="observe", description="cancel, or only count")


class PolicyLimits(Model):
    """Bounds on acts, for each cluster."""

    per_minute: int = Field(
        default=_LIMITS.per_minute, ge=1, le=600, description="acts of each rule; a new actor begins with none"
    )
    share: float = Field(
        default=_LIMITS.share, gt=0, le=1, description="share of the running backends at once, at least one"
    )
    pause: Grace = Field(default=_LIMITS.pause, description="after each act")
    tries: int = Field(
        default=_LIMITS.tries, ge=1, le=10, description="for one run, with growing pauses; then it is ineffective"
    )
    stop_after_failures: int = Field(
        default=_LIMITS.stop_after_failures,
        ge=1,
        description="ineffective runs of a role in a row that stop the rule for the role",
    )
    stop_for: Duration = Field(default=_LIMITS.stop_for, description="for how long, also after a refused act")
    rest: Duration = Field(
        default=_LIMITS.rest, description="how long a key rests whose work came back at once after its cancel"
    )


class PolicyProtect(Model):
    """Sessions that are never acted on. Provider roles and waits for replication or the client are always protected."""

    superusers: bool = Field(default=True, description="sessions of superusers")
    maintenance: bool = Field(default=True, description="VACUUM, ANALYZE, CREATE, ALTER, REINDEX and their like")
    backups: bool = Field(default=True, description="backups and dumps, by their application name")
    talking: bool = Field(default=True, description="keyed runs whose statements keep coming")
    roles: list[Name] = Field(default_factory=list, description="further login roles")
    applications: list[SparedApplication] = Field(
        default_factory=list, description="further application names; one that the server cut matches by its beginning"
    )


class PolicySection(Model):
    """What may be done about findings. At run time pgwatchdog can be disarmed; only this file can arm it."""

    mode: Mode = Field(default="dry-run", description="one of the two keys; the other is the cluster's mode")
    disarm_file: str | None = Field(
        default=None, min_length=1, description="while this file exists nothing is signalled"
    )
    rules: Annotated[list[Rule], Field(min_length=1)] | None = Field(
        default=None, description="in this order; without any, every orphan is rehearsed"
    )
    limits: PolicyLimits = Field(default_factory=PolicyLimits)
    protect: PolicyProtect = Field(default_factory=PolicyProtect)


class LedgerSection(Model):
    """Where acts are on record. Without a ledger nothing is ever signalled."""

    url: str | None = Field(
        default=None, min_length=1, description="sqlite:////absolute/path.db or postgresql://…; null: dry run only"
    )
    keep: Duration = Field(default=timedelta(days=30), description="how long acts are kept")
