"""A ledger's URL: whether it can be used, how it is shown, which file it names, and which of its parts are secrets.

It opens no database.
"""

import os
import stat
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_HARMLESS = frozenset({"host", "hostaddr", "port", "sslmode", "sslrootcert", "connect_timeout", "target_session_attrs"})


def check_url(url: str) -> str | None:
    """The problem of a ledger's URL as text, or None if the URL is usable."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "is no URL: write sqlite:////absolute/path.db or postgresql://user@host/database"
    if parsed.drivername not in DRIVERS:
        return f"{parsed.drivername}: is not supported; write sqlite:////absolute/path.db or postgresql://…"
    if parsed.drivername == "sqlite" and not (parsed.database or "").startswith("/"):
        return "needs an absolute path and four slashes: sqlite:////var/lib/pgwatchdog/ledger.db"
    if parsed.drivername != "sqlite" and "@" in f"{parsed.host}{parsed.database}":  # the rest of a password
        return "has an @ in its host or database: inside the password, write @ as %40 and / as %2F"
    return None


def unwritable(url: str) -> str | None:
    """Why the file of a SQLite ledger cannot be written by this user, and what to do. Creates nothing.

    It is None if the file can be written or created, and for a ledger in PostgreSQL, which is not connected to.
    """
    path = sqlite_path(make_url(url))
    if path is None:
        return None
    folder = path.parent
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            return f"{folder} is no folder: name a file in a folder"
    except FileNotFoundError:
        return f"{folder} does not exist: create this folder for the user that runs pgwatchdog"
    except OSError as error:
        return f"{folder} cannot be looked at by {_us()}: {error.strerror}"
    return _file_problem(path, folder)


def _file_problem(path: Path, folder: Path) -> str | None:
    if not _may(folder, os.W_OK | os.X_OK):  # SQLite writes its journal beside the file
        return f"{folder} cannot be written by {_us()}: chown this folder to the user that runs pgwatchdog"
    if path.is_dir():
        return f"{path} is a folder: name a file in it, for example {path / 'ledger.db'}"
    if path.exists() and not _may(path, os.R_OK | os.W_OK):
        return f"{path} cannot be written by {_us()}: chown it to the user that runs pgwatchdog"
    return None


def _us() -> str:
    return f"this user (uid {os.geteuid()})"


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def shown(url: str) -> str:
    """The URL without its user information and its query. Both can contain a password."""
    parsed = make_url(url)
    bare = URL.create(parsed.drivername, host=parsed.host, port=parsed.port, database=parsed.database)
    return bare.render_as_string()


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite ledger, or None for any other ledger."""
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database is not None else None


def secrets_of(url: str) -> list[str]:
    """The parts of a URL that can be a password. The value of a mistyped key of the query can be one as well."""
    parsed = make_url(url)
    values = [value for key, each in parsed.normalized_query.items() if key not in _HARMLESS for value in each]
    return [str(parsed.password or ""), *values]
