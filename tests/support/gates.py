"""Statements that wait until the test lets them go on, acts expected of a row of looks, what happens in between."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from support.servers import Client
from support.watching import look_until, orphaned, verdict_of
from watchdog.core.acting.acts import CancelTarget, Result
from watchdog.core.acting.verdicts import Withheld, withheld_reason
from watchdog.core.present.look import Look
from watchdog.postgres.source import PostgresSource
from watchdog.runtime.cycle import Cycle

CANCELED = "57014"
WAIT = "pg_advisory_xact_lock_shared(1)"
"""An expression that waits for the first gate; `WAIT_AGAIN` for the second."""
WAIT_AGAIN = "pg_advisory_xact_lock_shared(2)"


@dataclass
class Gates:
    """Two gates, both shut. A statement that passes in the end has not been cancelled: no race is left to wait out."""

    holder: Client

    def __post_init__(self) -> None:
        self.holder.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")

    def open(self, gate: int = 1) -> None:
        self.holder.execute("SELECT pg_advisory_unlock(%s)", [gate])


def acts_of(look: Look) -> list[tuple[int, Result]]:
    return [(each.act.finding.backend.pid, each.result) for each in look.results]


async def only_these_are_signalled(cycle: Cycle, expected: Mapping[int, Withheld | None]) -> list[Look]:
    """Look until every pid has been found and those without a reason are signalled, then twice more.

    Each pid with a reason is withheld for it in every look that finds it; nothing else is acted on.
    """
    victims = {pid for pid, reason in expected.items() if reason is None}
    spared = expected.keys() - victims
    looks: list[Look] = []
    seen: set[int] = set()

    def all_said(look: Look) -> bool:
        looks.append(look)
        seen.update(pid for pid in spared if orphaned(look, pid))
        return seen >= spared and {pid for each in looks for pid, _ in acts_of(each)} >= victims

    await look_until(cycle, all_said)
    looks += [await cycle.look(tick=True) for _ in range(2)]
    said = {
        (pid, withheld_reason(verdict))
        for look in looks
        for pid in spared
        if orphaned(look, pid)
        for verdict in [verdict_of(look, pid)]
    }
    assert said == {(pid, expected[pid]) for pid in spared}, said
    acts = sorted(act for look in looks for act in acts_of(look))
    assert acts == [(pid, Result.SIGNALLED) for pid in sorted(victims)], acts
    return looks


def before_the_signal(monkeypatch: pytest.MonkeyPatch, happens: Callable[[CancelTarget], CancelTarget | None]) -> None:
    """Let something happen between the intent and the guarded statement; it may also bend what is aimed at."""
    real = PostgresSource.cancel

    async def cancel(source: PostgresSource, target: CancelTarget, *, act: str) -> tuple[Result, Withheld | None, str]:
        return await real(source, happens(target) or target, act=act)

    monkeypatch.setattr(PostgresSource, "cancel", cancel)
