"""The commands as people and scripts use them: output, exit codes, bad input."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest
from support.processes import COMMAND, command, daemon_process, environment, get
from support.servers import Connect, TestServer, start, until

from watchdog.cli.exits import Exit
from watchdog.cli.main import run
from watchdog.demo.guardian import Guardian


def test_a_report_without_findings_says_so_and_ends_with_0(server: TestServer) -> None:
    done = command("report", server.dsn(), "--budget", "15min")
    assert done.returncode == 0
    assert "Nothing found." in done.stdout


def test_a_report_shows_an_orphan_and_ends_with_1(server: TestServer, connect: Connect) -> None:
    start(connect(role="etl_app", name="scan:threads:2026-11"), "SELECT pg_sleep(60)", server)
    time.sleep(0.2)  # twice the budget below
    done = command("report", server.dsn(), "--budget", "100ms", "--grace", "0s")
    assert done.returncode == 1
    for word in ("orphan", "etl_app", "threads", "2026-11", "over budget", "would cancel (dry run)"):
        assert word in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert command("report", server.dsn(), "--budget", "100ms", "--grace", "0s", "--exit-zero").returncode == 0


def test_a_report_without_a_budget_lists_what_it_did_not_judge_and_never_says_nothing_found(
    server: TestServer, connect: Connect
) -> None:
    start(connect(name="billing"), "SELECT pg_sleep(60)", server)
    done = command("report", server.dsn())
    assert done.returncode == 0
    assert "NOT JUDGED" in done.stdout
    assert "billing" in done.stdout
    assert "--budget 15min" in done.stdout
    assert "Nothing found" not in done.stdout


def test_a_cluster_that_could_not_be_read_is_named_and_weighs_more_than_findings(
    server: TestServer, connect: Connect
) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    time.sleep(0.2)
    done = command("report", server.dsn(), "host=127.0.0.1 port=1 user=x", "--budget", "100ms", "--grace", "0s")
    assert done.returncode == 3
    assert "NOT READ" in done.stdout
    assert "127.0.0.1:1" in done.stdout
    assert "orphan" in done.stdout
    assert "Nothing found" not in done.stdout


def test_a_role_without_rights_is_never_shown_as_healthy(server: TestServer, connect: Connect) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    done = command("report", server.dsn("blind"), "--budget", "15min")
    assert done.returncode == 3
    assert "Read only in part" in done.stdout
    assert "GRANT pg_monitor" in done.stdout
    assert "Nothing found" not in done.stdout


def test_the_json_report_is_flat_and_says_what_is_unknown(server: TestServer, connect: Connect) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    time.sleep(0.2)
    done = command("report", server.dsn(), "--budget", "100ms", "--grace", "0s", "--format", "json")
    [cluster] = json.loads(done.stdout)["clusters"]
    [finding] = cluster["findings"]
    assert list(finding) == [
        "server", "pid", "backend_start", "role", "database", "job", "window", "state", "wait_event_type",
        "wait_event", "query_id", "client", "kind", "evidence", "clock", "start", "running_seconds", "budget_seconds",
        "budget", "overrun_seconds", "blocks", "alike", "verdict",
    ]  # fmt: skip
    assert (finding["kind"], finding["job"], finding["blocks"]) == ("orphan", None, None)
    assert finding["verdict"] == {
        "hand": "rehearse",
        "action": "cancel",
        "rule": "every-orphan",
        "withheld": None,
        "carried_out": False,
        "passed_over": [],
    }


def test_the_markdown_report_is_a_table(server: TestServer, connect: Connect) -> None:
    start(connect(), "SELECT pg_sleep(60)", server)
    time.sleep(0.2)
    done = command("report", server.dsn(), "--budget", "100ms", "--grace", "0s", "--format", "markdown")
    head, line, row = done.stdout.splitlines()[:3]
    assert head.count("|") == line.count("|") == row.count("|")
    assert "| orphan | web_app |" in row


def test_a_watching_report_looks_again_until_it_is_interrupted(server: TestServer) -> None:
    arguments = [*COMMAND, "report", server.dsn(), "--budget", "15min", "--watch", "1s"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        reports = 0
        while reports < 3:
            reports += "Nothing found" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130


INTERRUPTED = """
import importlib.abc, os, signal, sys

class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["pgwatchdog", "report", "host=127.0.0.1 port=1"]
from watchdog.cli.entry import main
main()
"""


@pytest.mark.parametrize("name", ["watchdog.cli.main", "typer", "watchdog.cli.report", "psycopg", "watchdog.core"])
def test_d11_an_interrupt_while_modules_are_imported_ends_without_a_traceback(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_d11_a_class_that_is_interrupted_while_it_is_made_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> NoReturn:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("watchdog.cli.main.make_app", interrupted)
    assert run(["report"]) == Exit.INTERRUPTED


def test_a_report_reads_a_configuration(server: TestServer, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(f'clusters: [{{name: orders, dsn: "{server.dsn()}"}}]\nbudgets: {{default: 15min}}\n')
    done = command("report", "-c", str(file))
    assert (done.returncode, "orders" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["report"], "nothing to watch"),
        (["report", "hots=x"], "unknown keyword 'hots', did you mean 'host'?"),
        (["report", "host=x", "--budget", "15"], "15 has no unit"),
        (["report", "host=x", "--watch", "1ms"], "at least 1s"),
        (["report", "host=x", "-c", "/nonexistent.yaml"], "not both"),
        (["report", "postgresql://u:secr@tail@h/db"], "write @ as %40"),
        (["report", "host=x port=abc"], "port 'abc' is no port"),
        (["report", "host=x sslmode=on"], "sslmode 'on' is none"),
        (["report", "host=x", "--budget", "-3s"], "is not a duration"),
        (["report", "--budget", "15min"], "go with connection strings"),
        (["run", "-c", "/nonexistent.yaml"], "/nonexistent.yaml: cannot be read"),
        (["run", "--web.listen-address", "nonsense", "-c", "/dev/null"], "the file is empty"),
        (["launch"], "No such command"),
        (["report", "--formt", "json"], "No such option"),
        (["check"], "nothing to watch"),
    ],
)
def test_wrong_usage_is_one_clear_sentence_and_exit_code_2(arguments: list[str], complaint: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_said_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("clusters: [{name: a, dsn: host=127.0.0.1}]\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = command("run", "-c", str(file), "--web.listen-address", f"127.0.0.1:{port}")
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--web.listen-address" in done.stderr


def test_check_and_schema_touch_no_database(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("clusters: [{name: a, dsn: host=127.0.0.1 port=1}]\nbudgets: {roles: {web: 500ms}, grace: 0s}\n")
    checked = command("check", "-c", str(file))
    assert checked.returncode == 0
    assert "1 cluster: a" in checked.stdout
    assert "warning: budgets: role:web is 500ms" in checked.stdout
    assert "statement_timeout" in checked.stdout
    schema = json.loads(command("schema").stdout)
    assert {"clusters", "budgets", "poll"} <= set(schema["properties"])


def test_check_warns_of_a_ledger_that_cannot_be_written_and_creates_nothing(tmp_path: Path) -> None:
    file, folder = tmp_path / "one.yaml", tmp_path / "missing"
    file.write_text(
        "clusters: [{name: a, dsn: host=127.0.0.1 port=1}]\nbudgets: {default: 30s}\n"
        f"ledger: {{url: 'sqlite:///{folder}/ledger.db'}}\n"
    )
    checked = command("check", "-c", str(file))
    assert checked.returncode == 0
    assert f"warning: ledger.url: {folder} does not exist: create this folder" in checked.stdout
    assert list(tmp_path.iterdir()) == [file]
    folder.mkdir()
    assert "warning" not in command("check", "-c", str(file)).stdout
    assert list(folder.iterdir()) == []


def test_sigterm_ends_the_daemon_with_0_also_with_a_frozen_server(
    server: TestServer, tmp_path: Path, guardian: Guardian
) -> None:
    config = f'poll: {{interval: 1s, timeout: 60s}}\nclusters: [{{name: main, dsn: "{server.dsn()}"}}]\n'
    with daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        until(lambda: daemon.events("cluster_read"))
        pid = server.value("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgwatchdog'")
        os.kill(int(str(pid)), signal.SIGSTOP)
        until(lambda: "T" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        time.sleep(1.2)  # a look is under way and hangs
        begun = time.monotonic()
        assert daemon.stop(timeout=10) == 0
        assert time.monotonic() - begun < 10
        os.kill(int(str(pid)), signal.SIGCONT)
    assert daemon.events("stopped")


def test_sighup_reloads(server: TestServer, tmp_path: Path, guardian: Guardian) -> None:
    config = f'clusters: [{{name: main, dsn: "{server.dsn()}"}}]\n'
    with daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        (tmp_path / "pgwatchdog.yaml").write_text("nonsense: 1\n" + config)
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: daemon.events("reload_failed"))
        assert "nonsense: unknown key" in daemon.events("reload_failed")[0]["problems"][0]
        (tmp_path / "pgwatchdog.yaml").write_text(config.replace("main", "renamed"))
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: [each for each in daemon.events("cluster_read") if each["server"] == "renamed"])


def test_one_cluster_from_the_environment_alone(server: TestServer, tmp_path: Path, guardian: Guardian) -> None:
    secret = tmp_path / "password"
    secret.write_text(server.embedded.password)
    env = {
        "PGWATCHDOG_DSN": server.embedded.dsn(role="pgwatchdog"),
        "PGWATCHDOG_PASSWORD_FILE": str(secret),
        "PGWATCHDOG_BUDGET": "30s",
        "PGWATCHDOG_PORT": "tcp://10.0.0.1:10187",
        "PGWATCHDOG_SERVICE_HOST": "10.0.0.1",
    }
    with daemon_process(tmp_path, guardian=guardian, config=None, env=env) as daemon:
        until(lambda: daemon.metrics().get('pgwatchdog_up{server="postgres"}') == 1)
        assert daemon.metrics()['pgwatchdog_budget_seconds{budget="default",server="postgres"}'] == 30


def test_the_log_holds_no_query_text_and_no_password(
    server: TestServer, connect: Connect, tmp_path: Path, guardian: Guardian
) -> None:
    start(connect(), "SELECT pg_sleep(60), 'user@example.org'", server)
    config = f'clusters: [{{name: main, dsn: "{server.dsn()}"}}]\nbudgets: {{default: 100ms, grace: 0s}}\n'
    with daemon_process(tmp_path, guardian=guardian, config=config) as daemon:
        until(lambda: daemon.events("verdict"))
        shown = daemon.log.read_text() + get(f"{daemon.address}metrics").text + get(daemon.address).text
        shown += get(f"{daemon.address}api/v1/findings").text
    assert "user@example.org" not in shown
    assert server.embedded.password not in shown


def test_an_output_that_cannot_be_written_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment()
        )
    assert done.returncode == 2
    assert done.stderr == "pgwatchdog: the output cannot be written: No space left on device\n"


def test_a_reader_that_stops_reading_is_no_error() -> None:
    done = subprocess.run(
        f"{' '.join(COMMAND)} schema | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (done.stdout, done.stderr) == ("{\n", "")
