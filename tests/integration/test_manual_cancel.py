"""What people do themselves: explain one backend, cancel one run, read the ledger."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.processes import command
from support.servers import Connect, TestServer, start
from support.watching import answer

RULES = """
policy:
  rules:
    - {name: etl, finding: orphan, evidence: [over_budget], roles: ["etl_*"], action: cancel}
    - name: shop
      finding: orphan
      evidence: [over_budget]
      databases: [postgres]
      ignore: {applications: ["vip-*"]}
      action: cancel
    - {name: all, finding: orphan, evidence: [over_budget], roles: ["*"], action: cancel}
  protect: {roles: [etl_app]}
"""


@pytest.fixture
def file(server: TestServer, tmp_path: Path) -> Path:
    path = tmp_path / "pgwatchdog.yaml"
    path.write_text(
        f'clusters: [{{name: main, dsn: "{server.dsn("canceller")}"}}]\n'
        "budgets: {grace: 0s, roles: {web_app: 1ms, etl_app: 1ms}, default: 1h}\n"
        f"{RULES}"
        f"ledger: {{url: 'sqlite:///{tmp_path}/ledger.db'}}\n"
    )
    return path


def findings(file: Path) -> list[dict[str, Any]]:  # whatever the JSON holds
    found = json.loads(command("report", "-c", str(file), "--format", "json").stdout)["clusters"][0]["findings"]
    assert isinstance(found, list)
    return found


def start_of(file: Path, pid: int) -> str:
    [start] = [each["start"] for each in findings(file) if each["pid"] == pid]
    return str(start)


def test_explain_names_the_rule_that_decides_and_those_it_passed_over(
    server: TestServer, connect: Connect, file: Path
) -> None:
    pid = start(connect(name="checkout"), "SELECT pg_sleep(60)", server)
    told = command("explain", "-c", str(file), "main", str(pid))
    assert told.returncode == 0
    for line in (
        "rule etl: does not speak",
        "no   roles: web_app; etl_*",
        "rule shop: decides  <- decides",
        "yes  ignore applications: checkout; vip-*",
        "rule all: would speak as well",
        "no   writer",
        "verdict: would cancel (dry run)  <- decides",
        "cluster: Dry run: nothing is signalled.",
        "policy.mode is dry-run",
        "budget: 0s by role:web_app",
    ):
        assert line in told.stdout, line


def test_explain_marks_the_protection_that_decides(server: TestServer, connect: Connect, file: Path) -> None:
    pid = start(connect(role="etl_app", name="scan:threads:w1"), "SELECT pg_sleep(60)", server)
    told = command("explain", "-c", str(file), "main", str(pid)).stdout
    assert "yes  protected role: policy.protect.roles names its role  <- decides" in told
    assert "verdict: left alone: protected role  <- decides" in told
    assert "job 'threads', window 'w1'; not bound to this role" in told


def test_explain_of_a_session_inside_its_budget_idle_or_gone_says_so(
    server: TestServer, connect: Connect, file: Path
) -> None:
    young = start(connect(role="blind"), "SELECT pg_sleep(60)", server)
    idle = connect().info.backend_pid
    for pid, words in ((young, "finding: none"), (idle, "is idle, or no client"), (2**22 - 7, "is not there")):
        told = command("explain", "-c", str(file), "main", str(pid))
        assert (told.returncode, words in told.stdout) == (0, True), told.stdout


def test_a_run_is_cancelled_by_hand_and_stands_on_record(server: TestServer, connect: Connect, file: Path) -> None:
    caller = connect()
    pid = start(caller, "SELECT pg_sleep(60)", server)
    done = command("cancel", "-c", str(file), "main", str(pid), "--start", start_of(file, pid))
    assert answer(caller) == "57014"
    assert (done.returncode, "cancelled: between statements" in done.stderr) == (0, True)
    act = json.loads(done.stdout)
    [line] = command("history", "-c", str(file), "--format", "json").stdout.splitlines()
    record = json.loads(line)
    assert (record["id"], record["rule"], record["outcome"]) == (act["act"], "by-hand", "between_statements")
    assert record["evidence"] == ["over_budget"]
    table = command("history", "-c", str(file)).stdout
    for word in ("web_app", f"pid {pid}", "over budget", "by by-hand", record["id"], "signalled", "between statements"):
        assert word in table, word


def test_a_rehearsal_by_hand_signals_nothing(server: TestServer, connect: Connect, file: Path) -> None:
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    done = command("cancel", "-c", str(file), "main", str(pid), "--start", start_of(file, pid), "--dry-run")
    assert (done.returncode, "would be cancelled" in done.stderr) == (0, True)
    assert [each["pid"] for each in findings(file)] == [pid]
    [line] = command("history", "-c", str(file), "--hand", "rehearse", "--format", "json").stdout.splitlines()
    assert json.loads(line)["result"] == "rehearsed"
    assert command("history", "-c", str(file), "--hand", "signal").stdout == "Nothing on record.\n"


def test_what_is_not_the_run_that_was_looked_at_or_protected_is_not_touched(
    server: TestServer, connect: Connect, file: Path
) -> None:
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    protected = start(connect(role="etl_app"), "SELECT pg_sleep(60)", server)
    young = start(connect(role="blind"), "SELECT pg_sleep(60)", server)
    elsewhere = start_of(file, protected)
    for target, begun, words in (
        (pid, elsewhere, "runs something else by now"),
        (protected, elsewhere, "is protected: protected role"),
        (2**22 - 7, elsewhere, "no session with pid"),
    ):
        done = command("cancel", "-c", str(file), "main", str(target), "--start", begun)
        assert (done.returncode, words in done.stderr, done.stdout) == (1, True, ""), done.stderr
    begun = str(server.value("SELECT to_json(query_start)#>>'{}' FROM pg_stat_activity WHERE pid = %s", young))
    done = command("cancel", "-c", str(file), "main", str(young), "--start", begun)
    assert "neither an orphan nor a duplicate" in done.stderr
    assert {each["pid"] for each in findings(file)} == {pid, protected}
    seen = command("history", "-c", str(file))
    assert (seen.returncode, seen.stdout) == (0, "Nothing on record.\n")
    assert "there is no ledger yet at sqlite:" in seen.stderr
    assert list(file.parent.glob("*.db*")) == [], "whoever reads makes no ledger that the daemon then cannot write"


def test_a_disarm_file_stops_people_as_well(server: TestServer, connect: Connect, file: Path) -> None:
    pid = start(connect(), "SELECT pg_sleep(60)", server)
    file.write_text(file.read_text().replace("policy:", f"policy:\n  disarm_file: {file.parent}/disarm"))
    begun = start_of(file, pid)
    (file.parent / "disarm").touch()
    done = command("cancel", "-c", str(file), "main", str(pid), "--start", begun)
    assert (done.returncode, "disarm" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cancel", "main", "1", "--start", "yesterday"), "is no instant"),
        (("cancel", "main", "1", "--start", "2026-01-01T00:00:00"), "has no zone"),
        (
            ("cancel", "other", "1", "--start", "2026-01-01T00:00:00Z"),
            "no cluster is called 'other'; configured are main",
        ),
        (("explain", "other", "1"), "no cluster is called 'other'"),
        (("history", "--since", "1"), "--since: 1 has no unit"),
    ],
)
def test_bad_input_is_named(file: Path, arguments: tuple[str, ...], words: str) -> None:
    done = command(*arguments, "-c", str(file))
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_without_a_ledger_nothing_is_done_by_hand_either(file: Path) -> None:
    file.write_text("\n".join(line for line in file.read_text().splitlines() if not line.startswith("ledger")))
    for arguments in (("cancel", "main", "1", "--start", "2026-01-01T00:00:00Z"), ("history",)):
        done = command(*arguments, "-c", str(file))
        assert (done.returncode, "ledger.url is not set" in done.stderr) == (2, True)
