"""Loads a file, or the environment alone, into `Settings`, or raises one error that lists every problem."""

import difflib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from watchdog.errors import ConfigurationError
from watchdog.settings import durations, environment, schema
from watchdog.settings.document import Document, Place, Value, dotted, is_trapped, read_document
from watchdog.settings.durations import format_duration, parse_duration
from watchdog.settings.policy_checks import CheckUrl, check_file, check_policy, check_variables
from watchdog.settings.quoting import looks_like_path, quoted
from watchdog.settings.tree import Settings, build

CheckDsn = Callable[[str], str | None]
"""Returns the problem of a connection string, or None. The package that owns the driver provides it."""


class Checks(typing.NamedTuple):
    """The checks of values that only other packages understand: connection strings and ledger URLs."""

    dsn: CheckDsn
    url: CheckUrl


def load_file(path: Path, *, env: Mapping[str, str], check_dsn: CheckDsn, check_url: CheckUrl) -> Settings:
    """Load the file at `path`. Variables in `env` override its scalars.

    Raises:
        ConfigurationError: it lists every problem of the file and the environment.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError([f"{path}: cannot be read: {reason}"]) from error
    document = read_document(path, text=text)
    if document.problems and not document.values:
        raise ConfigurationError([f"{_where(document, {}, place)}: {text}" for place, text in document.problems])
    problems: list[str] = []
    sidecar = environment.one_cluster(env)
    for name, value in sidecar.model_dump(exclude_defaults=True).items():
        if value is not None:
            what = "describes the one cluster of a run without a file; with a file it would be ignored"
            problems.append(f"environment {environment.PREFIX}{name}: {what}")
    checks = Checks(check_dsn, check_url)
    return _validated(document, env=env, base=path.parent, checks=checks, problems=problems, path=path)


def load_environment(env: Mapping[str, str], *, check_dsn: CheckDsn, check_url: CheckUrl) -> Settings:
    """Load one cluster from `PGWATCHDOG_DSN` (or `_DSN_FILE`), `_PASSWORD_FILE`, `_BUDGET` and `_NAME`.

    Raises:
        ConfigurationError: there is no DSN, or any other problem.

    """
    sidecar = environment.one_cluster(env)
    problems = environment.read_scalars(env)[2]
    dsn = sidecar.DSN
    if sidecar.DSN is not None and sidecar.DSN_FILE is not None:
        problems.append("environment PGWATCHDOG_DSN_FILE: give PGWATCHDOG_DSN or PGWATCHDOG_DSN_FILE, not both")
    elif sidecar.DSN_FILE is not None:
        try:
            dsn = sidecar.DSN_FILE.read_text(encoding="utf-8").strip()
            if not dsn:
                problems.append(f"environment PGWATCHDOG_DSN_FILE: {sidecar.DSN_FILE} is empty")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            what = str(sidecar.DSN_FILE) if looks_like_path(str(sidecar.DSN_FILE)) else "what it names"
            problems.append(f"environment PGWATCHDOG_DSN_FILE: {what} cannot be read: {reason}")
    if not dsn and not problems:
        problems.append("nothing to watch: give a file with -c FILE, or set PGWATCHDOG_DSN for one cluster")
    cluster: dict[str, Value] = {"name": sidecar.NAME, "dsn": dsn or "-"}
    if sidecar.PASSWORD_FILE is not None:
        cluster["password_file"] = sidecar.PASSWORD_FILE
    document = Document("environment", values={"clusters": [cluster]})
    if sidecar.BUDGET is not None:
        try:
            parse_duration(sidecar.BUDGET)
            document.values["budgets"] = {"default": sidecar.BUDGET}
        except ValueError as error:
            problems.append(f"environment PGWATCHDOG_BUDGET: {error}")
    if problems:
        raise ConfigurationError(problems)
    return _validated(document, env=env, base=Path(), checks=Checks(check_dsn, check_url), problems=problems)


def check_unused(env: Mapping[str, str]) -> None:
    """Refuse our variables beside connection strings on the command line, because they would have no effect.

    Raises:
        ConfigurationError: such variables are set; it names each of them.

    """
    scalars, sources, problems = environment.read_scalars(env)
    described = environment.one_cluster(env).model_dump(exclude_defaults=True)
    names = [*(environment.PREFIX + name for name in described), *(sources[place] for place in scalars)]
    problems += [f"environment {name}: has no effect beside connection strings; use --budget" for name in names]
    if problems:
        raise ConfigurationError(problems)


def json_schema() -> dict[str, object]:
    """The JSON Schema of a configuration file."""
    document = schema.Root.model_json_schema()
    _spell_defaults(document)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pgwatchdog", **document}


def _spell_defaults(node: object) -> None:
    """Write the defaults of durations with units, because pydantic writes ISO 8601, which the file does not accept."""
    if isinstance(node, dict):
        default = node.get("default")
        if isinstance(default, str) and node.get("pattern") == durations.PATTERN:
            node["default"] = format_duration(TypeAdapter(timedelta).validate_python(default))
        node = list(node.values())
    for each in node if isinstance(node, list) else ():
        _spell_defaults(each)


def _validated(
    document: Document,
    *,
    env: Mapping[str, str],
    base: Path,
    checks: Checks,
    problems: list[str],
    path: Path | None = None,
) -> Settings:
    scalars, sources, unknown = environment.read_scalars(env)
    problems += unknown
    refused = [] if path is None else list(check_variables(document, scalars))
    for (section, key), value in scalars.items():
        inner = document.values.setdefault(str(section), {})
        if isinstance(inner, dict):
            inner[str(key)] = value
    found = [*document.problems, *_semantic(document, checks.dsn), *check_policy(document, check_url=checks.url)]
    if path is not None:
        found += [*refused, *check_file(document, path)]
    try:
        root = schema.Root.model_validate(document.values)
    except ValidationError as error:
        for each in error.errors():
            if not is_trapped(each["input"]):
                place = _place(each["loc"])
                found.append((place, _sentence(each, place)))
    else:
        if not problems and not found:
            return build(root, base=base, source=document.name)
    found.sort(key=lambda problem: document.line(problem[0]))
    raise ConfigurationError([*(f"{_where(document, sources, place)}: {text}" for place, text in found), *problems])


def _where(document: Document, sources: Mapping[Place, str], place: Place) -> str:
    if place in sources:
        return f"environment {sources[place]}"
    if place[-1:] == ("again",):
        return document.where(place).removesuffix(".again")
    if place[-1:] == ("budget",) and not isinstance(document.value(place[:-1]), dict):
        return document.where(place[:-1])  # the short form `role: 30s` has no key `budget` in the file
    return document.where(place)


def _place(loc: Sequence[str | int]) -> Place:
    """The path in the file: the location without the part `[key]`, which pydantic adds for a key of a mapping."""
    return tuple(part for part in loc if part != "[key]")


_PLAIN = {
    "missing": "is missing",
    "too_short": "is an empty list, which could mean all or none: leave the key out, or name somebody",
    "string_too_short": "is empty",
}


def _sentence(error: Mapping[str, typing.Any], place: Place) -> str:  # pydantic types its errors as Any
    value, message = error["input"], _PLAIN.get(error["type"], str(error["msg"]))
    match error["type"]:
        case "extra_forbidden":
            message = _unknown_key(str(place[-1]), _keys_at(place[:-1]))
        case "string_type" if value is not None and not isinstance(value, (dict, list)):
            shown = quoted(value, place).lower() if isinstance(value, (bool, int, float)) else "this"
            message = f"{shown} is not a word: put it in quotes if it is meant"
        case "too_short" if place == ("clusters",):
            message = "is empty: name at least one cluster"
        case "string_pattern_mismatch" if place[-1:] == ("name",):
            how = "write at most 63 characters; for rules letters, digits and _ . : -"
            message = f"{quoted(value, place)} is no name: {how}"
        case "model_type" | "dict_type":
            message = f"must be a mapping of keys to values, not {quoted(value, place)}"
        case "list_type":
            message = f"must be a list of entries, not {quoted(value, place)}"
        case "literal_error":
            message = f"{quoted(value, place)} is not known here: write {error['ctx']['expected']}"
    return message.replace("Input should", "should", 1) if message.startswith("Input should") else message


def _unknown_key(key: str, known: Sequence[str]) -> str:
    if key in schema.REFUSED_KEYS:
        return schema.REFUSED_KEYS[key]
    near = difflib.get_close_matches(key, known, n=1)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; known here are {', '.join(known)}"


def _keys_at(place: Place) -> list[str]:
    """The keys that the schema allows at a place."""
    annotation: object = schema.Root
    for part in place:
        annotation = _inner(annotation, part)
    model = _model(annotation)
    return [] if model is None else list(model.model_fields)


def _inner(annotation: object, part: str | int) -> object:
    model = _model(annotation)
    if model is not None and isinstance(part, str) and part in model.model_fields:
        return model.model_fields[part].annotation
    annotation = _plain(annotation)
    arguments = typing.get_args(annotation)
    return arguments[-1] if typing.get_origin(annotation) in (list, dict) else annotation


def _plain(annotation: object) -> object:
    """The type without `| None` and `Annotated`."""
    if typing.get_origin(annotation) is types.UnionType or typing.get_origin(annotation) is typing.Union:
        annotation = next(each for each in typing.get_args(annotation) if each is not type(None))
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _model(annotation: object) -> type[BaseModel] | None:
    annotation = _plain(annotation)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _semantic(document: Document, check_dsn: CheckDsn) -> list[tuple[Place, str]]:
    """Problems that the schema cannot check: equal names, unusable connection strings, two sources of one password."""
    found: list[tuple[Place, str]] = []
    names: dict[object, Place] = {}
    clusters = document.values.get("clusters")
    for i, cluster in enumerate(clusters if isinstance(clusters, list) else []):
        if not isinstance(cluster, dict):
            continue
        place: Place = ("clusters", i)
        name, dsn = cluster.get("name"), cluster.get("dsn")
        if name in names:
            found.append(((*place, "name"), f"{name!r} is already the name of {dotted(names[name])}"))
        elif isinstance(name, str):
            names[name] = place
        if isinstance(dsn, str) and (problem := check_dsn(dsn)) is not None:
            found.append(((*place, "dsn"), problem))
        if cluster.get("password_file") is not None and cluster.get("password_command") is not None:
            found.append(((*place, "password_command"), "give password_file or password_command, not both"))
    return found
