"""Field cases, section D: application names. Each docstring says the rule; the list is docs/field-cases.md."""

from datetime import timedelta

import psycopg
from support.builders import rule
from support.servers import Connect, TestServer, start
from support.watching import case_of, found, look_until, orphaned, watcher

from watchdog.core.judging.copies import CopyKey

JOBS = rule(copies=1, retry_gap=0.1)


async def test_c24_names_cut_at_63_bytes_are_no_keys_and_the_roles_budget_still_applies(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a name that may have been cut is not used as a job key; it is counted, and the role's budget applies."""
    cut = [
        start(connect(role="etl_app", name=f"scan:{'x' * 58}:2026-0{i}"), "SELECT pg_sleep(60)", server) for i in (1, 2)
    ]
    names = {server.value("SELECT application_name FROM pg_stat_activity WHERE pid = %s", pid) for pid in cut}
    assert len(names) == 1, "the server shows both with one name"
    with watcher(server, JOBS, roles={"etl_app": 0.3}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, *cut))
    assert dict(look.judgement.copies) == {}
    assert look.judgement.unjudged["unusable_key"] == 2
    assert [found(look, pid) for pid in cut] == [["orphan"], ["orphan"]]


async def test_c24_names_with_letters_outside_ascii_never_merge(server: TestServer, connect: Connect) -> None:
    """Rule: servers before 16 write `?` for bytes outside ASCII, so a name with `?` is not used as a job key."""
    for job in ("jób", "jáb"):
        start(connect(role="etl_app", name=f"scan:{job}:w1"), "SELECT pg_sleep(60)", server)
    with watcher(server, JOBS) as cycle:
        look = await cycle.look(tick=True)
    assert all(len(group) == 1 for group in look.judgement.copies.values())
    assert len(look.judgement.copies) + look.judgement.unjudged["unusable_key"] == 2


async def test_c26_a_generic_name_makes_no_copies_and_the_pile_shows_as_sessions_over_budget(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a name that fits no job pattern makes no copies; orphans with the same query id are counted as `alike`."""
    for _ in range(5):
        start(connect(role="etl_app", name="PostgreSQL JDBC Driver"), "SELECT pg_sleep(60)", server)
    person = start(connect(role="etl_app", name="psql"), "SELECT pg_sleep(60)", server)
    server.run("ALTER ROLE web_app SET compute_query_id = on")
    try:
        dashboard = [start(connect(name="Metabase"), "SELECT pg_sleep(61)", server) for _ in range(6)]
    finally:
        server.run("ALTER ROLE web_app RESET compute_query_id")
    with watcher(server, JOBS, roles={"web_app": 0.3, "etl_app": 60.0}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, *dashboard))
    assert dict(look.judgement.copies) == {}
    assert {each.backend.pid for each in look.judgement.findings} == set(dashboard)
    assert {each.alike for each in look.judgement.findings} == {6}
    assert found(look, person) == []


async def test_c29_a_session_that_renames_itself_begins_anew(server: TestServer, connect: Connect) -> None:
    """Rule: work under a new `application_name` is a new run; the age of the old one is not carried over."""
    worker = connect(role="etl_app", name="scan:j:w1")
    with watcher(server, JOBS) as cycle:
        start(worker, "SELECT pg_sleep(0.5)", server)
        first = await cycle.look(tick=True)
        while worker.pgconn.get_result():
            pass
        worker.execute("SET application_name = 'scan:j:w2'")
        pid = start(worker, "SELECT pg_sleep(60)", server)
        second = await cycle.look(tick=True)
    one, two = case_of(first, pid), case_of(second, pid)
    assert one is not None
    assert two is not None
    assert (one.key and one.key.window, two.key and two.key.window) == ("w1", "w2")
    assert two.age < timedelta(seconds=0.5)
    assert list(second.judgement.copies) == [CopyKey("postgres", "etl_app", "j", "w2")]


async def test_c29_a_rename_inside_a_transaction_carries_no_age_over(server: TestServer, connect: Connect) -> None:
    """Rule: after a rename inside a transaction a run counts from its first statement under the new name."""
    worker = connect(role="etl_app", name="scan:j:w1")
    worker.execute("BEGIN")
    with watcher(server, JOBS) as cycle:
        start(worker, "SELECT pg_sleep(1)", server)
        await cycle.look(tick=True)
        while worker.pgconn.get_result():
            pass
        worker.execute("SET LOCAL application_name = 'scan:j:w2'")
        pid = start(worker, "SELECT pg_sleep(0.7)", server)
        renamed = case_of(await cycle.look(tick=True), pid)
        while worker.pgconn.get_result():
            pass
        worker.execute("ROLLBACK")
        start(worker, "SELECT pg_sleep(60)", server)
        back = case_of(await cycle.look(tick=True), pid)
    assert renamed is not None
    assert back is not None
    assert (renamed.key and renamed.key.window, back.key and back.key.window) == ("w2", "w1")
    assert renamed.age < timedelta(seconds=0.7)
    assert back.age < timedelta(seconds=1)


async def test_c29_an_idle_session_that_keeps_its_name_is_no_copy(server: TestServer, connect: Connect) -> None:
    """Rule: only running backends are copies; an idle session that keeps its name is not."""
    idle = connect(role="etl_app", name="before")
    idle.execute("SET application_name = 'scan:j:w1'")
    start(connect(role="etl_app", name="scan:j:w1"), "SELECT pg_sleep(60)", server)
    with watcher(server, JOBS) as cycle:
        look = await cycle.look(tick=True)
    assert [len(group) for group in look.judgement.copies.values()] == [1]
    assert look.judgement.findings == []


async def test_the_same_key_under_a_role_that_may_not_claim_it_has_the_smaller_budget(
    server: TestServer, connect: Connect
) -> None:
    """Rule: a job's budget replaces that of a role only if its rule names the role; otherwise the smaller counts."""
    jobs = rule(roles=frozenset({"etl_app"}), budgets={"long": 60})
    claimed = start(connect(role="web_app", name="scan:long:w1"), "SELECT pg_sleep(60)", server)
    entitled = start(connect(role="etl_app", name="scan:long:w1"), "SELECT pg_sleep(60)", server)
    with watcher(server, jobs, roles={"web_app": 0.3, "etl_app": 0.3}, grace=0.0) as cycle:
        look = await look_until(cycle, lambda look: orphaned(look, claimed))
    assert (found(look, claimed), found(look, entitled)) == (["orphan"], [])


async def test_names_in_any_encoding_break_nothing(server: TestServer) -> None:
    """Rule: bytes that cannot be decoded are shown escaped; the poll does not fail."""
    server.create_database("raw", "ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
    server.create_database("latin", "ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    password = server.embedded.password.encode()
    with psycopg.connect(server.dsn("postgres", database="raw"), autocommit=True) as admin:
        admin.execute("SET client_encoding = 'SQL_ASCII'")
        admin.execute(b'CREATE ROLE "j\xfcrgen" LOGIN PASSWORD \'' + password + b"'")
        admin.execute('CREATE ROLE "jürgen" LOGIN'.encode())
    try:
        dsn = server.dsn("postgres")
        for database in ("raw", "latin", "postgres"):
            with watcher(dsn.replace("dbname=postgres", f"dbname={database}"), default=60.0) as cycle:
                names = set((await cycle.take_census()).roles.values())
                look = await cycle.look(tick=True)
            assert {"jürgen", "j\\xfcrgen" if database != "latin" else "jÃ¼rgen"} <= names
            assert look.complete
    finally:
        with psycopg.connect(server.dsn("postgres", database="raw"), autocommit=True) as admin:
            admin.execute("SET client_encoding = 'SQL_ASCII'")
            admin.execute(b'DROP ROLE "j\xfcrgen"')
            admin.execute('DROP ROLE "jürgen"'.encode())
        server.run("DROP DATABASE raw; DROP DATABASE latin")
