"""Parses connection strings in any form that libpq accepts: reads service files and lists the hosts to try.

It owns the meaning of a connection string. It opens no connection.
"""

import configparser
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError

Parameters = dict[str, str]
DEFAULT_PORT = 5432
HIGHEST_PORT = 65_535
SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

_HOW = "write host=… user=… dbname=… or postgresql://…"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One host of a connection string. `host` is None for libpq's default, and where only an address is given."""

    host: str | None
    hostaddr: str | None
    port: str | None

    @property
    def needs_lookup(self) -> bool:
        """True if the host is a name. False for an address, a socket directory, and where `hostaddr` is given."""
        if self.host is None or self.hostaddr is not None or self.host.startswith(("/", "@")):
            return False
        return not _is_address(self.host)


def check_dsn(dsn: str) -> str | None:
    """What is wrong with a connection string, as a sentence without the password. None if it can be used."""
    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return _complaint(dsn)
    if not parameters:
        return f"the connection string is empty: {_HOW}"
    return next((problem for check in _CHECKS if (problem := check(parameters)) is not None), None)


def parameters_of(dsn: str, *, env: Mapping[str, str]) -> Parameters:
    """The parameters of the connection string and of the service that it names.

    The values of the string take precedence over those of the service file.

    Raises:
        ReadError: the string cannot be read, or the service is not in any file.

    """
    try:
        own = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError as error:
        raise ReadError(Reason.CONFIGURATION, _complaint(dsn)) from error
    service = own.pop("service", None) or (env.get("PGSERVICE") if dsn else None)
    return own if service is None else {**_service(service, env=env), **own}


def variables_of(dsn: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the libpq environment variables that are set and that the string does not override."""
    try:
        own = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        own = {}
    options = [(option.envvar, option.keyword.decode()) for option in pq.Conninfo.get_defaults()]
    names = {variable.decode() for variable, keyword in options if variable and keyword not in own}
    return tuple(sorted(name for name in names if env.get(name)))


def endpoints_of(parameters: Mapping[str, str], *, env: Mapping[str, str]) -> list[Endpoint]:
    """The hosts to try, in order."""
    hosts = _split(parameters.get("host", env.get("PGHOST", "")))
    addresses = _split(parameters.get("hostaddr", env.get("PGHOSTADDR", "")))
    ports = _split(parameters.get("port", env.get("PGPORT", "")))
    count = max(len(hosts), len(addresses), 1)
    if len(ports) == 1:
        ports *= count
    return [Endpoint(*(part[i] if i < len(part) else None for part in (hosts, addresses, ports))) for i in range(count)]


def target_of(dsn: str) -> str:
    """The server that a connection string points to, for display: host, port and database, never a password."""
    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "?"
    if "service" in parameters and "host" not in parameters:
        return f"service={parameters['service']}"
    host = str(parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOST") or "local socket")
    host = f"[{host}]" if ":" in host else host
    port = f":{parameters['port']}" if "port" in parameters else ""
    database = f"/{parameters['dbname']}" if "dbname" in parameters else ""
    return f"{host}{port}{database}"


def _split(value: str) -> list[str | None]:
    return [part.strip() or None for part in value.split(",")] if value else []


def _is_address(host: str) -> bool:
    return ":" in host or all(part.isdigit() for part in host.split("."))


def _check_host(parameters: Mapping[str, object]) -> str | None:
    host = str(parameters.get("host") or "")
    stray = "@" in host[1:]
    return "the host has an @ in it: inside the password of a URL, write @ as %40" if stray else None


def _check_ports(parameters: Mapping[str, object]) -> str | None:
    for port in str(parameters.get("port") or DEFAULT_PORT).split(","):
        if port and not (port.isdigit() and 0 < int(port) <= HIGHEST_PORT):
            return f"port {port!r} is no port: write a number from 1 to {HIGHEST_PORT}"
    return None


def _check_sslmode(parameters: Mapping[str, object]) -> str | None:
    mode = parameters.get("sslmode")
    return None if mode is None or mode in SSLMODES else f"sslmode {mode!r} is none: write one of {', '.join(SSLMODES)}"


_CHECKS = (_check_host, _check_ports, _check_sslmode)


def _complaint(dsn: str) -> str:
    """What is wrong with the string, without libpq's message.

    libpq's message quotes the part that it could not parse, and that part may be a password.
    """
    known = [option.keyword.decode() for option in pq.Conninfo.get_defaults()]
    for word in re.findall(r"(?:^|[\s?&])([a-z_]+)\s*=", dsn):
        near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
        if word not in known and near:
            return f"not a connection string: unknown keyword {word!r}, did you mean {near[0]!r}? {_HOW}"
    return f"not a connection string: {_HOW}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _service(name: str, *, env: Mapping[str, str]) -> Parameters:
    """The parameters of a service. Like libpq, it reads the user's file first, then the system's.

    libpq does not read it, because it would then look up the host names in the event loop's thread.
    """
    own = env.get("PGSERVICEFILE")
    files = [Path(own) if own else Path(env.get("HOME", "/")) / ".pg_service.conf"]
    if "PGSYSCONFDIR" in env:
        files.append(Path(env["PGSYSCONFDIR"]) / "pg_service.conf")
    files.append(Path("/etc/postgresql-common/pg_service.conf"))
    for file in files:
        found = _section(file, name)
        if found is not None:
            return found
    tried = ", ".join(str(file) for file in files)
    raise ReadError(Reason.CONFIGURATION, f"service {name!r} is in none of {tried}")


def _section(file: Path, name: str) -> Parameters | None:
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # the documented way to keep keys as written
    try:
        parser.read_string(file.read_text(encoding="utf-8"), source=str(file))
    except OSError:
        return None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ReadError(Reason.CONFIGURATION, f"{os.fspath(file)}: {_first_line(error)}") from error
    return dict(parser[name]) if parser.has_section(name) else None
