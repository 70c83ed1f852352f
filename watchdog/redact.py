"""Makes the text of other programs and drivers fit for a message.

Secrets are replaced, control characters are escaped, and the length is limited.
"""

import re
from collections.abc import Iterable

MASK = "***"
MAX_LENGTH = 200
"""Default limit of the length, in characters."""

_USERINFO = re.compile(r"(?<=://)\S*@")
_NAMES = r"[a-z_-]*(?:passw|passphrase|pwd|secret|token|credential|api_?key)[a-z_-]*"
_ASSIGNED = re.compile(rf"(?i)({_NAMES}[\"']?\s*[=:]\s*)\S.*")
_TOKEN = re.compile(r"[A-Za-z0-9+/=_-]{16,}")


def redacted(text: str, secrets: Iterable[str | None]) -> str:
    """`text` without these secrets and without what looks like a secret.

    These are the value after `password=`, `token:` and similar names, the user information of a URL, and 16 or more
    characters of base64 or hexadecimal in a row if one of them is a digit.
    """
    text = _without(text, secrets)
    text = _ASSIGNED.sub(rf"\1{MASK}", _USERINFO.sub(f"{MASK}@", text))
    text = _TOKEN.sub(lambda found: MASK if any(map(str.isdigit, found[0])) else found[0], text)
    return _escaped(text, limit=MAX_LENGTH)


def masked(text: str, secrets: Iterable[str | None], *, limit: int = MAX_LENGTH) -> str:
    """`text` without these secrets. What only looks like a secret is kept: the name of a host can look like one."""
    return _escaped(_without(text, secrets), limit=limit)


def last_line(text: str) -> str:
    """The last line that is not blank, or the empty string."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _without(text: str, secrets: Iterable[str | None]) -> str:
    for secret in sorted({each for each in secrets if each}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _escaped(text: str, *, limit: int) -> str:
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if len(shown) <= limit else f"{shown[:limit]}…"
