"""Renders reports as a table for 80 columns, as Markdown and as JSON.

Every table and Markdown report names the clusters that were not read and the work that was not judged.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from datetime import timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from watchdog.cli.text import cell, drawn
from watchdog.core.acting.verdicts import Verdict
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.cases import Case
from watchdog.core.judging.evidence import Kind
from watchdog.core.observed.activity import ActivityKind
from watchdog.core.present.escapes import printable
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.phrases import (
    arming_words,
    breaker_words,
    failure_words,
    gravest_first,
    ignored_holders,
    limit_words,
    nothing_found,
    span,
    untested_words,
    verdict_words,
)
from watchdog.core.present.records import cluster_record

State = Look | Unread

WIDTH = 80
MAX_NOT_JUDGED = 10
STYLES = {Kind.ORPHAN: "bold red", Kind.DUPLICATE: "yellow", Kind.NEARING: "yellow", Kind.HOLDING: "magenta"}
HOW_TO_JUDGE = "No budget to judge by: give --budget 15min, or budgets in a configuration file."


def table(states: Sequence[State], *, book: BudgetBook, arming: bool = False, color: bool | None = None) -> str:
    """The report as text with one section per cluster.

    With `arming` each section says whether the cluster is armed, and if not, why. `color` is passed
    to `drawn`.
    """

    def draw(console: Console) -> None:
        for state in states:
            _section(console, state, book=book, arming=arming)
        if book.empty:
            console.print(HOW_TO_JUDGE)

    width = max(WIDTH, min(shutil.get_terminal_size((WIDTH, 24)).columns, 120))
    return drawn(draw, width=width, color=color)


def markdown(states: Sequence[State], *, book: BudgetBook, arming: bool = False) -> str:
    """The report as one Markdown table, and a list of what was not read or not judged."""
    columns = ("server", "finding", "role", "job", "window", "running for", "budget", "evidence", "blocks", "alike")
    head = [f"| {' | '.join((*columns, 'pid'))} |", f"|{'---|' * (len(columns) + 1)}"]
    lines: list[str] = []
    notes = []
    for state in states:
        if isinstance(state, Look):
            lines += [f"| {' | '.join(cell(each) for each in _row(state.server, v))} |" for v in gravest_first(state)]
        notes += [f"- **{cell(state.server)}**: {cell(note)}" for note in _notes(state, book=book, arming=arming)]
    if book.empty:
        notes.append(f"- {HOW_TO_JUDGE}")
    return "\n".join([*(head if lines else []), *lines, "", *notes]).strip() + "\n"


def as_json(states: Sequence[State], *, book: BudgetBook, lines: bool) -> str:
    """The report as JSON with the same structure as `/api/v1/findings`. With `lines` it is written on one line."""
    records = [cluster_record(state, server=state.server, judges=not book.empty) for state in states]
    return json.dumps({"clusters": records}, indent=None if lines else 2) + "\n"


def _section(console: Console, state: State, *, book: BudgetBook, arming: bool) -> None:
    console.print(Text.assemble((printable(state.server), "bold"), f"  {_headline(state)}"))
    if isinstance(state, Look):
        verdicts = gravest_first(state)
        if verdicts:
            console.print(_findings(verdicts))
        unjudged = _longest_unjudged(state) if book.empty else []
        if unjudged:
            console.print(_not_judged(unjudged))
    for note in _notes(state, book=book, arming=arming):
        console.print(Text(f"  {printable(note)}", style="" if note.startswith("Nothing found") else "bold"))
    console.print()


def _headline(state: State) -> str:
    if isinstance(state, Unread):
        return "NOT READ"
    cases = state.judgement.cases
    running = sum(case.activity is ActivityKind.RUNNING for case in cases)
    standby = ", standby" if state.snapshot.in_recovery else ""
    counts = f"{running} running, {len(cases) - running} holding"
    return f"PostgreSQL {state.census.version}{standby}: {counts}, at {state.snapshot.at:%H:%M:%S} UTC"


def _notes(state: State, *, book: BudgetBook, arming: bool) -> list[str]:
    """Notes about what was not read or not judged, so that a report without findings is not misread."""
    if isinstance(state, Unread):
        return [f"Not read ({str(state.reason).replace('_', ' ')}): {state.detail}"]
    armed, *reasons = arming_words(state)
    notes = [f"{armed} {'; '.join(reasons)}".strip()] if arming else []
    counts = state.judgement.unjudged
    if not state.snapshot.sees_all:
        hidden = f"{counts['insufficient_privilege']} sessions are hidden from our role"
        notes.append(f"Read only in part: {hidden}. GRANT pg_monitor to it.")
    if state.census.tracking_is_off:
        notes.append("Read only in part: track_activities is off on the server.")
    if counts["unusable_key"]:
        notes.append(f"{counts['unusable_key']} job names cannot be used: cut at 63 bytes, ambiguous or incomplete.")
    notes += [*failure_words(state), *breaker_words(state), *ignored_holders(state)]
    untested = untested_words(state)
    if untested is not None:
        notes.append(untested)
    last = nothing_found(state, judges=not book.empty) or limit_words(state)
    return notes if last is None else [*notes, last]


def _findings(verdicts: Iterable[Verdict]) -> Table:
    result = _table("FINDING", "ROLE", "JOB, WINDOW", "RUNNING", "BUDGET", "BLOCKS", "ALIKE")
    for verdict in verdicts:
        finding = verdict.finding
        evidence = ", ".join(finding.evidence).replace("_", " ")
        title = Text(str(finding.kind), style=STYLES[finding.kind])
        if evidence:
            title.append(f"\n {evidence}", style="not bold default")
        title.append(f"\n {verdict_words(verdict)}", style="not bold default")
        job = Text(printable(finding.key.job) if finding.key else "-")
        if finding.key and finding.key.window:
            job.append(f"\n{printable(finding.key.window)}")
        result.add_row(
            title,
            f"{printable(finding.backend.role)}\npid {finding.backend.pid}",
            job,
            span(finding.running),
            span(finding.budget.limit) if finding.budget else "-",
            _known(finding.blocks),
            _known(finding.alike),
        )
    return result


def _not_judged(cases: Iterable[Case]) -> Table:
    result = _table("NOT JUDGED", "ROLE", "APPLICATION", "FOR", "PID")
    for case in cases:
        backend = case.backend
        role, application = printable(backend.role), Text(printable(backend.application_name) or "-")
        result.add_row(str(case.activity), role, application, span(_age(case)), str(backend.pid))
    return result


def _table(*columns: str) -> Table:
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        right = column in {"RUNNING", "BUDGET", "BLOCKS", "ALIKE", "FOR", "PID"}
        result.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return result


def _longest_unjudged(look: Look) -> list[Case]:
    return sorted(look.judgement.cases, key=_age, reverse=True)[:MAX_NOT_JUDGED]


def _age(case: Case) -> timedelta:
    transaction = case.backend.transaction
    return transaction.age if case.activity is ActivityKind.HOLDING and transaction is not None else case.age


def _row(server: str, verdict: Verdict) -> list[str]:
    finding = verdict.finding
    return [
        server,
        str(finding.kind),
        finding.backend.role,
        finding.key.job if finding.key else "-",
        finding.key.window if finding.key else "-",
        span(finding.running),
        span(finding.budget.limit) if finding.budget else "-",
        ", ".join(finding.evidence).replace("_", " ") or "-",
        _known(finding.blocks),
        _known(finding.alike),
        str(finding.backend.pid),
    ]


def _known(count: int | None) -> str:
    return "-" if count is None else str(count)
