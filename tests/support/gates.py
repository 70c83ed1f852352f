"""Tools for tests of acts: statements that wait for the test, the acts of several looks, events before the signal."""

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
"""An SQL expression that waits for the first gate."""
WAIT_AGAIN = "pg_advisory_xact_lock_shared(2)"
"""An SQL expression that waits for the second gate."""


@dataclass
class Gates:
    """Two advisory locks, both held. A statement that gets through an opened gate was not cancelled before.

    So a test needs no waiting time to show that nothing was cancelled.
    """

    holder: Client

    def __post_init__(self) -> None:
        self.holder.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")

    def open(self, gate: int = 1) -> None:
        self.holder.execute("SELECT pg_advisory_unlock(%s)", [gate])


def acts_of(look: Look) -> list[tuple[int, Result]]:
    return [(each.act.finding.backend.pid, each.result) for each in look.results]


async def only_these_are_signalled(cycle: Cycle, expected: Mapping[int, Withheld | None]) -> list[Look]:
    """Look until every pid has been found and every pid without a reason has been signalled, then twice more.

    Asserts that each pid with a reason is withheld for that reason in every look that finds it as an orphan, and that
    nothing else is acted on.
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
    """Call `happens` between the intent and the guarded statement. It may return another target."""
    real = PostgresSource.cancel

    async def cancel(source: PostgresSource, target: CancelTarget, *, act: str) -> tuple[Result, Withheld | None, str]:
        return await real(source, happens(target) or target, act=act)

    monkeypatch.setattr(PostgresSource, "cancel", cancel)
