"""What every benchmark hands back: figures with their goals, and the page that is made of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

INTRODUCTION = """\
# Benchmarks

`make bench` runs all benchmarks in about fifteen minutes and writes this page. What is compared is measured in the same
run on the same machine. Compare the ratios, and how the values grow. The absolute values depend on the machine.
Servers, their clients, the daemon and the measuring programs all run on this one machine at the same time.

"""


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution: values in ascending order."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        return cls(tuple(sorted(values)))

    def at(self, share: float) -> float:
        """The value below which `share` of them lie."""
        return self.values[min(len(self.values) - 1, int(share * len(self.values)))]

    def text(self, *, scale: float = 1.0, digits: int = 1) -> str:
        """Median, 99th percentile and maximum as cells of a table."""
        if not self.values:
            return "- | - | -"
        return " | ".join(f"{value * scale:.{digits}f}" for value in (self.at(0.5), self.at(0.99), self.values[-1]))


@dataclass(frozen=True, slots=True)
class Goal:
    """What was promised, and what came out; both in `unit`, less is better."""

    what: str
    limit: float
    measured: float
    unit: str
    digits: int = 1

    @property
    def met(self) -> bool:
        return self.measured <= self.limit

    def row(self) -> str:
        measured = f"{self.measured:.{self.digits}f}{self.unit}"
        return f"| {self.what} | ≤ {self.limit:g}{self.unit} | {measured} | {'yes' if self.met else '**no**'} |"


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's part of the page: what was measured and how, a table, and what is to be said about it."""

    title: str
    how: str
    table: str
    goals: tuple[Goal, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"## {self.title}\n\n{self.how}\n\n{self.table}{notes}"


def table(head: Sequence[str], rows: Iterable[str]) -> str:
    """A table of Markdown; rows are cells joined by ` | `."""
    line = "|---" * len(head) + "|"
    return "\n".join([f"| {' | '.join(head)} |", line, *(f"| {row} |" for row in rows)]) + "\n"


def page(machine: str, sections: Iterable[Section], *, failed: Sequence[tuple[str, str]]) -> str:
    """The whole page; `failed` are benchmarks that gave no result, each with the name of its error."""
    sections = list(sections)
    goals = [goal.row() for section in sections for goal in section.goals]
    lost = "".join(f"\n**Not measured: {name}.** It ended with {error}.\n" for name, error in failed)
    summary = "| goal | promised | measured | met |\n|---|---|---|---|\n" + "\n".join(goals)
    return f"{INTRODUCTION}{machine}\n{lost}\n{summary}\n\n" + "\n".join(section.text() for section in sections)
