"""How a name in the configuration is compared with a name that the server shows.

A configured name is a pattern: `*` stands for any characters and `?` for one, everything else stands for itself. After
the prefix `glob:` brackets are sets of characters too, as in `glob:web[0-9]*`. Case is significant.

Roles and databases are shown as they are. An application name is not: the server replaces what is not ASCII and cuts
the name, and PgBouncer may append its client's address.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import Generic, TypeVar

MAX_BYTES = 63
"""Bytes to which the server cuts names of roles, databases and applications (NAMEDATALEN - 1)."""

MIN_CUT = 60
"""Bytes from which on an application name may have been cut, so that two names have become one.

The server cuts before a character of several bytes that does not fit, and then 60 to 62 bytes are left.
"""

GLOB = "glob:"
"""Prefix of a pattern in which brackets are sets of characters."""

MAX_REMEMBERED = 10_000
"""Upper bound of the comparisons that are remembered."""

_POOLERS_SUFFIX = re.compile(r"(?P<name>.*) - (?P<client>(?P<address>[^ ]+):[0-9]*)", re.DOTALL)
_POOLERS_UNIX = re.compile(r"unix(?:\([0-9]+\))?")
_CUT_SUFFIX = re.compile(r" (?:-(?: (?:[0-9a-fA-F.:]*|u(?:n(?:i(?:x[()0-9:]*)?)?)?))?)?$")
_CUT_ESCAPE = re.compile(r"\\(?:x[0-9a-f]?)?$")
_PIECES = re.compile(r"\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_UNSHOWN = re.compile(r"(?:\?|\\x[0-9a-f]{2}|[^ -~])+")
"""Characters that the server does not show in application names, and what it shows for them: `?` for each byte before
16, then `\\xNN`. How many bytes a character has depends on the client's encoding."""

_MARK = "\ufffd"
_ANY, _ONE = "\0*", "\0?"
"""The two wildcards among the pieces of a pattern. No name has a NUL."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """One configured name. `pieces` are its characters, its wildcards, and its sets of characters in brackets."""

    text: str
    pieces: tuple[str, ...]

    @property
    def literals(self) -> int:
        """The number of characters that stand for themselves. Of two patterns that match, the one with more counts."""
        return sum(len(piece) == 1 for piece in self.pieces)

    @property
    def min_bytes(self) -> int:
        """The length of the shortest name that matches, in bytes of UTF-8."""
        return sum(len(piece.encode()) if len(piece) == 1 else piece != _ANY for piece in self.pieces)

    def matches(self, name: str) -> bool:
        """True if `name` is the name of a role, database or job that the pattern means."""
        return len(self.pieces) in _reached(self.pieces, name)

    def matches_application(self, name: str, *, spares: bool) -> bool:
        """True if the server shows as `name` an application name that the pattern means.

        With `spares` it is also true where `name` may be such a name: cut, or in an encoding that is not known.
        """
        spelled = (self.pieces, _spelled(self.pieces, "?"), _spelled(self.pieces, None))
        for each in _unpooled(name, cut=spares):
            if any(len(pieces) in _reached(pieces, each) for pieces in spelled):
                return True
            if spares and self._may_match(each, cut=len(name.encode()) >= MIN_CUT):
                return True
        return False

    def _may_match(self, name: str, *, cut: bool) -> bool:
        if cut:
            name = _CUT_ESCAPE.sub("", name)
        pieces = _marked(self.pieces)
        reached = _reached(pieces, _UNSHOWN.sub(_MARK, name))
        return bool(reached) if cut and name else len(pieces) in reached


@lru_cache(maxsize=MAX_REMEMBERED)
def name_pattern(text: str) -> NamePattern:
    """The pattern that `text` means in the configuration."""
    found = _PIECES.findall(text.removeprefix(GLOB)) if text.startswith(GLOB) else list(text)
    wildcards = {"*": _ANY, "?": _ONE}
    return NamePattern(text, tuple(wildcards.get(each, each) for each in found))


def pattern_problem(text: str) -> str | None:
    """Why `text` cannot be a pattern, or None."""
    for piece in name_pattern(text).pieces:
        if _is_set(piece):
            try:
                _set(piece)
            except re.error:
                return f"{piece} is no set of characters"
    return None


def is_glob(text: str) -> bool:
    """True if the text may mean more than one name."""
    return text.startswith(GLOB) or "*" in text or "?" in text


def matches(name: str, patterns: Iterable[str]) -> bool:
    """True if one of the patterns means the role, database or job `name`. An empty name matches no pattern."""
    return bool(name) and any(_matches(name, each) for each in patterns)


@lru_cache(maxsize=MAX_REMEMBERED)
def _matches(name: str, pattern: str) -> bool:
    return name_pattern(pattern).matches(name)


@lru_cache(maxsize=MAX_REMEMBERED)
def matches_application(name: str, patterns: tuple[str, ...], *, spares: bool) -> bool:
    """True if one of the patterns means the application that the server shows as `name`.

    `spares` is true for what keeps a session from being acted on: it must not miss one that it means. An empty name
    matches no pattern.
    """
    return bool(name) and any(name_pattern(each).matches_application(name, spares=spares) for each in patterns)


def overlap(one: str, other: str) -> bool:
    """True if there is a name that both patterns match. Of two sets of characters that is assumed."""
    left, right = name_pattern(one).pieces, name_pattern(other).pieces
    reached, ahead = set[tuple[int, int]](), [(0, 0)]
    while ahead:
        here = i, j = ahead.pop()
        if here in reached:
            continue
        reached.add(here)
        a, b = left[i : i + 1], right[j : j + 1]
        if not a and not b:
            return True
        if a == (_ANY,):
            ahead += [(i + 1, j), *([(i, j + 1)] if b else [])]
        if b == (_ANY,):
            ahead += [(i, j + 1), *([(i + 1, j)] if a else [])]
        if a and b and _ANY not in (*a, *b) and (a == b or len(a[0]) > 1 or len(b[0]) > 1):
            ahead.append((i + 1, j + 1))
    return False


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class NameTable(Generic[V]):
    """Values by pattern. For a name the literal counts first, then the matching pattern with most literal characters.

    What was found is remembered, because a poll asks for every row.
    """

    values: Mapping[str, V]
    _found: dict[str, str | None] = field(init=False, repr=False, compare=False, default_factory=dict)

    def pattern_of(self, name: str) -> str | None:
        """The text of the pattern that counts for `name`, or None."""
        if name in self.values:
            return name
        if name not in self._found:
            if len(self._found) >= MAX_REMEMBERED:
                self._found.clear()
            fitting = [text for text in self.values if _matches(name, text)]
            self._found[name] = max(fitting, key=lambda text: name_pattern(text).literals, default=None)
        return self._found[name]

    def get(self, name: str) -> V | None:
        """The value that counts for `name`, or None."""
        pattern = self.pattern_of(name)
        return None if pattern is None else self.values[pattern]

    def ties(self) -> Iterator[tuple[str, str]]:
        """Every two patterns of which it is not said which one counts: they overlap, and neither is more literal."""
        globs = [name_pattern(each) for each in self.values if is_glob(each)]
        for i, one in enumerate(globs):
            for other in globs[i + 1 :]:
                if one.literals == other.literals and overlap(one.text, other.text):
                    yield one.text, other.text


def split_client(name: str) -> tuple[str, str | None]:
    """Split a name into the application's own name and the client's address, which PgBouncer may have appended.

    PgBouncer appends the address of the real client if its `application_name_add_host` is on. The second value is None
    if there is no such suffix.
    """
    match = _POOLERS_SUFFIX.fullmatch(name)
    if match is None or not (_POOLERS_UNIX.fullmatch(match["address"]) or _is_address(match["address"])):
        return name, None
    return match["name"], match["client"]


def _unpooled(name: str, *, cut: bool) -> Iterator[str]:
    """The name, and the name without a suffix of PgBouncer, which may have been cut."""
    yield name
    if (own := split_client(name)[0]) != name:
        yield own
    if cut and len(name.encode()) >= MIN_CUT:
        yield _CUT_SUFFIX.sub("", name)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _reached(pieces: tuple[str, ...], name: str) -> set[int]:
    """How many pieces may have been used up when all of `name` has been compared. Empty if it cannot even begin so.

    All possibilities are followed at once, so that no name takes long, whatever it is.
    """
    reached = _past_stars(pieces, {0})
    for character in name:
        kept = {i for i in reached if pieces[i : i + 1] == (_ANY,)}
        ahead = {i + 1 for i in reached if i < len(pieces) and _means(pieces[i], character)}
        reached = _past_stars(pieces, kept | ahead)
        if not reached:
            break
    return reached


def _past_stars(pieces: tuple[str, ...], reached: set[int]) -> set[int]:
    for i in tuple(reached):
        while pieces[i : i + 1] == (_ANY,):
            i += 1  # noqa: PLW2901  # a star may stand for nothing
            reached.add(i)
    return reached


def _means(piece: str, character: str) -> bool:
    if len(piece) == 1:
        return piece == character
    return piece == _ONE or (piece != _ANY and _set(piece).match(character) is not None)


def _spelled(pieces: tuple[str, ...], byte: str | None) -> tuple[str, ...]:
    """The pieces as a server shows them: each byte that is not printable ASCII as `byte`, or as its escape."""
    return tuple(
        each
        for piece in pieces
        for each in ("".join(byte or f"\\x{n:02x}" for n in piece.encode()) if _is_unshown(piece) else (piece,))
    )


def _marked(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The pieces with one mark for each run of characters that the server does not show."""
    marked = [_MARK if _is_unshown(piece) or piece in (_ONE, _MARK) else piece for piece in pieces]
    return tuple(piece for i, piece in enumerate(marked) if piece != _MARK or marked[i - 1 : i] != [_MARK])


def _is_unshown(piece: str) -> bool:
    return len(piece) == 1 and not " " <= piece <= "~"


def _is_set(piece: str) -> bool:
    return len(piece) > 1 and piece not in (_ANY, _ONE)


@lru_cache(maxsize=MAX_REMEMBERED)
def _set(piece: str) -> re.Pattern[str]:
    inner = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
    return re.compile(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]", re.DOTALL)
