"""Statements beside the poll that failed, by name: how often, and whether the last attempt failed."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatementFailure:
    """How often one statement has failed since the process began.

    `detail` is the server's sentence about the last attempt where that failed, else None.
    """

    count: int = 0
    detail: str | None = None


StatementFailures = Mapping[str, StatementFailure]
"""By the name of the statement's file."""


def failing(failures: StatementFailures) -> dict[str, str]:
    """The statements whose last attempt failed, with the server's sentence about it."""
    return {name: each.detail for name, each in failures.items() if each.detail is not None}
