"""No secret of a configuration is ever shown: planted wherever one can be, looked for in everything that comes out."""

import json
import re
import secrets
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.processes import DaemonProcess, command, daemon_process, get
from support.servers import TestServer, until

from watchdog.cli.main import _run
from watchdog.demo.guardian import Guardian

PIECE = 8
"""Characters of a secret that are looked for: half of one is one too many."""


@dataclass(slots=True)
class Planted:
    """Secrets by the place where each was planted."""

    by_place: dict[str, str] = field(default_factory=dict)

    def __call__(self, place: str) -> str:
        """A new secret for a place: letters and a digit."""
        return self.by_place.setdefault(place, f"q{secrets.token_hex(PIECE)}")

    def number(self, place: str) -> str:
        """A new secret for a place that YAML takes for a number, and for an octal one with a 0 before it."""
        return self.by_place.setdefault(place, "".join(secrets.choice("1234567") for _ in range(2 * PIECE)))

    def leaked(self, text: str) -> list[str]:
        """The places whose secrets are in the text, whole or in pieces."""
        return [
            place
            for place, secret in self.by_place.items()
            if any(secret[i : i + PIECE] in text for i in range(len(secret) - PIECE + 1))
        ]


@pytest.fixture
def planted() -> Planted:
    return Planted()


REST = "clusters: [{name: a, dsn: host=127.0.0.1}]\n"

MALFORMED_DSNS = {
    "unescaped slash": "postgresql://u:{a}/{b}@127.0.0.1/db",
    "unescaped slash after a number": "postgresql://u:12/{a}@127.0.0.1/db",
    "unescaped at": "postgresql://u:{a}@{b}@127.0.0.1/db",
    "unescaped at and slash": "postgresql://u:{a}@{b}/{c}@127.0.0.1/db",
    "unescaped at and colon": "postgresql://u:{a}@{b}:{c}@127.0.0.1/db",
    "unescaped percent": "postgresql://u:{a}%zz{b}@127.0.0.1/db",
    "escaped, but not in UTF-8": "postgresql://u:{a}%ff{b}@127.0.0.1/db",
    "escaped NUL": "postgresql://u:{a}%00{b}@127.0.0.1/db",
    "no host": "postgresql://u:{a}",
    "bracket": "postgresql://[{a}:{b}",
    "space": "postgresql://u@127.0.0.1/db?password={a} {b}",
    "unescaped ampersand": "postgresql://u@127.0.0.1/db?password={a}&{b}",
    "mode beside a password": "postgresql://u@127.0.0.1/db?password={a}&sslmode={b}",
    "nearly a keyword": "postgresql://u@127.0.0.1/db?pasword={a}&hots={b}",
    "unterminated quote": "host=127.0.0.1 password='{a}",
    "unquoted space": "host=127.0.0.1 password={a} {b}",
    "unquoted space and equals sign": "host=127.0.0.1 password={a} {b}=c",
    "port in the password": "host=127.0.0.1 password={a} port={b}",
    "keyword in the password": "host=127.0.0.1 password={a} hots={b}",
    "the password alone": "{a}",
}


@pytest.mark.parametrize("dsn", MALFORMED_DSNS.values(), ids=MALFORMED_DSNS)
def test_a_malformed_dsn_is_refused_without_a_piece_of_it(
    dsn: str, planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = dsn.format(a=planted("a"), b=planted("b"), c=planted("c"))
    said = refused(f"clusters: [{{name: a, dsn: {json.dumps(bad)}}}]\n", tmp_path, capsys)
    assert "clusters[0].dsn: " in said
    assert _run(["report", bad]) == 2
    for name, value in (("PGWATCHDOG_DSN", bad), ("PGWATCHDOG_DSN_FILE", bad), ("PGWATCHDOG_DSN_FILE", "dsn")):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "dsn").write_text(bad)
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert _run(["check"]) == 2
    assert planted.leaked(said + "".join(capsys.readouterr())) == []


MALFORMED_FILES = {
    "dsn: a mapping": "clusters: [{{name: a, dsn: {{password: {a}}}}}]",
    "dsn: a list": "clusters: [{{name: a, dsn: ['postgresql://u:{a}@h/db']}}]",
    "dsn: a number": "clusters: [{{name: a, dsn: {n}}}]",
    "dsn: an octal number": "clusters: [{{name: a, dsn: 0{n}}}]",
    "dsn: as a key": "clusters: [{{name: a, dsn: {{'postgresql://u:{a}@h/db': }}}}]",
    "dsn: a comma": "clusters: [{{name: a, dsn: host=h password=x,{a}}}]",
    "dsn: a comma and a colon": "clusters: [{{name: a, dsn: 'host=h',password={a}: x}}]",
    "dsn: not indented": "clusters:\n  - name: a\n    dsn: host=h password=x: {a}",
    "dsn: unknown escape": 'clusters:\n  - name: a\n    dsn: "host=h password=\\q{a}"',
    "dsn: unterminated": 'clusters:\n  - name: a\n    dsn: "host=h password={a}',
    "dsn: percent": "clusters:\n  - name: a\n    dsn: %{a}",
    "dsn: at": "clusters:\n  - name: a\n    dsn: @{a}",
    "dsn: a tag": "clusters:\n  - name: a\n    dsn: !{a}!{b} x",
    "dsn: an alias": "clusters:\n  - name: a\n    dsn: *{a}",
    "dsn: twice": "clusters:\n  - name: a\n    dsn: host={a}\n    dsn: host={b}",
    "dsn: a control character": "clusters:\n  - name: a\n    dsn: host=h password=\x07{a}",
    "dsn: under a mistyped key": "clusters: [{{name: a, dns: 'host=h password={a}'}}]",
    "dsn: as the cluster": "clusters: ['postgresql://u:{a}@h/db']",
    "dsn: as the clusters": "clusters: 'postgresql://u:{a}@h/db'",
    "dsn: as the name": "clusters: [{{name: 'postgresql://user:{a}@{b}.example.org:5432/database', dsn: host=h}}]",
    "password: unknown key": "clusters: [{{name: a, dsn: host=h, password: {a}}}]",
    "password: unknown key, an octal number": "clusters: [{{name: a, dsn: host=h, password: 0{n}}}]",
    "password: unknown key at the top": REST.replace("{", "{{").replace("}", "}}") + "db_password: 0{n}",
    "password: as a mode": "clusters: [{{name: a, dsn: host=h, mode: 'password={a}'}}]",
    "password_file: a number": "clusters: [{{name: a, dsn: host=h, password_file: {n}}}]",
    "password_file: a list": "clusters: [{{name: a, dsn: host=h, password_file: [{a}]}}]",
    "password_command: a number": "clusters: [{{name: a, dsn: host=h, password_command: {n}}}]",
    "password_command: a list": "clusters: [{{name: a, dsn: host=h, password_command: [echo, {a}]}}]",
    "password_command: unterminated": 'clusters: [{{name: a, dsn: host=h, password_command: "echo \'{a}"}}]',
    "password_command: and a file": "clusters: [{{name: a, dsn: h, password_command: echo {a}, password_file: {b}}}]",
    "ledger: as the section": "ledger: 'postgresql://u:{a}@h/db'",
    "ledger: under a mistyped key": "ledger: {{uri: 'postgresql://u:{a}@h/db'}}",
    "ledger: a number": "ledger: {{url: {n}}}",
    "ledger: an octal number": "ledger: {{url: 0{n}}}",
    "ledger: a list": "ledger: {{url: ['postgresql://u:{a}@h/db']}}",
    "ledger: no URL": "ledger: {{url: '{a}'}}",
    "ledger: unescaped at": "ledger: {{url: 'postgresql://u:{a}@{b}@h/db'}}",
    "ledger: unescaped at and slash": "ledger: {{url: 'postgresql://u:{a}@{b}/{c}@h/db'}}",
    "ledger: unescaped at and colon": "ledger: {{url: 'postgresql://u:{a}@{b}:{c}@h/db'}}",
    "ledger: another driver": "ledger: {{url: 'mysql://u:{a}@h/db?password={b}'}}",
}


@pytest.mark.parametrize("text", MALFORMED_FILES.values(), ids=MALFORMED_FILES)
def test_a_malformed_file_is_refused_without_a_secret_of_it(
    text: str, planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = text.format(a=planted("a"), b=planted("b"), c=planted("c"), n=planted.number("n"))
    rest = "" if "clusters:" in bad else REST
    assert planted.leaked(refused(f"{rest}{bad}\n", tmp_path, capsys)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PGWATCHDOG_PASSWORD", "{a}"),
        ("PGWATCHDOG_LEDGER_URL", "0{n}"),
        ("PGWATCHDOG_LEDGER_URL", "{a}"),
        ("PGWATCHDOG_LEDGER_URL", "postgresql://u:{a}@{b}@h/db"),
        ("PGWATCHDOG_DSN", "postgresql://u:{a}@h/db"),
    ],
)
def test_a_variable_that_is_refused_beside_a_file_is_not_quoted(
    name: str,
    value: str,
    planted: Planted,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(name, value.format(a=planted("a"), b=planted("b"), n=planted.number("n")))
    said = refused(REST, tmp_path, capsys)
    assert name in said
    assert planted.leaked(said) == []


def test_what_is_planted_is_found(planted: Planted) -> None:
    secret = planted("somewhere")
    assert planted.leaked(f"port {secret[3:14]!r} is no port") == ["somewhere"]


def refused(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `check` says about a file that it refuses."""
    file = folder / "bad.yaml"
    file.write_text(text)
    assert _run(["check", "-c", str(file)]) == 2, "".join(capsys.readouterr())
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said
    return said


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file with a secret in every place that takes one, and the environment that goes with it."""

    text: str
    env: Mapping[str, str]
    clusters: int


def everywhere(folder: Path, server: TestServer, planted: Planted, *, ledger: str) -> Configuration:
    """Clusters that refuse, that are away and whose names do not exist, each with its password from elsewhere."""
    where = f"127.0.0.1:{server.embedded.port}"
    refusing = f"host=127.0.0.1 port={server.embedded.port} user=web_app dbname=postgres"
    (folder / "password").write_text(planted("password_file"))
    service = folder / "services.conf"
    service.write_text(
        f"[refusing]\nhost=127.0.0.1\nport={server.embedded.port}\nuser=web_app\npassword={planted('service')}\n"
        f"[mistyped]\nhost=127.0.0.1\nport=1\npassworld={planted('service, mistyped')}\n"
        f"[port]\nhost=127.0.0.1\nport={planted('service, port')}\n"
    )
    broken = folder / "broken.conf"
    broken.write_text(f"password={planted('broken service file')}\n")
    failing = folder / "failing.sh"
    failing.write_text(
        f"echo {planted('stdout of a command')}\n"
        f"echo 'no access with {planted('stderr of a command')}, {planted('stdout of a command')}' >&2\nexit 3\n"
    )
    printing = f"sh -c 'echo {planted('stdout of a good command')}; echo {planted('stderr of a good command')} >&2'"
    clusters = {
        "key-value": {"dsn": f"{refusing} password={planted('key=value')}"},
        "url": {"dsn": f"postgresql://web_app:{planted('URL')}@{where}/postgres"},
        "query": {"dsn": f"postgresql://{where}/postgres?user=web_app&password={planted('query')}"},
        "service": {"dsn": "service=refusing dbname=postgres"},
        "service-mistyped": {"dsn": "service=mistyped"},
        "service-port": {"dsn": "service=port"},
        "environment": {"dsn": refusing},
        "file": {"dsn": refusing, "password_file": "password"},
        "command": {"dsn": refusing, "password_command": printing},
        "failing": {
            "dsn": f"{refusing} password={planted('beside a command')}",
            "password_command": f"sh {failing}",
        },
        "no-command": {"dsn": refusing, "password_command": planted("in place of a command")},
        "away": {"dsn": f"postgresql://web_app:{planted('away')}@127.0.0.1:1/postgres"},
        "nameless": {"dsn": f"postgresql://web_app:{planted('nameless')}@no-such-host.invalid/postgres"},
        "read": {"dsn": server.dsn()},
    }
    planted.by_place["read"] = server.embedded.password
    listed = [{"name": name, **each} for name, each in clusters.items()]
    web = {"lifecycle": True}
    poll = {"interval": "1s", "timeout": "1s"}
    text = json.dumps({"web": web, "poll": poll, "clusters": listed, "ledger": {"url": ledger}})
    env = {"PGSERVICEFILE": str(service), "PGPASSWORD": planted("PGPASSWORD")}
    return Configuration(text, env, len(clusters))


def test_no_command_shows_a_secret(planted: Planted, server: TestServer, tmp_path: Path) -> None:
    where = f"127.0.0.1:{server.embedded.port}/postgres"
    ledger = f"postgresql://web_app:{planted('ledger')}@{where}?options=-c%20a.b%3D{planted('ledger query')}"
    whole = everywhere(tmp_path, server, planted, ledger=ledger)
    file = tmp_path / "every.yaml"
    file.write_text(whole.text)
    config = ("-c", str(file))
    dsns = [each["dsn"] for each in json.loads(whole.text)["clusters"]]
    runs = [
        ("check", *config),
        ("report", *config),
        ("report", *config, "--format", "json"),
        ("doctor", *config),
        ("history", *config),
        ("cancel", "read", "1", *config, "--start", "2026-01-01T00:00:00+00:00"),
        ("report", *dsns),
        *(("explain", name, "1", *config) for name in ("url", "failing", "away", "service-mistyped")),
    ]
    said = ""
    for arguments in runs:
        done = command(*arguments, env=whole.env)
        assert "Traceback" not in done.stderr, arguments
        said += done.stdout + done.stderr
    query = command("history", *config, env={"PGWATCHDOG_LEDGER_URL": f"{ledger}&pasword={planted('mistyped')}"})
    broken = command("report", "service=any", env={"PGSERVICEFILE": str(tmp_path / "broken.conf")})
    said += query.stderr + broken.stdout + broken.stderr
    assert planted.leaked(said) == []
    assert re.search(r"ledger postgresql://127\.0\.0\.1:\d+/postgres: ", said), "the ledger was asked for"
    assert "exit code 3: no access with ***, ***" in said, "the command's last words are shown"


def test_the_daemon_shows_no_secret(planted: Planted, server: TestServer, tmp_path: Path, guardian: Guardian) -> None:
    ledger = tmp_path / "ledger.db"
    whole = everywhere(tmp_path, server, planted, ledger=f"sqlite:///{ledger}")
    with daemon_process(tmp_path, guardian=guardian, config=whole.text, env=whole.env) as daemon:
        until(lambda: _told(daemon) == whole.clusters, what="every cluster in the log")
        shown = [get(f"{daemon.address}{page}").text for page in ("", "metrics", "api/v1/findings")]
        malformed = f"postgresql://u:{planted('reloaded')}/{planted('reloaded, rest')}@127.0.0.1/db"
        file = tmp_path / "pgwatchdog.yaml"
        file.write_text(json.dumps({"clusters": [{"name": "a", "dsn": malformed}]}))
        answer = get(f"{daemon.address}-/reload", data=b"")
        assert "clusters[0].dsn" in answer.text
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: len(daemon.events("reload_failed")) == 2)
        shown += [answer.text, *(get(f"{daemon.address}{page}").text for page in ("", "metrics"))]
        file.write_text(whole.text)
        assert get(f"{daemon.address}-/reload", data=b"").status == 200
        assert daemon.stop() == 0
    shown += [daemon.log.read_text(), *(each.read_text(errors="replace") for each in tmp_path.glob("ledger.db*"))]
    assert planted.leaked("".join(shown)) == []


def _told(daemon: DaemonProcess) -> int:
    return len({each["server"] for name in ("cluster_read", "cluster_unread") for each in daemon.events(name)})
