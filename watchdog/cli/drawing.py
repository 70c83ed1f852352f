"""Draws the caller chain as text: its layers, its copies over time, its inversions, and the simulation of a spike."""

import math
import shutil
from collections.abc import Iterator, Sequence
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from watchdog.cli.text import drawn
from watchdog.core.chain.chain import Chain, Layer
from watchdog.core.chain.chain_inversions import Inversion
from watchdog.core.chain.ladder import Copy, Ladder, Result
from watchdog.core.chain.loop import MAX_EVENTS, PLOTTED, Course, Loop, Spike
from watchdog.core.present.phrases import span
from watchdog.settings.durations import format_duration

NARROW, WIDE = 80, 100
MAX_DRAWN = 40
WANTED, NOBODY = "█", "░"
GOOD, BAD = "green", "bold red"
BARS = " ▁▂▃▄▅▆▇█"

_SHORT = timedelta(seconds=1)
_BESIDE_BAR = 38
"""Width of the columns beside a bar: number, start, duration, and time for nobody."""


def chain_text(
    chain: Chain, ladder: Ladder, *, found: Sequence[Inversion], loop: Loop | None, color: bool = False
) -> str:
    """The text that `pgwatchdog chain` prints."""
    return _printed(_chain_lines(chain, ladder, found=found, loop=loop), color=color)


def spike_text(spike: Spike, courses: Sequence[Course], *, color: bool = False) -> str:
    """The number of running copies over the simulated time, one line per remedy, each with its own scale.

    Each cell of a line is the largest number within a 48th of the simulated time.
    """
    return _printed(_spike_lines(spike, courses), color=color)


def _width() -> int:
    return max(NARROW, min(shutil.get_terminal_size((NARROW, 24)).columns, WIDE))


def _printed(lines: Iterator[Text], *, color: bool) -> str:
    def draw(console: Console) -> None:
        for line in lines:
            console.print(line, soft_wrap=True)

    return drawn(draw, width=_width(), color=color or None)


def _chain_lines(chain: Chain, ladder: Ladder, *, found: Sequence[Inversion], loop: Loop | None) -> Iterator[Text]:
    yield from _layers(chain)
    yield Text()
    yield from _ladder(ladder)
    yield Text()
    yield from _sums(chain, ladder)
    yield Text()
    yield from _inversions(found)
    if loop is not None:
        yield from _loop(loop)


def _layers(chain: Chain) -> Iterator[Text]:
    for depth, layer in enumerate(chain.layers):
        yield _branch(depth, layer.name, ", ".join(_traits(layer)))
    limit = "" if chain.statement_timeout is None else f", statement_timeout {span(chain.statement_timeout)}"
    yield _branch(len(chain.layers), "query", f"takes {span(chain.work)}{limit}")


def _branch(depth: int, name: str, traits: str) -> Text:
    stem = f"{'  ' * (depth - 1)}└ " if depth else ""
    return Text.assemble(stem, (name, "bold"), f"  {traits}")


def _traits(layer: Layer) -> Iterator[str]:
    yield "1 attempt" if layer.attempts == 1 else f"{layer.attempts} attempts"
    if layer.timeout is not None:
        yield f"waits {span(layer.timeout)}"
    if layer.lifetime is not None:
        yield f"ended at {span(layer.lifetime)}"
    if layer.pause and layer.attempts > 1:
        grows = f" x{layer.backoff:g}" if layer.backoff > 1 else ""
        yield f"pauses {span(layer.pause)}{grows}"
    if layer.hands_down:
        yield "hands its deadline down"
    if layer.asynchronous:
        yield "its caller does not wait"


def _ladder(ladder: Ladder) -> Iterator[Text]:
    cells = _width() - _BESIDE_BAR
    last = max(copy.end for copy in ladder.copies)
    scale = span(last).rjust(cells - 1)
    yield Text(f"{'COPY':>5} {'START':>8}  0{scale}  {'LASTS':>8}  {'FOR NOBODY':>10}", style="dim")
    for number, copy in enumerate(ladder.copies[:MAX_DRAWN], start=1):
        yield Text.assemble(
            f"{number:>5} {span(copy.start):>8}  ",
            *_bar(copy, cells=cells, last=last),
            f"  {span(copy.lasts):>8}  {span(copy.for_nobody) if copy.for_nobody else '-':>10}",
        )
    if len(ladder.copies) > MAX_DRAWN:
        yield Text(f"{'…':>5} and {len(ladder.copies) - MAX_DRAWN} more")
    yield Text(f"{'':>14}  {WANTED} while its callers wait  {NOBODY} for nobody", style="dim")


def _bar(copy: Copy, *, cells: int, last: timedelta) -> list[tuple[str, str]]:
    """The bar of one copy: at least one cell, and at least one cell for nobody if it ran for nobody at all."""
    start = min(cells - 1, int(copy.start / last * cells))
    end = max(start + 1, math.ceil(copy.end / last * cells))
    left = round((copy.end - copy.for_nobody) / last * cells)
    left = min(max(left, start), end - 1) if copy.for_nobody else end
    return [
        (" " * start, ""),
        (WANTED * (left - start), GOOD),
        (NOBODY * (end - left), BAD),
        (" " * (cells - end), ""),
    ]


def _sums(chain: Chain, ladder: Ladder) -> Iterator[Text]:
    retrying = [f"{layer.name} {layer.attempts}" for layer in chain.layers if layer.attempts > 1]
    product = f"; ignoring time the attempts multiply to {chain.product} ({', '.join(retrying)})" if retrying else ""
    copies = len(ladder.copies)
    yield Text(f"{copies} {'copy' if copies == 1 else 'copies'}, at most {ladder.at_once} at once{product}")
    yield Text(f"database time {span(ladder.database)}, of it {span(ladder.for_nobody)} for nobody")
    style = GOOD if ladder.result is Result.SUCCEEDS else BAD
    yield Text.assemble("the run ", (str(ladder.result), style))


def _inversions(found: Sequence[Inversion]) -> Iterator[Text]:
    for each in found:
        parent = f"{each.parent} {'lives' if each.within else 'waits'} {span(each.wait)}"
        total = "without end" if each.total is None else f"for {span(each.total)}"
        yield Text.assemble(("inverted", BAD), f": {parent}, {each.child} can go on {total}")
        was = "" if each.was is None else f", now {_spelled(each.was)}"
        plain = "" if isinstance(each.to, int) else f" ({span(each.to)})"
        yield Text(f"  set {each.where}: {_spelled(each.to)}{plain}{was}")
    if found:
        yield Text("Each number counts those above it as changed. Where a parent ends its child itself when it stops")
        yield Text("waiting, say hands_down: true instead.")
    else:
        yield Text.assemble(("nothing is inverted", GOOD), ": every child ends before its parent's wait does")


def _spelled(value: timedelta | int) -> str:
    return str(value) if isinstance(value, int) else format_duration(value)


def _loop(loop: Loop) -> Iterator[Text]:
    formula = f"(R + 1)·rho = {loop.copies} x {loop.utilisation:.2f} = {loop.load:.2f}"
    if loop.feeds_itself:
        yield Text.assemble((formula, BAD), ": above 1, a retry loop would sustain itself")
    else:
        yield Text.assemble((formula, GOOD), ": not above 1, a retry loop would end by itself")


def _spike_lines(spike: Spike, courses: Sequence[Course]) -> Iterator[Text]:
    patience = "for ever" if spike.patience is None else _length(spike.patience)
    yield Text(
        f"a run every {_length(spike.period)} that needs {_length(spike.work)} alone "
        f"(rho {spike.work / spike.period:.2f}), callers wait {patience},"
    )
    yield Text(
        f"up to {spike.retries} retries; {spike.extra} runs more at {_length(spike.trigger)}. Most copies in flight:"
    )
    yield Text()
    mark = int(spike.trigger / spike.lasting * PLOTTED)
    axis = f"{'0':<{mark}}↓{_length(spike.lasting):>{PLOTTED - mark - 1}}"
    yield Text(f"{'':>21}  {axis}  {'MOST':>6} {'END':>6}", style="dim")
    for course in courses:
        yield Text(f"{course.remedy:>21}  {_plot(course)}")
    yield Text()
    for course in courses:
        yield Text.assemble(f"{course.remedy:>21}  ", *_came_of(course))
    if spike.patience is not None and spike.work >= spike.patience:
        yield Text(
            "Alone the query takes longer than its callers wait: no run can succeed, and no remedy changes that."
        )


def _plot(course: Course) -> str:
    peaks = course.peaks
    most = max(peaks)  # at least 1, because a run begins at 0:00
    bars = "".join(BARS[math.ceil(count * (len(BARS) - 1) / most)] for count in peaks)
    end = "-" if course.at_end is None else course.at_end
    return f"{bars:<{PLOTTED}}  {most:>6} {end:>6}"


def _came_of(course: Course) -> Iterator[tuple[str, str]]:
    yield _outcome(course)
    retries = f"{course.retries} retr{'y' if course.retries == 1 else 'ies'}"
    yield f"; {len(course.served) or 'none'} answered in time, {retries}", ""


def _outcome(course: Course) -> tuple[str, str]:
    """What became of the spike, and its style."""
    lasting = _length(course.lasting)
    if course.stopped is not None:
        return f"unknown after {_length(course.stopped)} of {lasting}: stopped at {MAX_EVENTS} events", BAD
    if course.recovered is None:
        return f"no run completed within {lasting}, and nobody gave up", BAD
    if not course.recovered:
        return f"not recovered after {lasting}", BAD
    if course.given_up:
        return f"recovers: nobody gives up after {_length(course.given_up[-1])}", GOOD
    return "nobody gives up", GOOD


def _length(value: timedelta) -> str:
    """A time span as text, in milliseconds where tenths of a second would show too little of it."""
    return span(value) if value >= _SHORT else format_duration(value)
