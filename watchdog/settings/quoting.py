"""What of a configuration may stand in a message: no value that can hold a secret, whatever is wrong with it.

Not under a key that is for one, known here or not, and not where a connection string or a URL stands in the place of
something else.
"""

import re
from collections.abc import Sequence

Place = Sequence[str | int]

_SECRET_KEY = re.compile(r"(?i)dsn|url|uri|pass|pwd|secret|token|credential|key\b|conn")
_SECRET_VALUE = re.compile(r"[=@]|:/")
_WORD = re.compile(r"[\w.-]*")
_SECTIONS = ("clusters", "ledger")
"""Sections with connection strings in them: a value in the place of the whole may be one."""

_FREE_KEYS = ("budgets",)
"""Sections whose keys are names of roles and jobs."""


def quoted(value: object, place: Place) -> str:
    """A value as people wrote it, or only what it is."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return repr(value) if may_quote(value, place) else "a text"
    return repr(value) if may_quote(value, place) else "a number"


def may_quote(value: object, place: Place) -> bool:
    """True where `value`, which stands at `place`, can be no secret and no part of one."""
    key = next((each for each in reversed(place) if isinstance(each, str)), "")
    is_section = bool(place) and place[0] in _SECTIONS and not any(isinstance(each, str) for each in place[1:])
    return not (is_section or _SECRET_KEY.search(key) or _SECRET_VALUE.search(str(value)))


def shown_key(key: str, place: Place) -> str:
    """A key of the mapping at `place`; `…` for what is no word, and may be a value that has slipped into its place."""
    is_name = bool(place) and place[0] in _FREE_KEYS
    return key if is_name or _WORD.fullmatch(key) else "…"


def looks_like_path(text: str) -> bool:
    """True for a path, which may be shown; not for a connection string or a password in its place."""
    return "/" in text and _SECRET_VALUE.search(text) is None
