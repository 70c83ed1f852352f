"""Draws the table of `docs/demo.md` as `docs/demo.svg`: for each story how long its work ran on for nobody.

Run by `make docs`. The figures are those of the page, which is a transcript of `make demo`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
ROW = re.compile(r"^ ?(?P<name>[A-K ])  (?P<title>\S.*?)\s{2,}(?P<dry>[\d.]+ s|-)\s+(?P<armed>[\d.]+ s|-)\s")
LEFT, SCALE, BAR, GAP = 250, 22, 14, 12
DRY, ARMED, TEXT = "#c2410c", "#0f766e", "#64748b"


@dataclass(frozen=True, slots=True)
class Story:
    """One row of the table: seconds for nobody in dry run and armed."""

    title: str
    dry_run: float
    armed: float


def stories(page: str) -> list[Story]:
    """The rows of the table in which work ran on for nobody."""
    found = []
    lines = page.splitlines()
    for i, line in enumerate(lines):
        match = ROW.match(line)
        if match is None or match["dry"] == "-":
            continue
        more = re.match(r"^    (\S.*?)(?:\s{2,}|$)", lines[i + 1]) if match["name"] != " " else None
        title = f"{match['title']} {more[1]}" if more and not more[1].startswith("its copy") else match["title"]
        found.append(Story(title, float(match["dry"].split()[0]), float(match["armed"].split()[0])))
    return found


def picture(page: str) -> str:
    """The picture as SVG. It reads on a light and on a dark page."""
    rows = stories(page)
    height = 60 + len(rows) * (2 * BAR + GAP)
    width = LEFT + int(max(row.dry_run for row in rows) * SCALE) + 70
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Seconds for nobody">',
        f'<text x="{LEFT}" y="18" fill="{TEXT}">seconds that the work ran on after its caller had left</text>',
        f'<text x="{LEFT}" y="38" fill="{DRY}">■ dry run</text>',
        f'<text x="{LEFT + 80}" y="38" fill="{ARMED}">■ armed</text>',
    ]
    for i, row in enumerate(rows):
        top = 52 + i * (2 * BAR + GAP)
        parts.append(
            f'<text x="{LEFT - 10}" y="{top + BAR + 4}" text-anchor="end" fill="{TEXT}">{escape(row.title)}</text>'
        )
        for seconds, color, offset in ((row.dry_run, DRY, 0), (row.armed, ARMED, BAR)):
            wide = max(2, int(seconds * SCALE))
            parts.append(f'<rect x="{LEFT}" y="{top + offset}" width="{wide}" height="{BAR - 2}" fill="{color}"/>')
            parts.append(f'<text x="{LEFT + wide + 6}" y="{top + offset + 10}" fill="{TEXT}">{seconds:.1f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write the picture."""
    (DOCS / "demo.svg").write_text(picture((DOCS / "demo.md").read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
