"""A ledger in memory: the port `Ledger` without a database. It passes the same contract tests as the real one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from watchdog.core.acting.acts import Act, ActResult, ObservedEffect
from watchdog.core.acting.recall import Recorded
from watchdog.core.observed.census import UNKNOWN_SERVER, ServerIdentity
from watchdog.errors import LedgerError
from watchdog.ledger.rows import recorded_of, row_of

OPEN = (None, "signalled", "timed_out")
UNANSWERED = dict.fromkeys(("result", "detail", "outcome", "outcome_at", "regret", "came_back_at"))


@dataclass(slots=True)
class MemoryLedger:
    """Acts as rows by id. While `failure` is set, every call of the port raises it."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # with the types of a database
    names: dict[str, tuple[ServerIdentity, str]] = field(default_factory=dict)
    failure: LedgerError | None = None

    def outcomes(self) -> list[str | None]:
        """The outcomes of all acts, in the order of the intents."""
        return [row["outcome"] for row in self.rows.values()]

    async def intend(self, acts: Sequence[Act]) -> None:
        self._check()
        if any(act.id in self.rows for act in acts):
            raise LedgerError("ledger: that act is on record already")
        self.rows |= {act.id: row_of(act) | UNANSWERED for act in acts}

    async def record(
        self,
        results: Iterable[ActResult],
        *,
        effects: Iterable[ObservedEffect],
        came_back: Iterable[tuple[str, datetime]],
    ) -> None:
        self._check()
        for each in results:
            detail = each.detail or (str(each.withheld) if each.withheld else None)
            self._update(each.act.id, result=str(each.result), detail=detail)
        for effect in effects:
            self._update(effect.id, outcome=str(effect.outcome), outcome_at=effect.at, regret=effect.regret)
        for act, at in came_back:
            self._update(act, came_back_at=at)

    async def claim(self, server: str, identity: ServerIdentity, *, claimant: str) -> bool:
        self._check()
        known, by = self.names.get(server, (identity, claimant))
        if known.is_other_server(identity) and by != claimant:
            return False
        self.names[server] = (identity, claimant)
        return True

    async def recall(
        self, server: str, *, since: datetime, at: datetime, identity: ServerIdentity = UNKNOWN_SERVER
    ) -> list[Recorded]:
        self._check()
        mine = [row for row in self.rows.values() if row["server"] == server]
        told = sorted((row for row in mine if row["intended_at"] >= since), key=lambda r: (r["intended_at"], r["id"]))
        records = [recorded_of(dict(row)) for row in told]
        for row in mine:
            mine_too = ServerIdentity(row["system_identifier"], None)
            if row["outcome"] is None and row["result"] in OPEN and not mine_too.is_other_cluster(identity):
                row.update(outcome="unknown", outcome_at=at)
        return records

    def _update(self, act: str, **values: object) -> None:
        if act in self.rows:
            self.rows[act].update(values)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
