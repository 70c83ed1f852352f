"""The range of versions is written once; whatever names versions of its own agrees with it."""

import re
from pathlib import Path

from support.matrix import IMITATED, VERSIONS

from watchdog.core.observed.versions import MAX_SUPPORTED, MAX_TESTED, MIN_SUPPORTED, major, version_num

ROOT = Path(__file__).parents[2]


def test_a_server_of_each_supported_version_is_in_the_matrix() -> None:
    assert sorted(VERSIONS) == list(range(MIN_SUPPORTED, MAX_TESTED + 1))
    assert all(pin.startswith(f"{each}.") for each, pin in VERSIONS.items())


def test_the_last_row_of_the_matrix_imitates_the_one_supported_version_without_binaries() -> None:
    assert [*sorted(VERSIONS), IMITATED] == list(range(MIN_SUPPORTED, MAX_SUPPORTED + 1))


def test_the_readme_names_the_range() -> None:
    named = re.findall(r"PostgreSQL (\d+) to (\d+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert set(named) == {(str(MIN_SUPPORTED), str(MAX_TESTED))}


def test_the_major_version_is_what_stands_before_the_last_four_digits() -> None:
    assert [major(each) for each in (139999, 140000, 180006)] == [13, 14, 18]
    assert major(version_num(16)) == 16
