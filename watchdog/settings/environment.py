"""Environment variables: they override scalars of the file, or describe the one cluster of a sidecar.

Variables cannot arm and cannot select what may be cancelled. An unknown variable with the prefix `PGWATCHDOG_` is an
error, because a mistyped name would otherwise be ignored silently.
"""

import difflib
import re
import typing
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from watchdog.settings import schema
from watchdog.settings.document import Place, Value, read_scalar

PREFIX = "PGWATCHDOG_"
FLAGS = ("PGWATCHDOG_CONFIG_FILE", "PGWATCHDOG_LOG_LEVEL", "PGWATCHDOG_LOG_FORMAT")
"""Variables that set options of the command line."""

SECTIONS = ("poll", "web", "budgets", "labels", "ledger")

_KUBERNETES_SERVICE = re.compile(r"PGWATCHDOG_(?:\w+_)?SERVICE_(?:HOST|PORT(?:_\w+)?)")
_KUBERNETES_PORT = re.compile(r"PGWATCHDOG_(?:\w+_)?PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?")


class OneCluster(BaseSettings):
    """The whole configuration of a sidecar: one cluster and the budget of its callers."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, case_sensitive=True)

    NAME: str = "postgres"
    DSN: str | None = None
    DSN_FILE: Path | None = None
    PASSWORD_FILE: str | None = None
    BUDGET: str | None = None

    @classmethod
    def settings_customise_sources(  # the signature of pydantic-settings
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the values that are passed in, because the caller chooses the environment."""
        return (init_settings,)


def one_cluster(env: Mapping[str, str]) -> OneCluster:
    """Read the variables of a sidecar from `env`."""
    source = EnvSettingsSource(OneCluster)
    source.env_vars = {name: env[name] for name in env if name.startswith(PREFIX)}
    return OneCluster(**source())


def scalar_names() -> dict[str, Place]:
    """Every variable that overrides a scalar of the file, with the place of the scalar."""
    names: dict[str, Place] = {}
    for section in SECTIONS:
        model = schema.Root.model_fields[section].annotation
        for key, field in _fields(model):
            if not _is_collection(field):
                names[f"{PREFIX}{section.upper()}_{key.upper()}"] = (section, key)
    return names


def read_scalars(env: Mapping[str, str]) -> tuple[dict[Place, Value], dict[Place, str], list[str]]:
    """The values by place, the variable of each place, and the problems of all variables with our prefix."""
    names = scalar_names()
    values: dict[Place, Value] = {}
    sources: dict[Place, str] = {}
    problems: list[str] = []
    for name in sorted(each for each in env if each.startswith(PREFIX)):
        if name in names:
            sources[names[name]] = name
            try:
                values[names[name]] = read_scalar(env[name])
            except ValueError as error:
                problems.append(f"environment {name}: {error}")
        elif not _is_known(name, env[name]):
            problems.append(_unknown(name, [*names, *_own_names()]))
    return values, sources, problems


def _fields(model: object) -> list[tuple[str, object]]:
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"{model!r} is not a section")
    return [(name, field.annotation) for name, field in model.model_fields.items()]


def _is_collection(annotation: object) -> bool:
    return typing.get_origin(annotation) in (list, dict)


def _own_names() -> list[str]:
    return [*(PREFIX + name for name in OneCluster.model_fields), *FLAGS]


def _is_known(name: str, value: str) -> bool:
    if name in _own_names() or _KUBERNETES_SERVICE.fullmatch(name):
        return True
    return bool(_KUBERNETES_PORT.fullmatch(name)) and (
        value.startswith(("tcp://", "udp://", "sctp://")) or "_PORT_" in name
    )


def _unknown(name: str, known: list[str]) -> str:
    if re.match(rf"{PREFIX}(POLICY|CLUSTERS?|PROTECT|MODE|ENFORCE|ARM)", name):
        return f"environment {name}: cannot be set here; what may be touched is decided in the file alone"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))}"
    return f"environment {name}: unknown variable{hint}"
