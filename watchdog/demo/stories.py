"""The stories of the demo: who calls, how the caller leaves, and what pgwatchdog should find.

The work takes a fixed time and almost no CPU, except for one cross join, which does use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

WEB_BUDGET, GRACE, THREADS_BUDGET, DIGEST_BUDGET = "6s", "1s", "8s", "15s"

BUDGETS = f"""\
poll: {{interval: 1s, census_interval: 10s}}
budgets:
  grace: {GRACE}
  roles:
    web_app: {{budget: {WEB_BUDGET}, holding: 1min}}
    etl_app: 1min
  jobs:
    - pattern: "scan:{{job}}:{{window}}"
      roles: [etl_app]
      copies: 1
      retry_gap: 2s
      budgets: {{threads: {THREADS_BUDGET}, digest: {DIGEST_BUDGET}}}
"""
"""The budgets of the demo's daemon."""

RULES = """\
  rules:
    - {name: cancel-orphans, finding: orphan, evidence: [over_budget, client_gone], roles: ["*"], action: cancel}
  limits: {per_minute: 600, share: 1, pause: 0s}
"""
"""The policy of the demo's daemon in both rounds, without the mode. The limits are wide, because many orphans should be
cancelled within a minute."""

LEAVES = 2.0
LONG_WORK = "SELECT count(pg_sleep(0.1)) FROM generate_series(1, 180)"
"""A query that takes 18 s on any machine."""

RECEIPTS = 140
WRITING_WORK = f"INSERT INTO receipts SELECT n FROM generate_series(1, {RECEIPTS}) AS n WHERE pg_sleep(0.1) IS NOT NULL"
"""A statement that takes 14 s and has a transaction id from its first row on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One story. The stage kills the caller after `killed_after` seconds. `named` is the expected kind of finding."""

    name: str
    title: str
    kind: str
    role: str
    application: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    options: str = ""
    killed_after: float | None = None
    named: str | None = None

    @property
    def innocent(self) -> bool:
        """True if its work must neither be called an orphan nor be acted on."""
        return self.named != "orphan"


def stories(cross_join: str) -> list[Story]:
    """All stories. `cross_join` is a query that takes about 18 s on this machine."""
    return [
        Story(
            name="A", title="client killed, server as it comes", kind="waits",
            role="web_app", application="checkout",
            arguments={"sql": cross_join}, killed_after=LEAVES, named="orphan",
        ),
        Story(
            name="B", title="client killed, connection check 0.1s", kind="waits_async",
            role="web_app", application="search",
            arguments={"sql": LONG_WORK, "settings": {"client_connection_check_interval": "100"}}, killed_after=LEAVES,
        ),
        Story(
            name="C", title="client killed, statement_timeout", kind="waits",
            role="web_app", application="invoices",
            arguments={"sql": LONG_WORK}, options="-c statement_timeout=5000", killed_after=LEAVES, named="orphan",
        ),
        Story(
            name="D", title="client alive, its own caller gone", kind="middle_layer",
            role="web_app", application="gateway",
            arguments={"sql": LONG_WORK, "leaves": LEAVES}, named="orphan",
        ),
        Story(
            name="E", title="retry ladder: gives up after 4 s", kind="retries",
            role="etl_app", application="scan:threads:2026-11",
            arguments={"sql": LONG_WORK, "leaves": 4.0, "attempts": 3}, named="orphan",
        ),
        Story(
            name="F", title="nears its budget and ends in time", kind="waits",
            role="etl_app", application="scan:digest:2026-11",
            arguments={"sql": "SELECT count(pg_sleep(0.1)) FROM generate_series(1, 135)"}, named="nearing",
        ),
        Story(name="G", title="an idle pool", kind="pool", role="web_app", application="pool"),
        Story(name="H", title="a LISTEN session", kind="listener", role="web_app", application="listener"),
        Story(
            name="I", title="a transaction of many short calls", kind="calls",
            role="web_app", application="basket",
            arguments={"sql": "SELECT pg_sleep(0.1)", "calls": 120},
        ),
        Story(
            name="J", title="a parallel query", kind="waits",
            role="etl_app", application="statistics",
            arguments={"sql": "SELECT count(pg_sleep(0.01)) FROM parallel_rows"},
            options="-c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c min_parallel_table_scan_size=0",
        ),
        Story(
            name="K", title="client killed, it has written", kind="waits",
            role="web_app", application="receipts",
            arguments={"sql": WRITING_WORK}, killed_after=LEAVES, named="orphan",
        ),
    ]  # fmt: skip
