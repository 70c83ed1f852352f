from datetime import timedelta

import pytest

from watchdog.settings.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("15min", 900), ("15m", 900), ("1.5h", 5400), ("250ms", 0.25), ("2d", 172_800), ("5 s", 5)],
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", [30, 1.5, "30", "0", 0, "0s", "-1s", -1, "1h30m", "soon", "", "1e3s", None, True, [], "99999d", "0.1ms"]
)
def test_anything_else_is_refused_with_what_to_write(text: object) -> None:
    with pytest.raises(ValueError, match=r"write a number with a unit|too short|longer than ten years"):
        parse_duration(text)


def test_zero_is_fine_where_it_makes_sense_and_only_with_a_unit() -> None:
    assert parse_duration("0s", zero=True) == timedelta(0)
    with pytest.raises(ValueError, match="no unit"):
        parse_duration(0, zero=True)


@pytest.mark.parametrize("text", ["30s", "15min", "90min", "2d", "250ms", "1500ms", "1h"])
def test_a_duration_is_spelled_as_it_can_be_read_back(text: str) -> None:
    assert format_duration(parse_duration(text)) == text
