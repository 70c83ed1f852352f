"""The SQL of the daemon, one statement a file; catalog names are schema-qualified, parameters bound."""

from functools import cache
from importlib import resources


@cache
def statement(name: str) -> bytes:
    """The text of `NAME.sql`, comments included: they show up in the server's log where it logs statements."""
    return resources.files(__package__).joinpath(f"{name}.sql").read_bytes()
