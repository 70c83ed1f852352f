"""Findings and looks as plain values for JSON. Reports and the web API use the same records.

Durations are floats in seconds. Times are in UTC and ISO 8601. An unknown value is None. This module knows nothing of
how the records are written out.
"""

from datetime import UTC, datetime, timedelta

from watchdog.core.acting.acts import ActResult
from watchdog.core.acting.verdicts import Due, UnderWay, Verdict, action_of, withheld_reason
from watchdog.core.judging.evidence import Finding
from watchdog.core.observed.activity import Backend
from watchdog.core.observed.names import split_client
from watchdog.core.observed.statement_failures import failing
from watchdog.core.observed.versions import is_untested
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.not_looked_for import NotLookedFor, not_looked_for

Record = dict[str, object]


def cluster_record(state: Look | Unread | None, *, server: str, judges: bool) -> Record:
    """One cluster: whether it was read, whether all rows were visible, whether it was judged, and its findings.

    A `state` of None means that the cluster has not been looked at yet. `judges` is False if no budget is configured. A
    lack of findings then means nothing.
    """
    if isinstance(state, Look):
        return {
            "server": server,
            "read": True,
            "reason": None,
            "detail": None,
            "complete": state.complete,
            "judged": judges,
            "at": _instant(state.snapshot.at),
            "version": state.census.version,
            "unjudged": dict(state.judgement.unjudged),
            "not_looked_for": [_limit_record(each) for each in not_looked_for(state)],
            "statements_failing": failing(state.statement_failures),
            "untested": is_untested(state.census.server_version),
            "breakers": [{"rule": each.rule, "role": each.role} for each in state.decisions.open_breakers],
            "armed": not state.disarmed,
            "disarmed": [str(each) for each in state.disarmed],
            "findings": [judged_record(verdict, server=server) for verdict in state.decisions.verdicts],
        }
    return {
        "server": server,
        "read": False,
        "reason": "not_yet" if state is None else str(state.reason),
        "detail": None if state is None else state.detail,
        "complete": False,
        "judged": False,
        "at": None,
        "version": None,
        "unjudged": None,
        "not_looked_for": None,
        "statements_failing": None,
        "untested": None,
        "breakers": None,
        "armed": False,
        "disarmed": [],
        "findings": [],
    }


def judged_record(verdict: Verdict, *, server: str) -> Record:
    """One finding with its verdict, under the names of the glossary."""
    return {**finding_record(verdict.finding, server=server), "verdict": verdict_record(verdict)}


def _limit_record(limit: NotLookedFor) -> Record:
    return {
        "what": str(limit.what),
        "failed": limit.failed,
        "names": list(limit.names),
        "count": limit.count,
        "sentence": limit.sentence,
    }


def finding_record(finding: Finding, *, server: str) -> Record:
    """One finding as a flat record."""
    backend, budget = finding.backend, finding.budget
    return {
        "server": server,
        "pid": backend.pid,
        "backend_start": _instant(backend.started),
        "role": backend.role,
        "database": backend.database,
        "job": finding.key.job if finding.key else None,
        "window": finding.key.window if finding.key else None,
        "state": backend.state,
        "wait_event_type": backend.wait_event_type,
        "wait_event": backend.wait_event,
        # A number beyond 2**53 is not exact in most readers of JSON, and nearly every query id is one.
        "query_id": None if backend.query_id is None else str(backend.query_id),
        "client": _client(backend),
        "kind": str(finding.kind),
        "evidence": [str(evidence) for evidence in finding.evidence],
        "clock": str(finding.clock),
        "start": _instant(finding.run.start),
        "running_seconds": _seconds(finding.running),
        "budget_seconds": _seconds(budget.limit) if budget else None,
        "budget": budget.source if budget else None,
        "overrun_seconds": _seconds(finding.overrun),
        "blocks": finding.blocks,
        "alike": finding.alike,
    }


def verdict_record(verdict: Verdict) -> Record:
    """A verdict: its hand, its action and rule, and the reason if the action is withheld."""
    return {
        "hand": str(verdict.hand) if isinstance(verdict, UnderWay | Due) else "none",
        "action": str(action_of(verdict)),
        "rule": None if verdict.rule is None else verdict.rule.name,
        "withheld": withheld_reason(verdict),
        "carried_out": isinstance(verdict, UnderWay),
        "passed_over": list(verdict.passed_over),
    }


def act_record(done: ActResult) -> Record:
    """One act: what was done, the finding for which it was done, and the answer. Its outcome is not known yet."""
    act = done.act
    return {
        "act": act.id,
        "at": _instant(act.at),
        "hand": str(act.hand),
        "rule": act.rule.name,
        "attempt": act.attempt,
        "result": str(done.result),
        "withheld": done.withheld,
        "detail": done.detail or None,
        "lag_seconds": _seconds(done.lag),
        **finding_record(act.finding, server=act.server),
    }


def _client(backend: Backend) -> str | None:
    """The client's address and port, or None for a Unix-domain socket.

    If a pooler appends the address of the real client to application_name, that address is used.
    """
    true = split_client(backend.application_name)[1]
    if true is not None or backend.client is None:
        return true
    address = f"[{backend.client.address}]" if ":" in backend.client.address else backend.client.address
    return f"{address}:{backend.client.port}"


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else round(span.total_seconds(), 3)


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
