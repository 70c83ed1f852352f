"""Text for standard output: the output of a rich console as a string, and cells of a Markdown table."""

import io
from collections.abc import Callable

from rich.console import Console

from watchdog.core.present.escapes import printable


def drawn(draw: Callable[[Console], None], *, width: int, color: bool | None = None) -> str:
    """What `draw` prints on a console of `width` columns, without trailing blanks.

    With `color` None there are colours only if the environment asks for them, for example with FORCE_COLOR, because the
    console writes to a string and not to a terminal.
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
    """The text as one cell of a Markdown table: printable, on one line, with `|` escaped."""
    return " ".join(printable(text).replace("|", "\\|").split())
