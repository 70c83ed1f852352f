"""The doctor on real servers of every version: what it prints closes the gaps, and it prints nothing else."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.processes import command, get, samples
from support.servers import Client, Connect, TestServer, make_server, start, until
from support.watching import Recorder, answer, daemon_on, watcher

from watchdog.core.doctor.facts import Transport
from watchdog.core.observed.stored_settings import UNITS, parse_span
from watchdog.demo.guardian import Guardian


def configuration(folder: Path, server: TestServer, *, role: str = "pgwatchdog", threads: str = "15min") -> Path:
    file = folder / "pgwatchdog.yaml"
    file.write_text(
        f'clusters: [{{name: main, dsn: "{server.dsn(role)}"}}]\n'
        "budgets:\n  roles: {web_app: 30s, etl_app: {budget: 15min, holding: 1min}, 'odd \"name': 10s}\n"
        f"  jobs: [{{roles: [etl_app], budgets: {{threads: {threads}}}}}]\n"
    )
    return file


def examined(file: Path, *, code: int | None = None) -> list[dict[str, Any]]:  # whatever the JSON holds
    done = command("doctor", "-c", str(file), "--format", "json")
    assert code in {None, done.returncode}
    [cluster] = json.loads(done.stdout)["clusters"]
    checks = cluster["checks"]
    assert isinstance(checks, list)
    return checks


def piped(server: TestServer, sql: str, *, role: str = "postgres") -> None:
    """Run a text as people do, through psql, stopping at the first error."""
    psql = server.embedded.binaries / "psql"
    arguments = [str(psql), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", server.dsn(role)]
    done = subprocess.run(arguments, input=sql, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_block_piped_to_psql_closes_every_gap_of_the_roles(versioned: TestServer, tmp_path: Path) -> None:
    versioned.run(
        f'CREATE ROLE "odd ""name" LOGIN PASSWORD \'{versioned.embedded.password}\';'
        "ALTER ROLE web_app IN DATABASE other SET statement_timeout = '5min';"
        "ALTER ROLE etl_app SET lock_timeout = '1h'"
    )
    file = configuration(tmp_path, versioned)
    before = [each for each in examined(file, code=1) if each["scope"].startswith("role ")]
    failing = {each["scope"] for each in before if each["status"] == "failed"}
    assert failing == {"role web_app", "role web_app in other", "role etl_app", 'role odd "name'}

    piped(versioned, command("doctor", "-c", str(file), "--format", "sql").stdout)

    after = [each for each in examined(file, code=0) if each["scope"].startswith("role ")]
    assert {each["status"] for each in after} == {"ok"}, after
    assert len(after) == len(before)
    stored = versioned.value(
        "SELECT setconfig FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole"
        " WHERE rolname = 'etl_app' AND setdatabase = 0"
    )
    assert isinstance(stored, list)
    assert "statement_timeout=895s" in stored, "under the budget that all work of the role has"
    with psycopg.connect(versioned.dsn("web_app", database="other"), autocommit=True) as session:
        row = session.execute("SHOW statement_timeout").fetchone()
    assert row == ("28500ms",), "and new sessions have it"


@pytest.mark.parametrize("threads", ["2min", "40min"])
def test_timeouts_that_would_end_longer_work_of_a_role_are_not_set_by_the_block(
    own_server: TestServer, tmp_path: Path, threads: str
) -> None:
    """The job's budget is the smaller or the larger one of the role's two: either way one would end the other."""
    file = configuration(tmp_path, own_server, threads=threads)

    piped(own_server, command("doctor", "-c", str(file), "--format", "sql").stdout)

    stored = own_server.value(
        "SELECT setconfig FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole WHERE rolname = 'etl_app'"
    )
    assert isinstance(stored, list)
    names = {each.partition("=")[0] for each in stored}
    assert names.isdisjoint({"statement_timeout", "lock_timeout"})
    assert "idle_in_transaction_session_timeout" in names, "one limit for holding counts for all its work"
    gaps = {each["name"]: each for each in examined(file, code=1) if each["scope"] == "role etl_app"}
    [withheld] = gaps["statement_timeout"]["withheld"]
    assert "it would also end work of etl_app" in withheld["reason"]
    assert "SET LOCAL statement_timeout = " in withheld["sql"]


def gappy(server: TestServer) -> None:
    """A server with a gap of every kind, and a role without rights that matter, `nobody`."""
    password = server.embedded.password
    server.run(
        f"CREATE ROLE nobody LOGIN PASSWORD '{password}'; CREATE ROLE dba LOGIN CREATEROLE PASSWORD '{password}';"
        f"CREATE ROLE boss LOGIN SUPERUSER PASSWORD '{password}';"
        "REVOKE pg_monitor FROM pgwatchdog; GRANT pg_read_all_settings TO pgwatchdog;"
        "ALTER ROLE pgwatchdog CONNECTION LIMIT 1; ALTER ROLE web_app SET track_activities = off;"
        "ALTER SYSTEM SET compute_query_id = off; ALTER SYSTEM SET tcp_keepalives_idle = 7200;"
        "SELECT pg_reload_conf()"
    )


def administer(server: TestServer) -> None:
    """Let `dba` administer some of the roles, one of them by a group; not `odd"name`."""
    server.run(
        'CREATE ROLE "odd ""name" LOGIN; CREATE ROLE admins; GRANT admins TO dba;'
        "GRANT web_app, pgwatchdog, pg_monitor TO admins WITH ADMIN OPTION; GRANT etl_app TO dba WITH ADMIN OPTION"
    )


def statements(sql: str) -> list[str]:
    """The lines that are run."""
    return [line for line in sql.splitlines() if line and not line.startswith("--")]


@pytest.mark.parametrize("runner", ["nobody", "dba", "postgres", "web_app"])
def test_nothing_that_is_printed_fails_for_the_role_that_will_run_it(
    versioned: TestServer, tmp_path: Path, runner: str
) -> None:
    gappy(versioned)
    administer(versioned)
    file = configuration(tmp_path, versioned, role="pgwatchdog")

    sql = command("doctor", "-c", str(file), "--as", runner, "--format", "sql").stdout
    piped(versioned, sql, role=runner)

    run = statements(sql)
    assert ("ALTER SYSTEM" in "\n".join(run)) == (runner == "postgres")
    assert ('GRANT pg_monitor TO "pgwatchdog";' in run) == (runner in {"dba", "postgres"})
    assert any(each.startswith('ALTER ROLE "web_app" SET') for each in run) == (runner != "nobody")
    odd = any(each.startswith('ALTER ROLE "odd ""name" SET') for each in run)
    assert odd == (runner == "postgres" or (runner == "dba" and versioned.major < 16))
    assert runner == "postgres" or "-- Not to be run: " in sql


async def test_it_sees_how_its_own_session_is_encrypted(versioned: TestServer, tool: Callable[[str], str]) -> None:
    serve_tls(versioned, openssl=tool("openssl"))
    found = {mode: await transport(f"{versioned.dsn()} sslmode={mode}") for mode in ("require", "disable")}
    base = Transport(encrypted=True, version="TLSv1.3", gssapi=False, local=True, sslmode="require")
    assert found["require"] == base
    assert found["disable"] == replace(base, encrypted=False, version=None, sslmode="disable")


def serve_tls(server: TestServer, *, openssl: str) -> None:
    """Let the server offer TLS with a certificate that it has signed itself."""
    data = Path(str(server.value("SHOW data_directory")))
    request = [openssl, "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*request, "-keyout", "server.key", "-out", "server.crt"], cwd=data, check=True, capture_output=True)
    owner = data.stat()
    for name in ("server.key", "server.crt"):
        (data / name).chmod(0o600)
        os.chown(data / name, owner.st_uid, owner.st_gid)
    server.run("ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()")
    until(lambda: server.value("SHOW ssl") == "on", what="TLS")


async def transport(dsn: str) -> Transport:
    """What the doctor reads of its own session."""
    with watcher(dsn) as cycle:
        look = await cycle.look(tick=True)
        return (await cycle.source.facts(look)).transport


@pytest.mark.parametrize(
    ("until_when", "status"),
    [("'infinity'", "ok"), ("now() + interval '3 days'", "warning"), ("now() + interval '30 days'", "ok")],
)
def test_it_warns_before_its_own_password_ends(
    own_server: TestServer, tmp_path: Path, until_when: str, status: str
) -> None:
    when = own_server.value(f"SELECT ({until_when})::timestamptz::text")
    own_server.run(f"ALTER ROLE pgwatchdog VALID UNTIL '{when}'")
    found = {each["name"]: each["status"] for each in examined(configuration(tmp_path, own_server))}
    assert found["rights.password"] == status


def test_it_only_reads(own_server: TestServer, tmp_path: Path) -> None:
    before = own_server.value("SELECT (SELECT count(*) FROM pg_db_role_setting)::text || pg_current_wal_insert_lsn()")
    examined(configuration(tmp_path, own_server))
    after = own_server.value("SELECT (SELECT count(*) FROM pg_db_role_setting)::text || pg_current_wal_insert_lsn()")
    assert before == after


def test_the_servers_own_value_is_unknown_where_our_role_has_one_of_its_own(
    own_server: TestServer, tmp_path: Path
) -> None:
    own_server.run("ALTER ROLE pgwatchdog SET statement_timeout = '1s'")
    found = {(each["name"], each["scope"]): each["status"] for each in examined(configuration(tmp_path, own_server))}
    assert found["statement_timeout", "role web_app"] == "unknown"
    assert found["lock_timeout", "role web_app"] == "warning"


def test_a_cluster_that_cannot_be_read_ends_with_3_and_the_others_are_examined(
    server: TestServer, tmp_path: Path
) -> None:
    file = configuration(tmp_path, server)
    file.write_text(file.read_text().replace("clusters: [", 'clusters: [{name: gone, dsn: "host=127.0.0.1 port=1"}, '))
    done = command("doctor", "-c", str(file), "--fail-on", "never", "--format", "json")
    gone, main = json.loads(done.stdout)["clusters"]
    assert (done.returncode, gone["read"], main["read"]) == (3, False, True)
    assert command("doctor", "-c", str(file), "--format", "sql").returncode == 2
    assert "ALTER ROLE" in command("doctor", "-c", str(file), "--server", "main", "--format", "markdown").stdout


def test_fail_on_chooses_what_ends_with_1(server: TestServer) -> None:
    """Without a budget nothing is failed, and there are warnings on every fresh server."""
    for fail_on, code in (("failed", 0), ("warning", 1), ("never", 0)):
        assert command("doctor", server.dsn(), "--fail-on", fail_on).returncode == code


def test_the_table_never_breaks_a_line_of_sql(server: TestServer, tmp_path: Path) -> None:
    text = command("doctor", "-c", str(configuration(tmp_path, server))).stdout
    block = text.partition("What closes the gaps (nothing has been run):\n")[2]
    for line in block.splitlines():
        assert not line or line.startswith(("--", "ALTER ", "GRANT ", "SELECT pg_reload_conf();")), line


@pytest.mark.parametrize("text", ["5min", "1.5h", "30", "90s", "1d", "250ms", "2 min", "0.5s", "1e3"])
def test_a_stored_text_is_read_as_the_server_itself_reads_it(server: TestServer, text: str) -> None:
    with server.admin() as session:
        session.execute("SELECT set_config('statement_timeout', %s, false)", (text,))
        row = session.execute("SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'").fetchone()
    span = parse_span(text, unit=UNITS["statement_timeout"])
    assert row is not None
    assert span is not None
    assert row[0] == round(span.total_seconds() * 1000)


def test_the_granted_role_sees_everything_reads_no_table_and_cancels_only_where_it_may(versioned: TestServer) -> None:
    versioned.run("DROP ROLE pgwatchdog")
    piped(versioned, command("grants", "--server-version", str(versioned.major), "--enforce").stdout)
    with granted(versioned) as (watchdog, ordinary, boss):
        pids = [start(each, "SELECT pg_sleep(60)", versioned) for each in (ordinary, boss)]
        seen = watchdog.execute("SELECT query FROM pg_stat_activity WHERE pid = ANY(%s)", (pids,)).fetchall()
        assert seen == [("SELECT pg_sleep(60)",)] * 2
        for statement in (b"SELECT * FROM accounts", b"CREATE TABLE public.x (n int)", b"CREATE ROLE x"):
            if versioned.major == 14 and b"TABLE" in statement:
                continue  # before 15 everybody may create in public: a matter of the server's, not of our grants
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                watchdog.execute(statement)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            watchdog.execute("SELECT pg_cancel_backend(%s)", (pids[1],))
        assert watchdog.execute("SELECT pg_cancel_backend(%s)", (pids[0],)).fetchone() == (True,)
        assert answer(ordinary) == "57014"
    reserved = versioned.value(
        "SELECT pg_has_role('pgwatchdog', oid, 'USAGE') FROM pg_roles WHERE rolname = 'pg_use_reserved_connections'"
        " UNION ALL SELECT NULL LIMIT 1"
    )
    assert reserved is (True if versioned.major >= 16 else None)


def test_the_role_for_dry_run_cancels_nobody(own_server: TestServer) -> None:
    own_server.run("DROP ROLE pgwatchdog")
    piped(own_server, command("grants", "--server-version", str(own_server.major)).stdout)
    with granted(own_server) as (watchdog, ordinary, _):
        pid = start(ordinary, "SELECT pg_sleep(60)", own_server)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            watchdog.execute("SELECT pg_cancel_backend(%s)", (pid,))


@contextmanager
def granted(server: TestServer) -> Iterator[tuple[Client, Client, Client]]:
    """Sessions of the granted role, of an ordinary one and of a superuser."""
    dsn = server.embedded.dsn(role="pgwatchdog") + " password='change me'"
    sessions = [psycopg.connect(each, autocommit=True) for each in (dsn, server.dsn("web_app"), server.dsn("postgres"))]
    try:
        yield sessions[0], sessions[1], sessions[2]
    finally:
        for each in sessions:
            each.close()


async def test_the_metrics_tell_inversions_and_the_servers_own_counters(
    server: TestServer, connect: Connect, tmp_path: Path
) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)  # a database in which nothing runs takes no place of a label
    server.run("ALTER ROLE web_app SET statement_timeout = '29s'; ALTER ROLE etl_app SET statement_timeout = '1h'")
    worked = "SELECT active_time > 0 FROM pg_stat_database WHERE datname = 'postgres'"
    until(lambda: server.value(worked), what="the server's own count of its work")
    recorder = Recorder()
    try:
        async with daemon_on(tmp_path, configuration(tmp_path, server).read_text(), sinks=(recorder,)) as (_, address):
            await recorder.until(lambda seen: seen.looks())
            exported = samples((await asyncio.to_thread(get, f"{address}metrics")).text)
    finally:
        server.run("ALTER ROLE web_app RESET statement_timeout; ALTER ROLE etl_app RESET statement_timeout")
    shown = {
        role: (
            exported[f'pgwatchdog_role_statement_timeout_seconds{{server="main",usename="{role}"}}'],
            exported[f'pgwatchdog_timeout_inversion{{server="main",usename="{role}"}}'],
        )
        for role in ("web_app", "etl_app")
    }
    assert shown == {"web_app": (29, 0), "etl_app": (3600, 1)}
    assert exported['pgwatchdog_client_connection_check_interval_seconds{server="main"}'] == 0
    assert exported['pgwatchdog_can_cancel{server="main"}'] == 0
    own = server.value("SELECT active_time FROM pg_stat_database WHERE datname = 'postgres'")
    assert isinstance(own, float)
    assert 0 < exported['pgwatchdog_active_seconds_total{datname="postgres",server="main"}'] <= own / 1000
    assert exported['pgwatchdog_sessions_abandoned_total{datname="postgres",server="main"}'] >= 0


def fill(server: TestServer, taken: list[Client]) -> None:
    """Take every connection that an ordinary role can have, until one is refused."""
    while True:
        taken.append(psycopg.connect(server.dsn("web_app"), autocommit=True))


def test_the_granted_role_gets_in_when_all_ordinary_connections_are_taken(guardian: Guardian) -> None:
    """From 16 on; before that the session that was opened before trouble is all there is."""
    settings = {"max_connections": "12", "superuser_reserved_connections": "2", "reserved_connections": "3"}
    server = make_server(guardian=guardian, settings=settings)
    server.run("DROP ROLE pgwatchdog")
    piped(server, command("grants", "--server-version", str(server.major)).stdout)
    dsn = server.embedded.dsn(role="pgwatchdog") + " password='change me'"
    taken: list[Client] = []
    try:
        with pytest.raises(psycopg.OperationalError, match="reserved"):
            fill(server, taken)
        done = command("report", dsn, "--budget", "15min")
        assert (done.returncode, "Nothing found." in done.stdout) == (0, True), done.stdout
    finally:
        for each in taken:
            each.close()
        server.embedded.stop()
