"""Durations with units, for example `30s`, `15min` or `1.5h`: reading, formatting, and their pydantic types."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|min|m|h|d)$"

_SHAPE = re.compile(r"(?P<amount>[0-9]+(?:\.[0-9]+)?)\s?(?P<unit>ms|s|min|m|h|d)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_HOW = "write a number with a unit (ms, s, min, h, d), for example 30s, 15min or 1.5h"
_LONGEST = timedelta(days=3650)


def parse_duration(text: object, *, zero: bool = False) -> timedelta:
    """Read a duration. Zero is refused unless `zero` is true.

    Raises:
        ValueError: the value is no duration; the message says what to write.

    """
    if isinstance(text, timedelta):
        return text
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        hint = f" (did you mean {text}s or {text}min?)" if text > 0 else ""
        raise ValueError(f"{text} has no unit{hint}: {_HOW}")  # noqa: TRY004  # the mistake is in the value of a file
    if not isinstance(text, str):
        raise ValueError(f"is not a duration: {_HOW}")  # noqa: TRY004  # as above
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: {_HOW}")
    try:
        value = float(match["amount"]) * _UNITS[match["unit"]]
    except OverflowError:
        value = _LONGEST + timedelta(days=1)
    if value > _LONGEST:
        raise ValueError(f"{text!r} is longer than ten years")
    if value < timedelta(milliseconds=1) and not (zero and value == timedelta(0)):
        raise ValueError(f"{text!r} is too short: it must be at least 1ms{' or 0s' if zero else ''}")
    return value


def format_duration(span: timedelta) -> str:
    """The duration as a whole number of the largest unit that fits: 900 s is `15min`. Rounded to milliseconds."""
    milliseconds = round(span / timedelta(milliseconds=1))
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _positive(value: object) -> timedelta:
    return _read(value, zero=False)


def _or_zero(value: object) -> timedelta:
    return _read(value, zero=True)


def _read(value: object, *, zero: bool) -> timedelta:
    try:
        return parse_duration(value, zero=zero)
    except ValueError as error:
        raise PydanticCustomError("duration", "{problem}", {"problem": str(error)}) from error


_SCHEMA = WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["30s", "15min", "1.5h"]})
_SPELLED = PlainSerializer(format_duration)

Duration = Annotated[timedelta, BeforeValidator(_positive), _SPELLED, _SCHEMA]
"""A duration above zero."""

NO_BUDGET = "none"
"""The word with which a configuration says that a role has no budget."""


def _positive_or_none(value: object) -> timedelta | None:
    return None if value == NO_BUDGET else _positive(value)


def _spelled_or_none(span: timedelta | None) -> str:
    return NO_BUDGET if span is None else format_duration(span)


OptionalDuration = Annotated[
    timedelta | None,
    BeforeValidator(_positive_or_none),
    PlainSerializer(_spelled_or_none),
    WithJsonSchema({"type": "string", "pattern": f"{PATTERN}|^{NO_BUDGET}$", "examples": ["30s", "15min", NO_BUDGET]}),
]
"""A duration above zero, or `none`."""

Grace = Annotated[timedelta, BeforeValidator(_or_zero), _SPELLED, _SCHEMA]
"""A duration that may be `0s`."""
