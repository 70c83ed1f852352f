"""Decides which values of a configuration a message may quote: none that can be a secret.

A value is not quoted if the name of its key suggests a secret, whether the key is known or not, or if the value looks
like a connection string or a URL.
"""

import re
from collections.abc import Sequence

Place = Sequence[str | int]

_SECRET_KEY = re.compile(r"(?i)dsn|url|uri|pass|pwd|secret|token|credential|key\b|conn")
_SECRET_VALUE = re.compile(r"[=@]|:/")
_WORD = re.compile(r"[\w.-]*")
_SECTIONS = ("clusters", "ledger")
"""Sections with connection strings. A value in the place of the whole section can be a connection string."""

_FREE_KEYS = ("budgets",)
"""Sections whose keys are names of roles and jobs, which may contain any character."""


def quoted(value: object, place: Place) -> str:
    """The value as text, or only its type."""
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
    """True if `value` at `place` cannot be a secret or a part of one."""
    key = next((each for each in reversed(place) if isinstance(each, str)), "")
    is_section = bool(place) and place[0] in _SECTIONS and not any(isinstance(each, str) for each in place[1:])
    return not (is_section or _SECRET_KEY.search(key) or _SECRET_VALUE.search(str(value)))


def shown_key(key: str, place: Place) -> str:
    """A key of the mapping at `place`, or `…` if it is no word: then it can be a part of a value."""
    is_name = bool(place) and place[0] in _FREE_KEYS
    return key if is_name or _WORD.fullmatch(key) else "…"


def looks_like_path(text: str) -> bool:
    """True for a path, which may be shown. False for a connection string or a password in its place."""
    return "/" in text and _SECRET_VALUE.search(text) is None
