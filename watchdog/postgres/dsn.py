"""Parses connection strings in any form that libpq accepts: reads service files and lists the hosts to try.

It owns the meaning of a connection string. It opens no connection. No message quotes a part of a string that can be a
part of a password: if a character of a URL is not percent-encoded, parts of the password are parsed as the host, the
port or the database.
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
from watchdog.system_roots import is_weak

Parameters = dict[str, str]
DEFAULT_PORT = 5432
HIGHEST_PORT = 65_535
SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

_HOW = "write host=… user=… dbname=… or postgresql://…"
_ESCAPE = "inside the password of a URL, write"
_URL = ("postgresql://", "postgres://")


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
    parameters = _parsed(dsn)
    if parameters is None:
        return _complaint(dsn)
    if not parameters:
        return f"the connection string is empty: {_HOW}"
    return _problem(parameters, quotable=_is_quotable(dsn)) or _check_path(dsn)


def parameters_of(dsn: str, *, env: Mapping[str, str]) -> Parameters:
    """The parameters of the connection string and of the service that it names.

    The values of the string take precedence over those of the service file.

    Raises:
        ReadError: the string cannot be read, the service is in no file, or it has a value that libpq does not accept.

    """
    own = _parsed(dsn)
    if own is None:
        raise ReadError(Reason.CONFIGURATION, _complaint(dsn))
    service = own.pop("service", None) or (env.get("PGSERVICE") if dsn else None)
    if service is None:
        return own
    found = _service(service, env=env)
    problem = _problem(found, quotable=False)
    if problem is not None:
        raise ReadError(Reason.CONFIGURATION, f"service {service!r}: {problem}")
    return {**found, **own}


def variables_of(dsn: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the libpq environment variables that are set and that the string does not override."""
    own = _parsed(dsn) or {}
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
    parameters = _parsed(dsn)
    if parameters is None:
        return "?"
    if "service" in parameters and "host" not in parameters:
        return f"service={parameters['service']}"
    host = parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOST") or "local socket"
    host = f"[{host}]" if ":" in host else host
    port = f":{parameters['port']}" if "port" in parameters else ""
    database = f"/{parameters['dbname']}" if "dbname" in parameters else ""
    return f"{host}{port}{database}"


def _split(value: str) -> list[str | None]:
    return [part.strip() or None for part in value.split(",")] if value else []


def _is_address(host: str) -> bool:
    return ":" in host or all(part.isdigit() for part in host.split("."))


def _parsed(dsn: str) -> Parameters | None:
    """The parameters of a connection string. None if libpq cannot parse it: its message quotes the part in question."""
    try:
        return {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except (psycopg.ProgrammingError, UnicodeError):
        return None


def _is_quotable(dsn: str) -> bool:
    """True if no value of the string can be a part of a password."""
    return not dsn.startswith(_URL) and "pass" not in dsn.lower()


def _problem(parameters: Parameters, *, quotable: bool) -> str | None:
    return next((found for check in _CHECKS if (found := check(parameters, quotable=quotable)) is not None), None)


def _check_keywords(parameters: Parameters, **_: object) -> str | None:
    return None if parameters.keys() <= set(_keywords()) else "it has a keyword that libpq does not know"


def _check_host(parameters: Parameters, **_: object) -> str | None:
    stray = "@" in parameters.get("host", "")[1:]
    return f"the host has an @ in it: {_ESCAPE} @ as %40" if stray else None


def _check_ports(parameters: Parameters, *, quotable: bool) -> str | None:
    for port in (parameters.get("port") or str(DEFAULT_PORT)).split(","):
        if port and not (port.isdecimal() and 0 < int(port) <= HIGHEST_PORT):
            hint = f"write a number from 1 to {HIGHEST_PORT}"
            return f"port {port!r} is no port: {hint}" if quotable else f"the port is none: {hint}; {_ESCAPE} / as %2F"
    return None


def _check_sslmode(parameters: Parameters, *, quotable: bool) -> str | None:
    mode = parameters.get("sslmode")
    shown = f"sslmode {mode!r}" if quotable else "the sslmode"
    return None if mode is None or mode in SSLMODES else f"{shown} is none: write one of {', '.join(SSLMODES)}"


def _check_roots(parameters: Parameters, **_: object) -> str | None:
    weak = is_weak(parameters, env={})
    return "sslrootcert=system goes with sslmode=verify-full alone: leave sslmode out" if weak else None


_CHECKS = (_check_keywords, _check_host, _check_ports, _check_sslmode, _check_roots)


def _check_path(dsn: str) -> str | None:
    """Finds an unescaped / in a password: libpq takes the rest of the password and the host as the database."""
    if not dsn.startswith(_URL):
        return None
    rest = dsn.partition("://")[2]
    if "@" in rest.partition("/")[0]:
        rest = rest.partition("@")[2]
    stray = "@" in rest.partition("/")[2].partition("?")[0]
    return f"the database has an @ in it: {_ESCAPE} / as %2F and @ as %40" if stray else None


def _complaint(dsn: str) -> str:
    """What is wrong with a string that libpq cannot read."""
    is_url, known = dsn.startswith(_URL), _keywords()
    searched = re.split("pass", dsn.rpartition("@")[2] if is_url else dsn, maxsplit=1, flags=re.IGNORECASE)[0]
    for word in re.findall(r"(?:^|[\s?&])([a-z_]+)\s*=", searched):
        near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
        if word not in known and near:
            shown = "unknown keyword" if is_url else f"unknown keyword {word!r}"
            return f"not a connection string: {shown}, did you mean {near[0]!r}? {_HOW}"
    hint = "is a character of the password not percent-encoded? " if is_url else ""
    return f"not a connection string: {hint}{_HOW}"


def _keywords() -> list[str]:
    return [option.keyword.decode() for option in pq.Conninfo.get_defaults()]


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
    except (configparser.Error, UnicodeDecodeError) as error:  # whose own words quote the line
        what = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "write [name] and key=value lines below it"
        raise ReadError(Reason.CONFIGURATION, f"{os.fspath(file)}: no service file: {what}") from error
    return dict(parser[name]) if parser.has_section(name) else None
