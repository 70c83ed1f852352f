"""How a name in the configuration is compared with one that the server shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.core.observed.names import (
    MAX_BYTES,
    NameTable,
    matches,
    matches_application,
    overlap,
    pattern_problem,
    split_client,
)

BUSY = "sidekiq 7.0 shop [3 of 10 busy]"
CLASS_NAME = "com.example.reporting.nightly.MonthEndCloseJobForAllTenantsAndYears"
CLOSE = "month-end-close"
LONG = "reporting/month-end-close/of-the-northern-subsidiaries/2026"


@pytest.mark.parametrize(
    ("name", "true", "client"),
    [
        ("scan:a:w1 - 10.0.0.5:4321", "scan:a:w1", "10.0.0.5:4321"),
        ("scan:a:w1 - ::1:4321", "scan:a:w1", "::1:4321"),
        ("scan:a:w1 - unix(77):6432", "scan:a:w1", "unix(77):6432"),
        ("a - b - 10.0.0.5:4321", "a - b", "10.0.0.5:4321"),
        ("scan:a:w1 - 10.0.0.5:", "scan:a:w1", "10.0.0.5:"),
        ("scan:a:w1", "scan:a:w1", None),
        ("report - monthly", "report - monthly", None),
        ("scan:a:2026 - 11:30", "scan:a:2026 - 11:30", None),
        ("scan:a:2026 - 11:30:15", "scan:a:2026 - 11:30:15", None),
    ],
)
def test_what_a_pooler_put_behind_a_name_is_taken_off(name: str, true: str, client: str | None) -> None:
    assert split_client(name) == (true, client)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("web", "web", True),
        ("web", "Web", False),
        ("web", "web2", False),
        ("v-web-*", "v-web-k2h9", True),
        ("v-web-*", "w-v-web-k2h9", False),
        ("*", "anybody", True),
        ("*", "", False),
        ("web?", "web7", True),
        ("web?", "web", False),
        ("web[0-9]", "web7", False),
        ("web[0-9]", "web[0-9]", True),
        ("glob:web[0-9]", "web7", True),
        ("glob:web[!0-9]*", "webx1", True),
        ("glob:web[!0-9]*", "web1x", False),
        ("glob:web[", "web[", True),
        ("glob:[]x]", "]", True),
        ("a.c", "abc", False),
        ("a*\nb", "a\n\nb", True),
    ],
)
def test_stars_and_question_marks_are_wildcards_and_brackets_only_where_the_pattern_says_glob(
    *, pattern: str, name: str, expected: bool
) -> None:
    assert matches(name, (pattern,)) is expected


def cut(name: str) -> str:
    return name.encode()[:MAX_BYTES].decode(errors="ignore")


@pytest.mark.parametrize(
    ("configured", "shown"),
    [
        (BUSY, BUSY),
        ("Monatsabschluss täglich", "Monatsabschluss täglich"),
        ("Monatsabschluss täglich", "Monatsabschluss t??glich"),
        ("Monatsabschluss täglich", r"Monatsabschluss t\xc3\xa4glich"),
        ("Monatsabschluss täglich", r"Monatsabschluss t\xe4glich"),
        ("*täglich*", r"Monatsabschluss t\xc3\xa4glich"),
        (CLASS_NAME, cut(CLASS_NAME)),
        (CLASS_NAME[:-3] + "*", cut(CLASS_NAME)),
        ("*" + CLASS_NAME[-20:], cut(CLASS_NAME)),
        (CLOSE, f"{CLOSE} - 10.0.0.5:4321"),
        (CLOSE, f"{CLOSE} - unix(77):6432"),
        (CLOSE + " - *", f"{CLOSE} - 10.0.0.5:4321"),
        (LONG, cut(f"{LONG} - 10.0.0.5:4321")),
        (LONG, cut(f"{LONG} - unix(77):6432")),
        ("x" * 58 + "täglich", cut("x" * 58 + r"t\xc3\xa4glich")),
        ("a\tb", r"a\x09b"),
        ("a\tb", "a?b"),
    ],
)
def test_d07_a_protected_name_is_known_as_the_server_shows_it(configured: str, shown: str) -> None:
    """Rule: a configured name that spares is compared in one form, and where the end was cut its beginning counts."""
    assert len(shown.encode()) <= MAX_BYTES
    assert matches_application(shown, (configured,), spares=True)


@pytest.mark.parametrize(
    ("configured", "shown"),
    [
        (BUSY, "sidekiq 7.0 shop 3"),
        (CLOSE, CLOSE[:-1]),
        (CLOSE, CLOSE + "r"),
        (CLASS_NAME, "x" * MAX_BYTES),
        (CLASS_NAME, CLASS_NAME[:59]),
        ("täglich", "t glich"),
        ("a", ""),
    ],
)
def test_another_name_or_a_part_of_one_that_was_not_cut_is_not_taken_for_it(configured: str, shown: str) -> None:
    assert not matches_application(shown, (configured,), spares=True)


def test_what_a_rule_asks_for_must_be_shown_whole() -> None:
    assert not matches_application(cut(CLASS_NAME), (CLASS_NAME,), spares=False)
    assert not matches_application(cut(f"{LONG} - 10.0.0.5:4321"), (LONG,), spares=False)
    assert matches_application(f"{CLOSE} - 10.0.0.5:4321", (CLOSE,), spares=False)


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="*?\x00"), min_size=1, max_size=100), old=st.booleans()
)
def test_whatever_is_protected_by_its_whole_name_is_known_in_both_spellings_of_the_server(
    *, text: str, old: bool
) -> None:
    if text.startswith("glob:"):
        return
    shown = "".join(
        chr(byte) if 32 <= byte < 127 else "?" if old else f"\\x{byte:02x}" for byte in text.encode("utf-8")
    )
    assert matches_application(shown[:MAX_BYTES], (text,), spares=True)


PIECE = st.text(st.sampled_from("ab*?"), min_size=1, max_size=6)


@given(PIECE, PIECE, st.text(st.sampled_from("ab"), min_size=1, max_size=8))
def test_two_patterns_that_match_one_name_overlap(one: str, other: str, name: str) -> None:
    if matches(name, (one,)) and matches(name, (other,)):
        assert overlap(one, other)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a*", "b*", False),
        ("a*", "*b", True),
        ("a?", "ab", True),
        ("a?", "abc", False),
        ("v-*-x", "v-*-y", False),
        ("glob:[ab]*", "c*", True),
        ("*", "x", True),
    ],
)
def test_patterns_without_a_common_name_do_not_overlap(*, one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


def test_a_literal_counts_before_a_pattern_and_of_patterns_the_one_with_more_literal_characters() -> None:
    table = NameTable({"v-*": 1, "v-web-*": 2, "v-web-root": 3, "*": 4})
    assert [table.pattern_of(each) for each in ("v-web-root", "v-web-k2", "v-job", "x")] == [
        "v-web-root",
        "v-web-*",
        "v-*",
        "*",
    ]
    assert NameTable({"v-*": 1}).pattern_of("x") is None
    assert list(table.ties()) == []
    assert list(NameTable({"v-*-a": 1, "v-a-*": 2, "x*": 3}).ties()) == [("v-*-a", "v-a-*")]


def test_a_set_of_characters_that_is_none_is_a_problem() -> None:
    assert pattern_problem("glob:[z-a]") == "[z-a] is no set of characters"
    assert pattern_problem("[z-a]") is None
