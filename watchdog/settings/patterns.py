"""The types of configured names: a name that can never match is an error of the file.

How a name is compared is in the core's `names`.
"""

from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from watchdog.core.observed.names import MAX_BYTES, NamePattern, NameTable, name_pattern, pattern_problem


def _checked(problem_of: Callable[[NamePattern], str | None]) -> AfterValidator:
    def check(text: str) -> str:
        problem = pattern_problem(text) or problem_of(name_pattern(text))
        if problem is not None:
            raise PydanticCustomError("name_pattern", "{problem}", {"problem": problem})
        return text

    return AfterValidator(check)


def _too_long(pattern: NamePattern) -> str | None:
    if pattern.min_bytes <= MAX_BYTES:
        return None
    return (
        f"can match nothing: it has {pattern.min_bytes} bytes, and the server cuts every name to {MAX_BYTES}; "
        f"write the first {MAX_BYTES} bytes"
    )


def _unshown(pattern: NamePattern) -> str | None:
    unshown = next((each for each in pattern.pieces if each.startswith("[") and not each.isascii()), None)
    if unshown is None:
        return None
    return f"can match nothing: the server shows no character of {unshown} in an application name, only ASCII"


Name = Annotated[str, Field(min_length=1), _checked(_too_long)]
"""A role, database or job, or a pattern of them."""

Names = Annotated[list[Name], Field(min_length=1)]
"""An empty list is refused, because it could mean all or none."""

SparedApplication = Annotated[str, Field(min_length=1), _checked(_unshown)]
"""An application name that spares, or a pattern. It may be longer than what the server shows: its beginning counts."""

Application = Annotated[str, Field(min_length=1), _checked(lambda pattern: _too_long(pattern) or _unshown(pattern))]
"""An application name that a rule asks for, or a pattern."""

T = TypeVar("T")


def untied(entries: dict[str, T]) -> dict[str, T]:
    """The entries by pattern, if for every name it is said which of them counts.

    Raises:
        PydanticCustomError: two patterns match the same name, and neither has more literal characters.

    """
    for one, other in NameTable(entries).ties():
        raise PydanticCustomError(
            "name_pattern",
            "{one} and {other} match the same names, and neither is more exact: write one of them with more characters",
            {"one": repr(one), "other": repr(other)},
        )
    return entries
