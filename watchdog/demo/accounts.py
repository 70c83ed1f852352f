"""Compares the two rounds of the demo: rows for a table, and the closing sentences. It prints nothing."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from watchdog.core.acting.acts import Outcome
from watchdog.core.acting.recall import Recorded
from watchdog.demo.works import Work

Works = Sequence[Work]


@dataclass(frozen=True, slots=True)
class Row:
    """One story, or one copy of its work, in both rounds."""

    name: str
    title: str
    dry_run: Work | None
    armed: Work | None

    def cells(self) -> tuple[str, ...]:
        """The cells: name, title, time for nobody in dry run and armed, orphan, evidence, what was done, server log."""
        return (
            self.name,
            self.title,
            _for_nobody(self.dry_run),
            _for_nobody(self.armed),
            _called(self.dry_run),
            "\n".join(sorted(_words(each) for each in self.dry_run.evidence)) or "-" if self.dry_run else "-",
            _done(self.armed),
            self._log(),
        )

    def _log(self) -> str:
        """The messages of the server's log in both rounds, only one message if they are equal."""
        dry_run, armed = (("" if work is None else work.logged) or "nothing" for work in (self.dry_run, self.armed))
        return dry_run if dry_run == armed else f"{dry_run}; armed: {armed}"


def rows(dry_run: Works, armed: Works) -> Iterator[Row]:
    """A row for each story, and a row for each further copy of its work whose caller left."""
    for name in dict.fromkeys(work.story.name for work in (*dry_run, *armed)):
        pairs = zip_longest(_of(dry_run, name), _of(armed, name))
        for number, pair in enumerate(pairs, start=1):
            present = [work for work in pair if work is not None]
            if number == 1:
                yield Row(name, present[0].story.title, *pair)
            elif any(work.left is not None for work in present):
                yield Row("", f"its copy number {number}", *pair)


def round_words(title: str, works: Works) -> str:
    """A summary of one round: orphans, work for nobody, and how long the last orphan outlived the last caller."""
    left = [work.left for work in works if work.left is not None]
    orphans = [work for work in works if work.is_orphan]
    gone = [work.ended for work in orphans if work.ended is not None]
    if not left or not gone:
        return f"{title}: no orphan was seen."
    wasted = sum(work.for_nobody or 0.0 for work in works)
    after = max(gone) - max(left)
    return (
        f"{title}: {len(orphans)} orphans, {wasted:.0f} s of work for nobody; "
        f"the last orphan was gone {after:.1f} s after the last caller."
    )


def record_words(acts: Sequence[Recorded], works: Works) -> str:
    """A summary of the ledger: acts of the armed round, their outcomes, withheld stories and untouched stories."""
    stories = {work.pid: work.story.name for work in works}
    about = [stories.get(act.run.pid, f"pid {act.run.pid}") for act in acts]
    ended = sum(act.outcome in {Outcome.ENDED, Outcome.BETWEEN_STATEMENTS} for act in acts)
    alone = [
        f"{work.story.name} ({_words(work.withheld)})" for work in works if work.withheld and work.cancelled_at is None
    ]
    return (
        f"On record: {len(acts)} acts in the armed round ({_listed(sorted(about))}); {ended} of these queries ended.\n"
        f"Left alone: {_listed(alone)}. Not touched: {_listed(_untouched(works, touched=about))}."
    )


def _untouched(works: Works, *, touched: Collection[str]) -> list[str]:
    """The innocent stories without an act whose callers got their result or were killed by the stage."""
    names = dict.fromkeys(work.story.name for work in works if work.story.innocent)
    return [
        name
        for name in names
        if name not in touched and all(work.served or work.story.killed_after is not None for work in _of(works, name))
    ]


def _of(works: Works, name: str) -> list[Work]:
    return [work for work in works if work.story.name == name]


def _for_nobody(work: Work | None) -> str:
    return "-" if work is None or work.for_nobody is None else f"{work.for_nobody:4.1f} s"


def _called(work: Work | None) -> str:
    if work is None:
        return "-"
    if work.named_at is not None:
        return f"at {work.named_at - work.began:.1f} s"
    return "nearing" if "nearing" in work.named else "no"


def _done(work: Work | None) -> str:
    if work is None:
        return "-"
    if work.cancelled_at is not None:
        return f"cancelled at {work.cancelled_at - work.began:.1f} s"
    return "-" if work.withheld is None else f"left alone: {_words(work.withheld)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _words(text: str) -> str:
    return text.replace("_", " ")
