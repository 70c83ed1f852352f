"""`pgwatchdog chain` as people and CI use it: output, exit codes, bad input. No database."""

import json
import re
from pathlib import Path

import pytest
from support.processes import command

DOCS = Path(__file__).parents[2] / "docs" / "chain.md"
CLUSTERS = "clusters: [{name: a, dsn: host=db1}]\n"
SECTION = DOCS.read_text().partition("```yaml\n")[2].partition("```")[0]
FINE = """
chain:
  work: 20s
  statement_timeout: 9s
  layers:
    - {name: app, attempts: 3, timeout: 10s}
"""
DEEP = f"chain: {{work: 20s, layers: [{', '.join(f'{{name: layer{number}}}' for number in range(21))}]}}"
IMPATIENT = """
chain:
  work: 5min
  period: 10min
  layers:
    - {name: app, attempts: 2, timeout: 1min}
"""


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """The chain that the documentation describes, as a file."""
    return written(tmp_path, SECTION)


def written(folder: Path, section: str) -> Path:
    file = folder / "pgwatchdog.yaml"
    file.write_text(CLUSTERS + section)
    return file


def test_the_documented_chain_is_drawn_and_its_inversions_end_with_1(described: Path) -> None:
    done = command("chain", "-c", str(described))
    assert done.returncode == 1
    assert done.stderr == ""
    assert "14 copies, at most 6 at once" in done.stdout
    assert "inverted: wrapper waits 14m, worker can go on for 15m" in done.stdout
    assert "set chain.layers[2].lifetime: 835s (13m 55s), now 15min" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_a_chain_without_an_inversion_ends_with_0(tmp_path: Path) -> None:
    done = command("chain", "-c", str(written(tmp_path, FINE)))
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing is inverted" in done.stdout
    assert "the run fails, cheaply" in done.stdout
    assert "the run succeeds" in command("chain", "-c", str(tmp_path / "pgwatchdog.yaml"), "--work", "8s").stdout


def test_a_loop_that_would_sustain_itself_ends_with_1(tmp_path: Path) -> None:
    done = command("chain", "-c", str(written(tmp_path, FINE.replace("work: 20s", "work: 20s\n  period: 50s"))))
    assert done.returncode == 1
    assert "nothing is inverted" in done.stdout
    assert "(R + 1)·rho = 3 x 0.40 = 1.20: above 1" in done.stdout


def test_as_json_every_figure_is_in_seconds(described: Path) -> None:
    done = command("chain", "-c", str(described), "--format", "json")
    record = json.loads(done.stdout)
    assert done.returncode == 1
    assert (record["copies_started"], record["most_at_once"], record["result"]) == (14, 6, "fails")
    assert (record["for_nobody_seconds"], record["database_seconds"]) == (350 * 60, 455 * 60)
    assert record["attempts_multiplied"] == 35
    assert record["copies"][1] == {"start_seconds": 840.0, "end_seconds": 2790.0, "wanted_until_seconds": 900.0}
    assert record["inversions"][-1] == {
        "parent": "worker",
        "child": "the query",
        "wait_seconds": 835.0,
        "total_seconds": None,
        "change": "chain.statement_timeout",
        "from": None,
        "to": 830.0,
    }
    assert record["inversions"][1]["to"] == 1
    assert record["loop"]["sustains_itself"] is True
    assert "simulation" not in record


def test_without_a_file_the_textbook_spike_is_played_and_ends_with_0() -> None:
    done = command("chain", "--simulate")
    assert (done.returncode, done.stderr) == (0, "")
    assert "orphans, retries  not recovered after 8h; 6 answered in time, 130 retries" in done.stdout
    assert "inverted" not in done.stdout
    courses = json.loads(command("chain", "--simulate", "--format", "json").stdout)["simulation"]
    assert {name for name, course in courses.items() if course["recovered"]} == {"no_retries", "retry_budget"}
    assert courses["none"]["in_flight"][-1] > 140


def test_a_chain_with_a_period_has_a_spike_of_its_own(described: Path) -> None:
    done = command("chain", "-c", str(described), "--simulate")
    assert "a run every 2h that needs 32m 30s alone" in done.stdout
    assert "no remedy changes that" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_a_spike_of_which_no_copy_runs_at_the_ends_of_the_periods_is_played(tmp_path: Path) -> None:
    file = str(written(tmp_path, IMPATIENT))
    done = command("chain", "-c", file, "--simulate")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"cancel on give-up  [▁-█]{48} +5 +0$", done.stdout, re.MULTILINE)
    assert "cancel on give-up  not recovered after 8h; none answered in time, 52 retries" in done.stdout
    courses = json.loads(command("chain", "-c", file, "--simulate", "--format", "json").stdout)["simulation"]
    assert courses["cancel"] == {
        "recovered": False,
        "most_at_once": 5,
        "in_flight": [0] * 49,
        "answered_in_time": 0,
        "given_up": 104,
        "retries": 52,
        "stopped_at_seconds": None,
    }


@pytest.mark.parametrize(
    ("section", "options", "complaint"),
    [
        ("", (), "there is no section `chain`"),
        (FINE, ("--simulate",), "--simulate needs chain.period"),
        (FINE, ("--work", "20"), "--work: 20 has no unit"),
        (DEEP, (), "chain.layers: has 21 layers; up to 20 are played"),
        ("chain: {work: 20s, layers: []}", (), "pgwatchdog.yaml:2: chain.layers: is empty"),
    ],
)
def test_what_cannot_be_computed_ends_with_2_and_says_why(
    tmp_path: Path, section: str, options: tuple[str, ...], complaint: str
) -> None:
    done = command("chain", "-c", str(written(tmp_path, section)), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr


def test_options_that_need_a_file_say_so() -> None:
    for options in ((), ("--work", "20s")):
        done = command("chain", *options)
        assert done.returncode == 2
        assert "-c FILE" in done.stderr
    done = command("chain", "--simulate", "--work", "20s")
    assert (done.returncode, done.stdout) == (2, "")
    assert "-c FILE" in done.stderr
