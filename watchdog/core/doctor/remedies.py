"""The changes of all checks of an audit as one block of SQL, which an administrator reviews and then runs with psql.

This module knows nothing of the individual checks.
"""

from collections.abc import Iterable

from watchdog.core.doctor.changes import Remedy, SetParameter, one_line
from watchdog.core.doctor.checks import Check

RELOAD = "SELECT pg_reload_conf();"


def block(checks: Iterable[Check], *, server: str, runner: str | None = None) -> str:
    """The block of SQL. Each change occurs once, below the check that first asks for it and what the check saw.

    `runner` is the role that will run the block; without one it is a superuser. What it may not run is a comment.
    """
    who = "a superuser" if runner is None else f"role {one_line(runner)}"
    lines = [
        f"-- {one_line(server)}, for {who}. Review it, then pipe it to psql. Open sessions keep what they began with."
    ]
    seen: list[Remedy] = []
    for check in checks:
        new = [each for each in check.remedies if each not in seen]
        if new:
            lines += ["", f"-- {check.name}, {one_line(check.scope)}: {one_line(check.saw)}"]
            lines += [line for each in new for line in each.lines]
            seen += new
    if not seen:
        return f"{lines[0]}\n-- Nothing to close.\n"
    if any(isinstance(each.change, SetParameter) and not each.withheld for each in seen):
        lines += ["", RELOAD]
    return "\n".join(lines) + "\n"
