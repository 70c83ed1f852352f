"""The server's log of the second part as values: every command with its caller, every act, every cancel.

The order of the log is the order of what happened: every entry is written by one call to the same file.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.crashing import CANCELLED, LOGGED

SETTINGS = {
    "log_line_prefix": "%n %u <%a> [%p] ",
    "log_statement": "all",
    "log_disconnections": "on",
    "max_connections": "200",
}
"""What the server must log. The prefix keeps the form that `support.crashing.CANCELLED` reads."""

SWALLOWED = "swallowed a cancel"
"""What a stubborn function writes into the log for each cancel. The server itself does not log a cancel that is caught
inside of a function."""

Label = tuple[int, int]
"""The number of a caller, and the number of its command."""

_ENTRY = re.compile(r"(\d+\.\d{3}) (\S*) <(.*?)> \[(\d+)\] ([A-Z]+): {2}")
_LABEL = re.compile(r"/\* caller (\d+)\.(\d+) \*/")


@dataclass(frozen=True, slots=True)
class Sent:
    """A guarded statement: the id of its act. `order` is its place in the log."""

    act: str
    at: float
    order: int


@dataclass(slots=True)
class Hit:
    """A command that was cancelled: in which session, in which place of the log, and whose command it was."""

    pid: int
    at: float
    order: int
    application: str
    label: Label | None
    swallowed: bool = False


@dataclass(frozen=True, slots=True)
class Began:
    """A command of a caller as the server has received it. `order` is its place in the log."""

    at: float
    order: int
    label: Label


@dataclass(slots=True)
class ServerLog:
    """What the log says. `commands` and `left` (the end of a session) are by pid."""

    commands: dict[int, list[Began]] = field(default_factory=lambda: defaultdict(list))
    sent: list[Sent] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    left: dict[int, float] = field(default_factory=dict)

    def command_before(self, pid: int, order: int) -> Began | None:
        """The last command that a session had begun before a place in the log."""
        return next((each for each in reversed(self.commands[pid]) if each.order < order), None)


def read_log(path: Path) -> ServerLog:
    """Read a server's whole log."""
    log = ServerLog()
    cancelled: dict[int, Hit] = {}
    for order, (at, application, pid, level, text) in enumerate(_entries(path)):
        label = _label(text)
        if level == "STATEMENT" and pid in cancelled:
            cancelled.pop(pid).label = label
        elif level == "ERROR" and CANCELLED.search(f"[{pid}] {level}:  {text}"):
            cancelled[pid] = Hit(pid, at, order, application, None)
            log.hits.append(cancelled[pid])
        elif level == "LOG" and text.startswith(SWALLOWED):
            log.hits.append(Hit(pid, at, order, application, log.commands[pid][-1].label, swallowed=True))
        elif level == "LOG" and text.startswith("disconnection:"):
            log.left[pid] = at
        elif level == "LOG" and (act := LOGGED.search(text)):
            log.sent.append(Sent(act[1], at, order))
        elif level == "LOG" and label is not None:
            log.commands[pid].append(Began(at, order, label))
    return log


def _label(text: str) -> Label | None:
    found = _LABEL.search(text)
    return None if found is None else (int(found[1]), int(found[2]))


def _entries(path: Path) -> Iterator[tuple[float, str, int, str, str]]:
    """Time, application, pid, level and text of each entry. A text of several lines is put together."""
    head: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*path.read_text(errors="replace").splitlines(), "0.000  <> [0] END:  "]:
        found = _ENTRY.match(line)
        if found is None:
            lines.append(line)
            continue
        if head is not None:
            yield float(head[1]), head[3], int(head[4]), head[5], "\n".join(lines)
        head, lines = found, [line[found.end() :]]
