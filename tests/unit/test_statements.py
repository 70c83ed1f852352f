"""The statements of `sql/`: one declaration each, every column with a name, and the text that suits the server."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from support.statements import declared

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.postgres.sql import Texts, own_texts
from watchdog.postgres.statements import Statement

TEXTS = [
    pytest.param(name, text.decode(), id=name if newest == sys.maxsize else f"{name}@{newest}")
    for name, texts in own_texts().by_name.items()
    for newest, text in texts.items()
]


class TwoRow(NamedTuple):
    pid: int
    state: str


TWO = Statement("two", TwoRow)


def test_each_statement_is_declared_once_and_each_declaration_has_a_text() -> None:
    assert [each.name for each in declared()] == sorted(own_texts().by_name)


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_every_column_of_a_statement_has_a_name_and_it_is_that_of_the_field(name: str, text: str) -> None:
    [statement] = [each for each in declared() if each.name == name]
    assert named_columns(text) == list(statement.row._fields)


def named_columns(text: str) -> list[str]:
    """What stands behind the last AS of each column of the outermost SELECT; nothing for another command."""
    text = re.sub(r"--[^\n]*", "", text)
    if "SELECT " not in text:
        return []
    text = re.sub(r"'[^']*'", "''", text)
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    columns = re.split(r"(?<!DISTINCT)\s+FROM\s", text.rpartition("SELECT ")[2])[0].split(",")
    return [match[1] if (match := re.search(r"\sAS (\w+)\s*$", column)) else f"no name: {column}" for column in columns]


def test_a_column_without_a_name_is_told_apart() -> None:
    assert named_columns(
        "SELECT a.pid AS pid, f(a, 'x,(') , CASE WHEN a IS DISTINCT FROM b THEN 1 END AS c FROM a"
    ) == [
        "pid",
        "no name:  f ",
        "c",
    ]


def test_rows_have_the_names_of_their_type() -> None:
    [row] = TWO.rows([(7, "idle")])
    assert (row.pid, row.state) == (7, "idle")


@pytest.mark.parametrize("columns", [("pid",), ("state", "pid"), ("pid", "state", "query"), ("pid", "wait_event")])
def test_other_columns_are_an_internal_error_that_names_both(columns: tuple[str, ...]) -> None:
    with pytest.raises(ReadError) as caught:
        TWO.check(columns)
    assert caught.value.reason is Reason.INTERNAL
    assert str(caught.value) == f"statement two: expected the columns pid, state; received {', '.join(columns)}"


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (140023, b"to 15"),
        (150019, b"to 15"),
        (160000, b"to 17"),
        (170011, b"to 17"),
        (180000, b"newest"),
        (190001, b"newest"),
    ],
)
def test_a_server_gets_the_lowest_variant_that_is_not_below_its_version(
    tmp_path: Path, version: int, text: bytes
) -> None:
    files = {"poll.sql": b"newest", "poll@17.sql": b"to 17", "poll@15.sql": b"to 15", "poll_x@18.sql": b"another's"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert Texts.read(tmp_path).pick("poll", version=version) == text


def test_a_statement_without_variants_is_for_every_server(tmp_path: Path) -> None:
    (tmp_path / "poll.sql").write_bytes(b"the only one")
    (tmp_path / "poll.sql.orig").write_bytes(b"no statement")
    texts = Texts.read(tmp_path)
    assert {texts.pick("poll", version=version) for version in (140000, 180006)} == {b"the only one"}
    assert set(texts.by_name) == {"poll"}
