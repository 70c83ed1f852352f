"""The audit as tables: each check in each of its states, remedies as one block, exit codes from the worst."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.builders import backend, book, census, judge_settings, rule, seconds
from test_series import look

from watchdog.core.acting.status import DisarmReason, KeyHolder, Lease
from watchdog.core.doctor.audit import audit
from watchdog.core.doctor.changes import Remedy, SetForRole, SetParameter
from watchdog.core.doctor.checks import Check, Status, failed, ok, warning, worst
from watchdog.core.doctor.facts import Facts, OwnRole, Prepared, RoleFacts, Transport
from watchdog.core.doctor.grants import grants
from watchdog.core.doctor.remedies import block
from watchdog.core.doctor.timeouts import placed_under
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.observed.stored_settings import OTHERS, UNITS, Stored, StoredSettings

HOLDER = KeyHolder(pid=7, role=None)
BOOK = book(roles={"web_app": 30, "etl_app": 900})
GOOD = {
    **dict.fromkeys(UNITS, "0"),
    "statement_timeout": "20000",
    "idle_in_transaction_session_timeout": "20000",
    "lock_timeout": "5000",
    "transaction_timeout": "60000",
    "client_connection_check_interval": "1000",
    "tcp_keepalives_idle": "60",
    **dict.fromkeys(OTHERS, "on"),
    "reserved_connections": "2",
}

VERIFIED = Transport(encrypted=True, version="TLSv1.3", gssapi=False, local=False, sslmode="verify-full")


def facts(
    *,
    settings: dict[str, str | None] | None = None,
    stored: tuple[Stored, ...] = (),
    names: tuple[str, ...] = ("scan:threads:w1",),
    version: int = 180_006,
    standby: bool = False,
    rows: int = 0,
    **more: object,
) -> Facts:
    """A server on which everything is fine, but for what is said."""
    seen = look(*(backend(pid=i, role="stranger") for i in range(rows)), judged_by=judge_settings(BOOK))
    people = replace(census(), settings=StoredSettings(stored, {**GOOD, **(settings or {})}), server_version=version)
    own = OwnRole(
        name="pgwatchdog",
        superuser=False,
        create_role=False,
        create_database=False,
        replication=False,
        bypass_rls=False,
        connection_limit=5,
        sessions=1,
        reserved=True,
    )  # a row's columns
    roles = tuple(
        RoleFacts(name=name, can_login=True, inherits=True, superuser=False, connection_limit=-1)
        for name in ("web_app", "etl_app", "pgwatchdog")
    )
    base = Facts(
        look=replace(seen, census=people, snapshot=replace(seen.snapshot, in_recovery=standby)),
        own=own,
        roles=roles,
        set_role=(),
        prepared=Prepared(0, None),
        parameters={},
        transport=VERIFIED,
        conflicts=0,
        lease=Lease(leads=False),
        silence=seconds(18),
        names=names,
    )
    return replace(base, **more)  # type: ignore[arg-type]  # names of fields


def checks(found: Facts, *, budgets: BudgetBook = BOOK) -> list[Check]:
    return audit(found, book=budgets)


def one(found: Facts, name: str, *, scope: str = "cluster", budgets: BudgetBook = BOOK) -> Check:
    [check] = [each for each in checks(found, budgets=budgets) if (each.name, each.scope) == (name, scope)]
    return check


def test_a_server_on_which_everything_is_set_has_nothing_to_say() -> None:
    assert {each.status for each in checks(facts())} == {Status.OK}
    assert "Nothing to close." in block(checks(facts()), server="orders")


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("0", Status.FAILED, "work lives on without end"),
        ("5min", Status.FAILED, "work lives on for 4m 30s"),
        ("30000", Status.OK, "30s by role, budget 30s"),
    ],
)
def test_a_statement_timeout_that_is_off_or_above_the_budget_is_an_inversion(
    text: str, status: Status, words: str
) -> None:
    check = one(
        facts(stored=(Stored(None, "web_app", "statement_timeout", text),)), "statement_timeout", scope="role web_app"
    )
    assert (check.status, words in check.saw) == (status, True), check.saw
    if status is Status.FAILED:
        assert check.sql == ("ALTER ROLE \"web_app\" SET statement_timeout = '28500ms';",)


def test_a_setting_for_a_role_in_a_database_is_looked_at_and_mended_there() -> None:
    stored = (Stored("My Shop", "web_app", "statement_timeout", "1h"),)
    check = one(facts(stored=stored), "statement_timeout", scope="role web_app in My Shop")
    assert check.sql == ('ALTER ROLE "web_app" IN DATABASE "My Shop" SET statement_timeout = \'28500ms\';',)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("idle_in_transaction_session_timeout", "0", "'30s'"),
        ("lock_timeout", "0", "'14250ms'"),
        ("lock_timeout", "40000", "'14250ms'"),
        ("client_connection_check_interval", "0", "'10s'"),
        ("transaction_timeout", "0", "'1min'"),
    ],
)
def test_each_further_timeout_of_a_role_has_its_remedy(name: str, value: str, words: str) -> None:
    check = one(facts(settings={name: value}), name, scope="role web_app")
    assert (check.status, words in check.sql[0]) == (Status.WARNING, True), check


def test_transaction_timeout_is_asked_for_from_17_on() -> None:
    names = [each.name for each in checks(facts(version=160_004))]
    assert "transaction_timeout" not in names
    assert "transaction_timeout" in [each.name for each in checks(facts(version=170_000))]


def test_what_our_own_session_hides_is_unknown_and_never_fine() -> None:
    found = checks(facts(settings=dict.fromkeys(UNITS)))
    unknowns = {each.name for each in found if each.status is Status.UNKNOWN}
    assert {"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} <= unknowns
    assert "tcp_keepalives" in unknowns


OWN = facts().own


@pytest.mark.parametrize(
    ("found", "name", "status", "words"),
    [
        (
            facts(own=replace(OWN, superuser=True, replication=True)),
            "rights.excess",
            Status.WARNING,
            "SUPERUSER, REPLICATION",
        ),
        (facts(own=replace(OWN, reserved=False)), "rights.reserved_connections", Status.WARNING, "may not use them"),
        (facts(own=replace(OWN, reserved=None)), "rights.reserved_connections", Status.OK, "before PostgreSQL 16"),
        (facts(own=replace(OWN, connection_limit=2)), "connection_limit", Status.WARNING, "may have 2 and has 1"),
        (facts(own=replace(OWN, connection_limit=-1)), "connection_limit", Status.OK, "none"),
        (facts(variables=("PGHOST", "PGPASSWORD")), "environment", Status.OK, "PGHOST, PGPASSWORD"),
        (
            facts(prepared=Prepared(1, timedelta(hours=2))),
            "prepared_transactions",
            Status.WARNING,
            "the oldest since 2h",
        ),
        (facts(prepared=Prepared(1, timedelta(minutes=2))), "prepared_transactions", Status.OK, "1"),
        (
            facts(settings={"idle_session_timeout": "5000"}),
            "idle_session_timeout",
            Status.OK,
            "our session sets its own",
        ),
        (facts(settings={"tcp_keepalives_idle": "7200"}), "tcp_keepalives", Status.WARNING, "tcp_keepalives_idle 2h"),
        (facts(settings={"tcp_keepalives_idle": "0", "tcp_user_timeout": "30000"}), "tcp_keepalives", Status.OK, "30s"),
        (facts(settings={"track_activities": "off"}), "track_activities", Status.WARNING, "off on the server"),
        (
            facts(stored=(Stored(None, "etl_app", "track_activities", "off"),)),
            "track_activities",
            Status.WARNING,
            "off for etl_app",
        ),
        (facts(settings={"compute_query_id": "off"}), "compute_query_id", Status.WARNING, "off"),
        (facts(settings={"compute_query_id": "auto"}), "compute_query_id", Status.UNKNOWN, "auto"),
        (facts(names=("scan:x", "psql", "psql", "")), "job_names", Status.WARNING, "1 cannot be used: scan:x"),
        (facts(names=("psql", "psql", "")), "generic_names", Status.WARNING, "psql (2), no name (1)"),
        (facts(names=("checkout",)), "job_patterns", Status.UNKNOWN, "no session carries a job key"),
        (facts(rows=2), "budgets.missing", Status.WARNING, "running now and not judged: stranger"),
        (facts(roles=()), "budgets.unmatched", Status.WARNING, "no such role: etl_app, web_app"),
        (facts(set_role=(("authenticator", "anon"),)), "set_role", Status.WARNING, "authenticator → anon"),
        (
            facts(standby=True, settings={"max_standby_streaming_delay": "30000"}, conflicts=7),
            "max_standby_streaming_delay",
            Status.WARNING,
            "7 queries were cancelled by replay",
        ),
        (
            facts(standby=True, settings={"max_standby_streaming_delay": "-1"}),
            "max_standby_streaming_delay",
            Status.OK,
            "cancelled by replay",
        ),
        (
            facts(lease=Lease(leads=False, disarm_reason=DisarmReason.NOT_LEADER, holder=HOLDER)),
            "lease",
            Status.OK,
            "held by a role that may cancel",
        ),
        (
            facts(lease=Lease(leads=False, disarm_reason=DisarmReason.LEASE_TAKEN, holder=HOLDER)),
            "lease",
            Status.FAILED,
            "no pgwatchdog",
        ),
        (
            facts(lease=Lease(leads=False, ignored=(replace(HOLDER, pid=None, prepared="nightly", database=5),))),
            "lease",
            Status.OK,
            "because it could cancel nothing: the prepared transaction 'nightly' of unknown in database unknown",
        ),
        (facts(public_connects=True), "lease_database", Status.WARNING, "every role may connect to it"),
        (
            facts(lease=Lease(leads=False, disarm_reason=DisarmReason.OTHER_DATABASE), public_connects=True),
            "lease_database",
            Status.UNKNOWN,
            "not connected to it",
        ),
        (
            facts(lease=Lease(leads=False, disarm_reason=DisarmReason.OTHER_DATABASE)),
            "lease",
            Status.WARNING,
            "another database",
        ),
        (facts(parameters={"neon.timeline_id": "x"}), "scale_to_zero", Status.WARNING, "Neon can sleep"),
        (facts(parameters={"apg_x.y": "z"}), "scale_to_zero", Status.UNKNOWN, "not known"),
        (facts(parameters={"rds.extensions": "x"}), "service", Status.OK, "rds_superuser"),
        (facts(own=replace(OWN, password_ends=timedelta(days=13))), "rights.password", Status.WARNING, "ends in"),
        (facts(own=replace(OWN, password_ends=timedelta(days=15))), "rights.password", Status.OK, "ends in"),
        (facts(own=replace(OWN, password_ends=-timedelta(hours=1))), "rights.password", Status.FAILED, "ended 1h ago"),
        (facts(own=replace(OWN, password_ends=None)), "rights.password", Status.OK, "no end is set"),
    ],
)
def test_each_check_sees_what_is_there(found: Facts, name: str, status: Status, words: str) -> None:
    check = one(found, name)
    assert (check.status, words in check.saw) == (status, True), check
    assert check.hint or status is Status.OK, "whoever is told something is told what to do"


@pytest.mark.parametrize(
    ("changes", "name", "status"),
    [
        ({"sees_all": False, "hidden": 3}, "rights.read", Status.FAILED),
        ({"behind_pooler": True}, "pooler", Status.FAILED),
        ({"connections_used": 96}, "connections", Status.FAILED),
        ({"connections_used": 85}, "connections", Status.WARNING),
        ({"may_cancel_all": False}, "rights.cancel", Status.OK),
        ({"may_cancel_all": False, "may_cancel": frozenset({"web_app"})}, "rights.cancel", Status.OK),
        ({"tracking_off": 2}, "track_activities", Status.WARNING),
    ],
)
def test_each_check_of_the_census_sees_what_is_there(changes: dict[str, object], name: str, status: Status) -> None:
    base = facts()
    people = replace(base.look.census, **changes)  # type: ignore[arg-type]  # names of fields
    assert one(replace(base, look=replace(base.look, census=people)), name).status is status


def test_copies_of_a_job_that_declares_none_are_named() -> None:
    rows = [backend(pid=i, role="etl_app", name="scan:threads:w1", query=10 + i) for i in (1, 2)]
    base = facts()
    undeclared = replace(
        base, look=replace(look(*rows, judged_by=judge_settings(book(rule()))), census=base.look.census)
    )
    assert "threads" in one(undeclared, "copies.undeclared").saw
    jobs = book(rule(copies=1, retry_gap=10))
    declared = replace(base, look=replace(look(*rows, judged_by=judge_settings(jobs)), census=base.look.census))
    assert one(declared, "copies.undeclared", budgets=jobs).status is Status.OK


def test_roles_without_login_superusers_and_strangers_are_not_judged_by_timeouts() -> None:
    people = (
        RoleFacts(
            name="web_app", can_login=False, inherits=True, superuser=False, connection_limit=-1
        ),  # a row's columns
        RoleFacts(name="etl_app", can_login=True, inherits=True, superuser=True, connection_limit=-1),
        RoleFacts(name="other", can_login=True, inherits=True, superuser=False, connection_limit=-1),
    )
    assert not [each for each in checks(facts(roles=people)) if each.scope != "cluster"]


def test_the_margin_is_a_twentieth_and_five_seconds_at_most() -> None:
    assert [placed_under(seconds(each)) for each in (0.1, 30, 900)] == [seconds(0.095), seconds(28.5), seconds(895)]


def test_the_block_names_each_reason_once_and_reloads_only_where_it_must() -> None:
    by_role, by_server = Remedy(SetForRole(role="x", name="y", value="1s")), Remedy(SetParameter("z", "1s"))
    lines = (
        failed("a", "first", "x", remedies=(by_role,)),
        warning("b", "second", "x", remedies=(by_role, by_server)),
        ok("c", "third"),
    )
    text = block(lines, server="orders")
    assert text.count('ALTER ROLE "x"') == 1
    assert text.endswith("SELECT pg_reload_conf();\n")
    assert "third" not in text
    assert "pg_reload_conf" not in block(lines[:1], server="orders")


def test_no_name_on_the_server_can_end_a_comment_and_begin_a_statement() -> None:
    evil = "x\nDROP TABLE accounts;"
    stored = (Stored(None, evil, "statement_timeout", "0"),)
    people = (
        RoleFacts(name=evil, can_login=True, inherits=True, superuser=False, connection_limit=-1),
    )  # a row's columns
    text = block(checks(facts(stored=stored, roles=people), budgets=book(roles={evil: 30})), server=evil)
    in_comments = [line for line in text.splitlines() if line.startswith("--")]
    assert any("DROP TABLE" in line for line in in_comments)
    quoted = text.split("ALTER ROLE")[1]
    assert quoted.startswith(' "x\nDROP TABLE accounts;" SET')


def test_the_worst_of_all_decides() -> None:
    assert worst([]) is Status.OK
    assert worst([ok("a", ""), warning("b", "", "x")]) is Status.WARNING
    assert worst([failed("a", "", "x"), warning("b", "", "x")]) is Status.FAILED


@pytest.mark.parametrize(
    ("version", "acting", "only", "lines"),
    [
        (150_000, False, (), ["GRANT pg_monitor TO pgwatchdog;"]),
        (160_000, False, (), ["GRANT pg_monitor TO pgwatchdog;", "GRANT pg_use_reserved_connections TO pgwatchdog;"]),
        (150_000, True, (), ["GRANT pg_monitor TO pgwatchdog;", "GRANT pg_signal_backend TO pgwatchdog;"]),
        (150_000, True, ("web app",), ["GRANT pg_monitor TO pgwatchdog;", 'GRANT "web app" TO pgwatchdog;']),
    ],
)
def test_the_grants_are_the_least_that_is_needed(
    *, version: int, acting: bool, only: tuple[str, ...], lines: list[str]
) -> None:
    text = grants(role="pgwatchdog", version=version, acting=acting, only=only)
    assert [line for line in text.splitlines() if line.startswith("GRANT")] == lines
