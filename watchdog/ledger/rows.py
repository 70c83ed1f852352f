"""Converts acts to rows of the ledger, and rows to the core's records of earlier acts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from watchdog.core.acting.acts import Act, Outcome, Result
from watchdog.core.acting.recall import Recorded
from watchdog.core.acting.verdicts import Hand
from watchdog.core.judging.copies import CopyKey
from watchdog.core.judging.evidence import Evidence
from watchdog.core.observed.activity import Clock, Run
from watchdog.core.observed.census import ServerIdentity

Row = Mapping[Any, Any]  # the columns of one act with the types of the database


def row_of(act: Act) -> dict[str, object]:
    """The intent of an act as a row: everything that was known at the decision, without result and outcome."""
    finding = act.finding
    backend, budget, key = finding.backend, finding.budget, finding.key
    statement = backend.start(Clock.STATEMENT)
    return {
        "id": act.id,
        "server": act.server,
        "rule": act.rule.name,
        "hand": str(act.hand),
        "kind": str(finding.kind),
        "evidence": ",".join(finding.evidence),
        "attempt": act.attempt,
        "pid": backend.pid,
        "backend_start": backend.started,
        "run_start": finding.run.start,
        "statement_start": None if statement is None else statement.at,
        "transaction_start": None if backend.transaction is None else backend.transaction.at,
        "clock": str(finding.clock),
        "role": backend.role,
        "database": backend.database,
        "job": None if key is None else key.job,
        "window": None if key is None else key.window,
        "state": backend.state,
        "running_seconds": finding.running.total_seconds(),
        "budget": None if budget is None else budget.source,
        "budget_seconds": None if budget is None else budget.limit.total_seconds(),
        "blocks": finding.blocks,
        "intended_at": act.at,
        "action": str(act.rule.action),
        "system_identifier": act.identity.system_identifier,
        "postmaster_start": act.identity.postmaster_start,
    }


def recorded_of(row: Row) -> Recorded:
    """A row as the core's record of an earlier act."""
    job = cast("str | None", row["job"])
    key = None if job is None else CopyKey(row["database"], row["role"], job, row["window"] or "")
    return Recorded(
        id=row["id"],
        rule=row["rule"],
        hand=Hand(row["hand"]),
        run=Run(row["pid"], row["backend_start"], row["run_start"]),
        statement=cast("datetime | None", row["statement_start"]),
        transaction=cast("datetime | None", row["transaction_start"]),
        clock=Clock(row["clock"]),
        role=row["role"],
        key=key,
        client_gone=Evidence.CLIENT_GONE in str(row["evidence"]).split(","),
        attempt=row["attempt"],
        at=row["intended_at"],
        result=None if row["result"] is None else Result(row["result"]),
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        outcome_at=cast("datetime | None", row["outcome_at"]),
        came_back_at=cast("datetime | None", row["came_back_at"]),
        identity=ServerIdentity(row["system_identifier"], cast("datetime | None", row["postmaster_start"])),
    )
