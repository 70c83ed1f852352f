"""Which remedies the doctor prints to be run, and for whom; the rest is comments with the reason."""

from dataclasses import replace

import pytest
from support.builders import book, rule, seconds
from test_doctor import facts, one

from watchdog.core.doctor.audit import audit
from watchdog.core.doctor.changes import Change, GrantRole, LimitConnections, Remedy, SetForRole, SetParameter
from watchdog.core.doctor.checks import failed
from watchdog.core.doctor.facts import Facts, Membership, RoleFacts
from watchdog.core.doctor.permissions import settled
from watchdog.core.doctor.remedies import block
from watchdog.core.judging.budgets import BudgetBook
from watchdog.core.judging.jobs import BudgetSpec
from watchdog.core.observed.services import SERVICES, Service
from watchdog.core.observed.stored_settings import Stored

PARAMETER = SetParameter("tcp_keepalives_idle", "60s")
SETTING = SetForRole(role="web_app", name="lock_timeout", value="1s")
OF_ITS_OWN = SetForRole(role="dba", name="lock_timeout", value="1s")
OF_A_SUPERUSER = SetForRole(role="boss", name="lock_timeout", value="1s")
TRACKING = SetForRole(role="web_app", name="track_activities")
LIMIT = LimitConnections("web_app", 5)
LIMIT_OF_A_REPLICATOR = LimitConnections("replicator", 5)
GRANT = GrantRole("pg_monitor", "pgwatchdog")


def role(name: str, **changes: bool) -> RoleFacts:
    base = RoleFacts(name=name, can_login=True, inherits=True, superuser=False, connection_limit=-1)
    return replace(base, **changes)  # type: ignore[arg-type]  # names of fields


def server(*members: Membership, version: int = 180_000, **changes: bool) -> Facts:
    """A server where `dba` runs the SQL; the changes are its own."""
    people = [role("web_app"), role("replicator", replication=True), role("boss", superuser=True)]
    return facts(version=version, roles=(*people, role("dba", **changes)), members=members)


def admin(*roles: str, member: str = "dba", inherits: bool = True) -> list[Membership]:
    return [Membership(member, each, admin=True, inherits=inherits) for each in roles]


def refusal(change: Change, found: Facts, *, runner: str | None = "dba") -> str:
    [check] = settled([failed("x", "y", "z", remedies=(Remedy(change),))], facts=found, runner=runner)
    return check.remedies[0].withheld


CREATOR = server(*admin("web_app", "replicator", "pg_monitor"), create_role=True)
OLD_CREATOR = server(version=150_000, create_role=True)


@pytest.mark.parametrize("change", [PARAMETER, SETTING, OF_A_SUPERUSER, TRACKING, LIMIT, GRANT])
def test_a_superuser_may_run_all_of_it_by_name_and_by_default(change: Change) -> None:
    assert refusal(change, server(superuser=True)) == ""
    assert refusal(change, server(), runner=None) == ""


@pytest.mark.parametrize(
    ("change", "found", "reason"),
    [
        (PARAMETER, CREATOR, "ALTER SYSTEM takes one"),
        (SETTING, CREATOR, ""),
        (SETTING, server(create_role=True), "no ADMIN OPTION on web_app"),
        (SETTING, server(*admin("web_app")), "no CREATEROLE"),
        (SETTING, OLD_CREATOR, ""),
        (SETTING, server(version=150_000), "no CREATEROLE"),
        (OF_ITS_OWN, server(), ""),
        (OF_A_SUPERUSER, server(*admin("boss"), create_role=True), "boss is one"),
        (TRACKING, CREATOR, "only one may set track_activities"),
        (LIMIT, CREATOR, ""),
        (LIMIT, OLD_CREATOR, ""),
        (LIMIT_OF_A_REPLICATOR, CREATOR, ""),
        (LIMIT_OF_A_REPLICATOR, OLD_CREATOR, "has REPLICATION"),
        (GRANT, CREATOR, ""),
        (GRANT, server(*admin("pg_monitor")), ""),
        (GRANT, server(create_role=True), "no ADMIN OPTION on pg_monitor"),
        (GRANT, OLD_CREATOR, ""),
        (GRANT, server(version=150_000), "no ADMIN OPTION on pg_monitor"),
    ],
)
def test_each_change_is_withheld_from_whom_the_server_would_refuse_it(
    change: Change, found: Facts, reason: str
) -> None:
    told = refusal(change, found)
    assert (reason in told, bool(told)) == (True, bool(reason)), told


def test_the_admin_option_counts_through_groups_whose_rights_are_inherited_and_not_through_others() -> None:
    of_group = admin("pg_monitor", member="admins")
    assert refusal(GRANT, server(*of_group, Membership("dba", "admins", admin=False, inherits=True))) == ""
    assert refusal(GRANT, server(*of_group, Membership("dba", "admins", admin=False, inherits=False)))


def test_a_role_that_does_not_exist_may_run_nothing() -> None:
    assert "there is no role nobody" in refusal(GRANT, server(), runner="nobody")


def test_on_a_standby_roles_are_left_to_the_primary() -> None:
    found = server(superuser=True)
    standby = replace(found, look=replace(found.look, snapshot=replace(found.look.snapshot, in_recovery=True)))
    assert "run it on the primary" in refusal(SETTING, standby, runner=None)
    assert refusal(PARAMETER, standby, runner=None) == ""


def test_where_alter_system_is_not_allowed_not_even_a_superuser_is_given_it() -> None:
    assert "allow_alter_system is off" in refusal(PARAMETER, facts(settings={"allow_alter_system": "off"}), runner=None)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.key)
def test_on_a_managed_service_no_remedy_is_alter_system_and_each_says_how_it_is_set_there(service: Service) -> None:
    marks = [role(name) for name in sorted(service.roles)]
    wrong = {"tcp_keepalives_idle": "7200", "compute_query_id": "off", "track_activities": "off"}
    found = facts(settings=dict(wrong), roles=(*facts().roles, *marks), schemas=service.schemas)
    assert [each.key for each in found.services] == [service.key]

    text = block(audit(found, book=book()), server="orders")

    assert "ALTER SYSTEM" not in text
    assert "pg_reload_conf" not in text
    assert "--   tcp_keepalives_idle = '60s'" in text.splitlines()
    assert (
        f"{service.name}: {'set it ' + service.parameters if service.parameters else 'how a parameter is set'}" in text
    )
    assert all(line.startswith("--") for line in text.splitlines() if line)


def jobs(**budgets: float) -> BudgetBook:
    return book(rule(roles=frozenset({"web_app"}), budgets=budgets), roles={"web_app": 30})


NO_TIMEOUTS = (
    Stored(None, "web_app", "statement_timeout", "0"),
    Stored(None, "web_app", "lock_timeout", "0"),
    Stored(None, "web_app", "idle_in_transaction_session_timeout", "0"),
    Stored(None, "web_app", "transaction_timeout", "0"),
)


@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"])
def test_a_timeout_that_would_end_longer_work_of_the_role_is_a_comment_with_what_each_can_set(name: str) -> None:
    check = one(facts(stored=NO_TIMEOUTS), name, scope="role web_app", budgets=jobs(threads=600))
    [remedy] = check.remedies
    assert check.sql == ()
    assert "job:threads (10m)" in remedy.withheld
    assert remedy.change.sql in remedy.shown
    assert f"SET LOCAL {name} = " in remedy.shown
    assert all(line.startswith("-- ") for line in remedy.lines)


def test_a_role_whose_own_budget_is_the_larger_one_is_spared_as_well() -> None:
    check = one(facts(stored=NO_TIMEOUTS), "statement_timeout", scope="role web_app", budgets=jobs(threads=10))
    assert check.sql == ()
    assert "role:web_app (30s)" in check.remedies[0].withheld


def test_where_no_work_of_the_role_is_allowed_more_the_timeout_can_be_run() -> None:
    check = one(facts(stored=NO_TIMEOUTS), "statement_timeout", scope="role web_app", budgets=jobs(threads=30))
    assert check.sql == ("ALTER ROLE \"web_app\" SET statement_timeout = '28500ms';",)


def test_a_jobs_larger_budget_does_not_count_for_a_role_that_its_rule_does_not_name() -> None:
    budgets = book(rule(budgets={"threads": 600}), roles={"web_app": 30})
    assert one(facts(stored=NO_TIMEOUTS), "statement_timeout", scope="role web_app", budgets=budgets).sql


def test_the_bound_of_a_whole_transaction_is_twice_the_largest_budget_of_the_role() -> None:
    check = one(facts(stored=NO_TIMEOUTS), "transaction_timeout", scope="role web_app", budgets=jobs(threads=600))
    assert check.sql == ("ALTER ROLE \"web_app\" SET transaction_timeout = '20min';",)


def test_a_roles_own_limit_for_holding_counts_for_its_jobs_too() -> None:
    spec = BudgetSpec(limit=seconds(30), holding=seconds(20))
    budgets = replace(jobs(threads=600), roles={"web_app": spec})
    check = one(facts(stored=NO_TIMEOUTS), NO_TIMEOUTS[2].name, scope="role web_app", budgets=budgets)
    assert check.sql == ("ALTER ROLE \"web_app\" SET idle_in_transaction_session_timeout = '20s';",)


def test_a_withheld_statement_stays_a_comment_whatever_is_in_a_name() -> None:
    evil = "x\nDROP TABLE accounts;"
    remedy = Remedy(SetForRole(role=evil, name="lock_timeout", value="1s"), f"because of {evil}")
    assert all(line.startswith("-- ") for line in remedy.lines)
    assert len(remedy.lines) == 3


def test_the_block_says_for_whom_it_is() -> None:
    assert "for a superuser" in block([], server="orders")
    assert "for role dba" in block([], server="orders", runner="dba")
