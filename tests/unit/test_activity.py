import pytest
from support.builders import backend, moment

from watchdog.core.observed.activity import ActivityKind, Clock


@pytest.mark.parametrize(
    ("state", "wait", "activity"),
    [
        ("active", None, ActivityKind.RUNNING),
        ("active", ("IO", "DataFileRead"), ActivityKind.RUNNING),
        ("active", ("Client", "ClientWrite"), ActivityKind.RUNNING),
        ("active", ("Client", "ClientRead"), ActivityKind.HOLDING),
        ("fastpath function call", None, ActivityKind.RUNNING),
        ("idle in transaction", ("Client", "ClientRead"), ActivityKind.HOLDING),
        ("idle in transaction (aborted)", ("Client", "ClientRead"), ActivityKind.HOLDING),
        ("starting", None, ActivityKind.LOGGING_IN),
        # WAIT FOR LSN of PostgreSQL 19: of class Client, and it waits for replication, not for its client.
        ("active", ("Client", "WaitForWalReplay"), ActivityKind.RUNNING),
        ("active", ("Client", "WaitForWalFlush"), ActivityKind.RUNNING),
    ],
)
def test_what_a_backend_does_follows_from_its_state_and_its_wait(
    state: str, wait: tuple[str, str] | None, activity: ActivityKind
) -> None:
    assert backend(state=state, wait=wait, query=1.0, xact=2.0).activity is activity


def test_a_backend_without_transaction_or_statement_is_idle() -> None:
    assert backend(state="idle", query=None).activity is ActivityKind.IDLE
    assert backend(state="idle in transaction (aborted)", query=None).activity is ActivityKind.IDLE


def test_the_statement_clock_ignores_the_transaction_and_the_run_clock_takes_the_older() -> None:
    row = backend(query=1.0, xact=20.0)
    assert row.start(Clock.STATEMENT) == moment(1.0)
    assert row.start(Clock.RUN) == moment(20.0)


def test_a_commit_inside_a_procedure_moves_neither_clock() -> None:
    row = backend(query=20.0, xact=1.0)
    assert row.start(Clock.STATEMENT) == row.start(Clock.RUN) == moment(20.0)


def test_a_fast_path_call_counts_from_its_state_change_because_its_query_start_is_older_work() -> None:
    row = backend(state="fastpath function call", query=500.0, xact=3.0, changed=2.0)
    assert row.start(Clock.STATEMENT) == moment(2.0)
    assert row.start(Clock.RUN) == moment(3.0)


def test_a_row_without_starts_has_none() -> None:
    assert backend(query=None).start(Clock.RUN) is None
