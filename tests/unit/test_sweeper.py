"""Sweeps: rows, sockets, rows. Only a run that stands in both readings has lost its client."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from support.builders import BOOT, NOW, backend, book, census, judge_settings, moment, rule, seconds, snapshot

from watchdog.core.judging.evidence import Evidence, Finding, Kind
from watchdog.core.judging.jobs import BudgetSpec
from watchdog.core.judging.judge import JudgeSettings, Memory, judge
from watchdog.core.observed.activity import Backend, ClientEndpoint
from watchdog.core.observed.sockets import (
    ClientState,
    OwnConnection,
    Session,
    SocketReading,
    SocketVisibility,
    StatementRun,
    endpoint_of,
    statement_run,
)
from watchdog.runtime.sweeper import Sweeper

SERVER = ClientEndpoint("10.0.0.5", 5432)
OWN = OwnConnection(SERVER, ClientEndpoint("10.0.0.1", 1))
OTHER = OwnConnection(SERVER, ClientEndpoint("10.0.0.1", 2))
GONE, HALF_CLOSED, CLOSE_WAIT = ClientState.GONE, ClientState.HALF_CLOSED, ClientState.CLOSE_WAIT


@dataclass
class Kernel:
    """Sockets as a test wants them; `asked` are the sessions of each question."""

    gone: dict[int, ClientState] = field(default_factory=dict)
    visibility: SocketVisibility = SocketVisibility.SEEN
    asked: list[set[int]] = field(default_factory=list)
    pause: float = 0.2

    def read(self, clients: Mapping[Session, ClientEndpoint], *, own: OwnConnection) -> SocketReading:
        if own.server is None:
            return SocketReading(SocketVisibility.UNIX_SOCKET)
        self.asked.append({pid for pid, _ in clients})
        if self.visibility is not SocketVisibility.SEEN:
            return SocketReading(self.visibility)
        states = {each: self.gone.get(each[0], ClientState.CONNECTED) for each in clients}
        return SocketReading(self.visibility, states)


@dataclass
class Source:
    """As much of a source as a sweeper wants."""

    own_connection: OwnConnection | None = OWN


def sweeper(kernel: Kernel, source: Source | None = None, *, spares: bool = False) -> Sweeper:
    one = source or Source()
    return Sweeper(source=one, sockets=kernel, spares_half_closed=spares)  # type: ignore[arg-type]  # as much as it asks


def row(pid: int, **more: object) -> Backend:
    found = backend(pid=pid, query=10, **more)  # type: ignore[arg-type]  # names of columns
    return replace(found, client=ClientEndpoint("10.0.0.9", pid))


def run_of(found: Backend) -> StatementRun:
    run = statement_run(found)
    assert run is not None
    return run


def test_a_run_in_both_readings_with_its_socket_closed_in_between_has_lost_its_client() -> None:
    one = sweeper(Kernel(gone={1: GONE}))
    assert one.confirm(snapshot(row(1), row(2))) == frozenset(), "the first reading proves nothing"
    assert one.sweep()
    assert one.confirm(snapshot(row(1), row(2))) == {run_of(row(1))}


def test_a_session_that_has_moved_on_or_ended_meanwhile_has_not() -> None:
    one = sweeper(Kernel(gone={1: GONE, 2: GONE}))
    one.confirm(snapshot(row(1), row(2)))
    assert one.sweep()
    assert one.confirm(snapshot(replace(row(1), query=moment(1)))) == frozenset()


def test_a_new_connection_whose_socket_was_not_there_at_the_sweep_is_not_suspected() -> None:
    one = sweeper(Kernel(gone={7: GONE}))
    one.confirm(snapshot(row(1)))
    assert not one.sweep()
    assert one.confirm(snapshot(row(1), row(7))) == frozenset()


def test_who_is_gone_is_asked_for_anew_and_believed_only_while_the_sockets_show_it() -> None:
    kernel = Kernel(gone={1: GONE})
    one = sweeper(kernel)
    one.confirm(snapshot(row(1), row(2)))
    one.sweep()
    assert one.confirm(snapshot(row(1), row(2))) == {run_of(row(1))}
    assert not one.sweep(), "it brings no further look forward"
    assert kernel.asked[-1] == {1, 2}
    assert one.confirm(snapshot(row(1), row(2))) == {run_of(row(1))}
    assert one.is_still_gone(row(1))
    kernel.gone = {}
    assert not one.is_still_gone(row(1)), "asked just before a signal"
    assert not one.sweep()
    assert one.confirm(snapshot(row(1), row(2))) == frozenset()


def test_without_a_sweep_in_between_a_look_keeps_to_the_last_one() -> None:
    one = sweeper(Kernel(gone={1: GONE}))
    one.confirm(snapshot(row(1)))
    one.sweep()
    assert [one.confirm(snapshot(row(1))) for _ in range(2)] == [{run_of(row(1))}] * 2
    assert one.confirm(snapshot()) == frozenset(), "and forgotten once it is over"


def test_sockets_that_cannot_be_read_any_more_prove_nothing() -> None:
    kernel = Kernel(gone={1: GONE})
    one = sweeper(kernel)
    one.confirm(snapshot(row(1)))
    one.sweep()
    one.confirm(snapshot(row(1)))
    kernel.visibility = SocketVisibility.FAILED
    one.sweep_if_due()
    one.sweep()
    assert (one.confirm(snapshot(row(1))), one.is_still_gone(row(1))) == (frozenset(), False)


def test_a_client_that_may_still_read_is_spared() -> None:
    for state, spares, gone in (
        (HALF_CLOSED, False, False),
        (HALF_CLOSED, True, False),
        (ClientState.UNKNOWN, False, False),
        (CLOSE_WAIT, False, True),
        (CLOSE_WAIT, True, False),
    ):
        one = sweeper(Kernel(gone={1: state}), spares=spares)
        one.confirm(snapshot(row(1)))
        assert one.sweep() is gone
        assert bool(one.confirm(snapshot(row(1)))) is gone
        assert one.is_still_gone(row(1)) is gone
        assert (GONE if gone else HALF_CLOSED if state is CLOSE_WAIT else state) in one.clients.values()


def test_idle_and_holding_sessions_and_unix_sockets_are_never_suspected() -> None:
    waiting = replace(row(1, state="idle in transaction", wait=("Client", "ClientRead")))
    local = replace(row(2), client=None)
    one = sweeper(Kernel(gone={1: GONE, 2: GONE}))
    one.confirm(snapshot(waiting, local))
    assert not one.sweep()
    assert not one.is_still_gone(local)


def test_where_sockets_are_out_of_sight_or_fail_they_are_asked_for_again_at_each_tick() -> None:
    for visibility in (SocketVisibility.ELSEWHERE, SocketVisibility.UNAVAILABLE, SocketVisibility.FAILED):
        kernel = Kernel(gone={1: GONE}, visibility=visibility)
        one = sweeper(kernel)
        one.confirm(snapshot(row(1)))
        for _ in range(3):
            one.sweep_if_due()
        assert (len(kernel.asked), one.socket_visibility, one.pause) == (3, visibility, None)
        kernel.visibility = SocketVisibility.SEEN
        one.sweep_if_due()
        assert one.confirm(snapshot(row(1))) == {run_of(row(1))}
        assert str(one.socket_visibility) == "seen"


def test_nothing_is_to_be_watched_where_nobody_could_be_seen_to_go() -> None:
    one = sweeper(Kernel(gone={1: GONE}))
    told = [one.pause]
    one.confirm(snapshot(row(1)))
    told.append(one.pause)
    one.sweep()
    one.confirm(snapshot(row(1)))  # it is known to be gone
    told.append(one.pause)
    one.confirm(snapshot(replace(row(2), client=None)))
    told.append(one.pause)
    assert told == [None, 0.2, None, None]


def test_a_look_sweeps_only_where_no_sweep_has_just_come_and_something_is_to_be_found_out() -> None:
    kernel, source = Kernel(), Source()
    one = sweeper(kernel, source)
    one.sweep_if_due()
    one.sweep_if_due()
    assert len(kernel.asked) == 1, "that our own connection is seen is known by now"
    one.confirm(snapshot(row(1)))
    one.sweep()
    one.sweep_if_due()
    assert len(kernel.asked) == 2, "one has just come"
    kernel.pause = 0.0
    one.sweep_if_due()
    assert len(kernel.asked) == 3
    one.confirm(snapshot())
    source.own_connection = OTHER
    one.sweep_if_due()
    assert len(kernel.asked) == 4, "another session may come another way"


def test_nothing_is_asked_without_a_session() -> None:
    kernel = Kernel()
    one = sweeper(kernel, Source(None))
    one.confirm(snapshot(row(1)))
    assert not one.sweep()
    assert not one.is_still_gone(row(1))
    assert (kernel.asked, one.socket_visibility) == ([], SocketVisibility.NOT_ASKED)


def test_ends_are_compared_in_one_form() -> None:
    assert endpoint_of("::ffff:10.0.0.9", 1) == endpoint_of("10.0.0.9", 1) == ClientEndpoint("10.0.0.9", 1)
    assert endpoint_of("0:0:0:0:0:0:0:1", 1) == ClientEndpoint("::1", 1)
    assert endpoint_of("fe80::1/64", 1) == ClientEndpoint("fe80::1", 1)
    assert (endpoint_of(None, 1), endpoint_of("10.0.0.9", -1), endpoint_of("nonsense", 1)) == (None, None, None)


# What the judge makes of it


def findings(*rows: Backend, gone: frozenset[StatementRun], settings: JudgeSettings | None = None) -> list[Finding]:
    judgement, _ = judge(
        snapshot(*rows, at=NOW, boot=BOOT),
        settings=settings or judge_settings(),
        census=census(),
        memory=Memory(),
        tick=True,
        gone=gone,
    )
    return list(judgement.findings)


def test_a_client_that_is_gone_makes_an_orphan_with_or_without_a_budget() -> None:
    for role in ("web_app", "without_budget"):
        [found] = findings(row(1, role=role), gone=frozenset({run_of(row(1))}))
        assert (found.kind, found.evidence, found.strongest) == (
            Kind.ORPHAN,
            (Evidence.CLIENT_GONE,),
            Evidence.CLIENT_GONE,
        )


def test_all_evidence_is_listed_and_the_strongest_is_the_label() -> None:
    late = replace(row(1), query=moment(100), transaction=moment(100))
    [found] = findings(late, gone=frozenset({run_of(late)}))
    assert (found.evidence, found.strongest) == ((Evidence.OVER_BUDGET, Evidence.CLIENT_GONE), Evidence.CLIENT_GONE)


def test_callers_that_leave_on_purpose_are_not_missed() -> None:
    budgets = book(rule(budgets={"nightly": 3600}), roles={"web_app": 30})
    detached = replace(budgets, roles={"web_app": BudgetSpec(limit=seconds(30), detached=True)})
    assert findings(row(1), gone=frozenset({run_of(row(1))}), settings=judge_settings(detached)) == []


def test_work_without_a_client_counts_as_work_for_nobody() -> None:
    before = row(1)
    memory = judge(snapshot(before), settings=judge_settings(), census=census(), memory=Memory(), tick=True)[1]
    later = NOW + seconds(5)
    after = replace(backend(pid=1, query=15, started=100_005, now=later), client=before.client)
    judgement, _ = judge(
        snapshot(after, at=later),
        settings=judge_settings(),
        census=census(),
        memory=memory,
        tick=True,
        gone=frozenset({run_of(after)}),
    )
    assert sum(judgement.increments.orphaned.values(), timedelta(0)) == seconds(5)


def test_a_deadline_in_the_name_shortens_the_budget_and_allows_for_skew() -> None:
    stated = f"scan:a:w1:{NOW.timestamp():.0f}"
    settings = judge_settings(book(rule(pattern="scan:{job}:{window}:{deadline}", budgets={"*": 3600}), roles={}))
    for at, late in ((1.9, False), (2.0, True)):
        now = NOW + seconds(at)
        one = backend(pid=1, name=stated, query=10, now=now)
        judgement, _ = judge(snapshot(one, at=now), settings=settings, census=census(), memory=Memory(), tick=True)
        assert [each.evidence for each in judgement.findings] == ([(Evidence.DEADLINE_PASSED,)] if late else [])
        assert list(judgement.crossings) == ([] if late else [seconds(0.1)])


def test_a_later_deadline_never_lengthens_a_budget() -> None:
    stated = f"scan:a:w1:{NOW.timestamp() + 7200:.0f}"
    settings = judge_settings(book(rule(pattern="scan:{job}:{window}:{deadline}", budgets={"*": 60}), roles={}))
    one = backend(pid=1, name=stated, query=100)
    [found] = findings(one, gone=frozenset(), settings=settings)
    assert found.evidence == (Evidence.OVER_BUDGET,)
