from collections.abc import Callable

import pytest
from support.processes import command


@pytest.mark.parametrize(
    "name",
    ["", "run", "report", "explain", "cancel", "history", "doctor", "chain", "grants", "check", "schema", "demo"],
)
def test_golden_the_help_of_each_command(name: str, golden: Callable[[str, str], None]) -> None:
    done = command(*([name] if name else []), "--help")
    assert done.returncode == 0
    golden(f"help{'-' if name else ''}{name}.txt", done.stdout)
