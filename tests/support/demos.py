"""Runs the demo, reads its output up to a line, and parses that output."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.processes import COMMAND, environment

SECOND_ROUND = "Round two, armed"
LAST_LINE = "`pgwatchdog history` shows such a record"


@dataclass(frozen=True)
class Row:
    """One row of the table: the seconds for nobody in both rounds, and the other cells with their lines joined."""

    dry_run: float | None
    armed: float | None
    orphan: str
    evidence: str
    done: str
    log: str


@contextmanager
def public_directory() -> Iterator[Path]:
    """A folder that every user may pass through, because a server may run as another one."""
    with tempfile.TemporaryDirectory(prefix="pgwatchdog-demo-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A running demo that creates its temporary directory below `folder`."""
    folder.chmod(0o755)
    env = environment({"TMPDIR": str(folder), "COLUMNS": "120"})
    process = subprocess.Popen(
        [*COMMAND, "demo", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """The output up to the line that contains `text`."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"the demo ended without {text!r}:\n{seen}")


def rounds(text: str) -> tuple[str, str]:
    """The lines of each of the two rounds."""
    live = text.partition("What happened")[0]
    first, found, second = live.partition(SECOND_ROUND)
    assert found
    return first, second


def when(live: str, application: str, news: str) -> list[float]:
    """The seconds of a round at which `news` about an application was printed."""
    return [float(at) for at in re.findall(rf"(?m)^ +(\d+\.\d) s  \w {re.escape(application)}: {news}", live)]


def table(text: str) -> dict[str, list[Row]]:
    """The rows of the table by the name of their story. Rows of further copies follow the story's own row."""
    lines = text.partition("What happened")[2].splitlines()
    rule = next(number for number, line in enumerate(lines) if "───" in line)
    head, body = lines[rule - 1], lines[rule + 1 :]
    body = body[: next(number for number, line in enumerate(body) if not line.strip())]
    begins = [0, *(found.start() for found in re.finditer(r"\S+(?: \S+)*", head))]
    found: dict[str, list[list[str]]] = {}
    name = ""
    for line in body:
        cells = [line[begin:end].strip() for begin, end in zip(begins, [*begins[1:], None], strict=True)]
        name = cells[0] or name
        if cells[0] or cells[1].startswith("its copy number"):
            found.setdefault(name, []).append(cells)
        else:
            found[name][-1] = [f"{above} {cell}".strip() for above, cell in zip(found[name][-1], cells, strict=True)]
    return {name: [_row(cells) for cells in rows] for name, rows in found.items()}


def _row(cells: list[str]) -> Row:
    _name, _story, dry_run, armed, *others = cells
    return Row(_seconds(dry_run), _seconds(armed), *others)


def _seconds(cell: str) -> float | None:
    return None if cell == "-" else float(cell.removesuffix(" s"))
