"""Texts that many readers ask for are made once for each new look, and at most once a second."""

import pytest
from test_series import look

from watchdog.web.server import Rendered, State


def test_a_text_is_made_again_only_when_a_look_is_new_and_a_second_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, made = [100.0], list[int]()
    monkeypatch.setattr("watchdog.web.server.time.monotonic", lambda: now[0])
    states: list[State] = [("main", None)]

    def render(of: list[State]) -> str:
        made.append(len(of))
        return f"{len(made)}"

    shown = Rendered(lambda: list(states), render)
    assert [shown.text() for _ in range(50)] == ["1"] * 50
    states[0] = ("main", look())
    assert shown.text() == "1", "not twice a second, however often clusters are looked at"
    now[0] += 1.0
    assert [shown.text() for _ in range(50)] == ["2"] * 50
    now[0] += 100.0
    assert shown.text() == "2", "nothing is new"
    states.append(("second", None))
    assert shown.text() == "3"
