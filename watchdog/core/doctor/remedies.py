"""The SQL of all checks of an audit as one block, which an administrator reviews and then runs with psql.

This module knows nothing of the individual checks.
"""

from collections.abc import Iterable

from watchdog.core.doctor.checks import Check
from watchdog.core.present.escapes import printable

RELOAD = "SELECT pg_reload_conf();"


def block(checks: Iterable[Check], *, server: str) -> str:
    """The block of SQL. Each statement occurs once, below the check that first asks for it and what the check saw."""
    lines = [f"-- {_one_line(server)}. Review it, then pipe it to psql. Open sessions keep what they began with."]
    statements: list[str] = []
    for check in checks:
        new = [each for each in check.sql if each not in statements]
        if new:
            lines += ["", f"-- {check.name}, {_one_line(check.scope)}: {_one_line(check.saw)}", *new]
            statements += new
    if not statements:
        return f"{lines[0]}\n-- Nothing to close.\n"
    if any(each.startswith("ALTER SYSTEM") for each in statements):
        lines += ["", RELOAD]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """Replace line breaks, so that a name from the server cannot end a comment and begin a statement."""
    return printable(" ".join(text.split()))
