"""Text for standard output: what is drawn on a console, as a string, and a cell of a Markdown table."""

import io
from collections.abc import Callable

from rich.console import Console


def drawn(draw: Callable[[Console], None], *, width: int, color: bool | None = None) -> str:
    """What `draw` prints on a console of `width` columns, without blanks at the ends of lines.

    `color` None: as the terminal can.
    """
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        draw(console)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def cell(text: str) -> str:
    """One cell of a Markdown table: one line, its bars escaped."""
    return " ".join(text.replace("|", "\\|").split())
