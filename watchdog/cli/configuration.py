"""The settings of a command: from a file, from the environment, or from connection strings on the command line.

It imports nothing that opens a connection, so that a command which only reads the configuration starts sooner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from watchdog.core.acting.protected_names import PROVIDER_ROLES
from watchdog.core.judging.budgets import DEFAULT_GRACE, BudgetBook
from watchdog.errors import UsageError
from watchdog.postgres.dsn import check_dsn, target_of
from watchdog.settings import load, schema
from watchdog.settings.tree import ClusterSettings, LabelSettings, Settings

COMMAND_LINE = "command line"
"""The source of settings that come from no configuration. Reports with these settings do not mention arming."""


def load_settings(config: Path | None, *, env: Mapping[str, str]) -> Settings:
    """Load the settings of a file, or of the environment alone.

    Raises:
        ConfigurationError: the configuration is not valid; it lists every problem with its place.

    """
    if config is None:
        return load.load_environment(env, check_dsn=check_dsn, check_url=_check_url)
    return load.load_file(config, env=env, check_dsn=check_dsn, check_url=_check_url)


def _check_url(url: str) -> str | None:
    from watchdog.ledger.url import check_url  # noqa: PLC0415  # without a ledger half a second would be wasted

    return check_url(url)


def unwritable_ledger(url: str) -> str | None:
    """Why the file of a ledger cannot be written by this user, or None."""
    from watchdog.ledger.url import unwritable  # noqa: PLC0415  # as above

    return unwritable(url)


def shown_url(url: str) -> str:
    """A ledger's URL with its password hidden."""
    from watchdog.ledger.url import shown  # noqa: PLC0415  # as above

    return shown(url)


def settings_for(
    dsns: Iterable[str], *, env: Mapping[str, str], budget: timedelta | None, grace: timedelta | None
) -> Settings:
    """Settings for connection strings from the command line: defaults, and one budget for every role.

    Raises:
        UsageError: one of the strings is no connection string.

    """
    load.check_unused(env)
    clusters: list[ClusterSettings] = []
    for dsn in dsns:
        problem = check_dsn(dsn)
        if problem is not None:
            raise UsageError(problem)
        clusters.append(
            ClusterSettings(
                name=_fresh_name(dsn, clusters),
                dsn=dsn,
                password_file=None,
                password_command=None,
                pooled_roles=frozenset(),
            )
        )
    book = BudgetBook(default=budget, provider_roles=PROVIDER_ROLES, grace=DEFAULT_GRACE if grace is None else grace)
    poll = schema.Poll()
    labels = schema.Labels()
    return Settings(
        source=COMMAND_LINE,
        interval=poll.interval,
        census_interval=poll.census_interval,
        timeout=poll.timeout,
        listen=schema.parse_listen(schema.Web().listen),
        lifecycle=False,
        clusters=tuple(clusters),
        book=book,
        labels=LabelSettings(
            roles=frozenset(),
            jobs=frozenset(),
            databases=frozenset(),
            max_roles=labels.max_roles,
            max_jobs=labels.max_jobs,
            max_databases=labels.max_databases,
        ),
        warnings=(),
    )


def _fresh_name(dsn: str, taken: Iterable[ClusterSettings]) -> str:
    name = target_of(dsn)
    names = {each.name for each in taken}
    return next(each for each in (name, *(f"{name} #{i}" for i in range(2, 10_000))) if each not in names)


def with_listen(settings: Settings, listen: str | None) -> Settings:
    """The settings with `listen` as the address to listen on, unless that is None.

    Raises:
        UsageError: `listen` is no address.

    """
    if listen is None:
        return settings
    try:
        return replace(settings, listen=schema.parse_listen(listen))
    except ValueError as error:
        raise UsageError(f"--web.listen-address: {error}") from error
