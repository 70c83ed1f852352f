"""A file that arms: who may change it, what the environment may change about it, and what another one would change."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from support.processes import environment
from test_settings import ARMED, load, problems

from watchdog.settings.arming_file import untrusted
from watchdog.settings.differences import differences, sooner

NOBODY = 65534


@pytest.fixture
def armed_file(tmp_path: Path) -> Path:
    file = tmp_path / "etc" / "pgwatchdog" / "pgwatchdog.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(ARMED)
    file.chmod(0o600)
    assert untrusted(file) is None
    return file


@pytest.mark.parametrize(("mode", "who"), [(0o777, "everybody"), (0o775, "its group")])
def test_a_folder_that_others_may_write_could_get_another_file(armed_file: Path, mode: int, who: str) -> None:
    for folder in (armed_file.parent, armed_file.parent.parent):
        folder.chmod(mode)
        said = untrusted(armed_file)
        assert said is not None
        assert said.startswith(f"this file arms, and its folder {folder} may be written by {who}, who could replace it")
        folder.chmod(0o755)


def test_in_a_sticky_folder_only_the_owner_may_replace_a_file(armed_file: Path) -> None:
    armed_file.parent.chmod(0o1777)
    assert untrusted(armed_file) is None


def test_every_folder_on_the_way_of_a_link_counts(armed_file: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    armed_file.rename(real / "a.yaml")
    armed_file.symlink_to("../../real/a.yaml")
    assert untrusted(armed_file) is None
    for folder in (real, armed_file.parent):
        folder.chmod(0o777)
        assert str(folder) in (untrusted(armed_file) or "")
        folder.chmod(0o755)
    through = tmp_path / "through"
    through.symlink_to(real)
    assert untrusted(through / "a.yaml") is None
    real.chmod(0o777)
    assert str(real) in (untrusted(through / "a.yaml") or "")


def test_a_link_that_leads_over_another_link_is_followed_step_by_step(armed_file: Path, tmp_path: Path) -> None:
    world = tmp_path / "world"
    world.mkdir()
    (world / "link").symlink_to(armed_file.parent)
    (tmp_path / "conf").symlink_to("world/link")
    through = tmp_path / "conf" / armed_file.name
    assert untrusted(through) is None
    world.chmod(0o777)
    assert f"its folder {world} may be written by everybody" in (untrusted(through) or "")
    up = armed_file.parent / "up.yaml"
    up.symlink_to(f"../{armed_file.parent.name}/../../world/link/{armed_file.name}")
    assert str(world) in (untrusted(up) or "")


def test_links_without_an_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert untrusted(tmp_path / "a") == "there are too many symbolic links on the way to a"


def test_a_stranger_owns_neither_the_file_nor_a_folder_above_it(armed_file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(armed_file, NOBODY, NOBODY)
    assert f"this file arms and belongs to uid {NOBODY}: chown it to root" in (untrusted(armed_file) or "")
    os.chown(armed_file, 0, 0)
    os.chown(armed_file.parent, NOBODY, NOBODY)
    assert f"belongs to uid {NOBODY}, who could replace it" in (untrusted(armed_file) or "")
    os.chown(armed_file.parent, 0, 0)
    armed_file.parent.chmod(0o1777)
    os.chown(armed_file, NOBODY, NOBODY)
    assert untrusted(armed_file) is not None, "the sticky bit keeps its owner's file, which is the stranger's"


def test_a_mounted_config_map_may_be_trusted_because_it_is_read_only_here(
    tmp_path: Path, missing: Callable[[str], NoReturn]
) -> None:
    """Its folders belong to root with the mode 0777, and the file is reached through `..data`."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    if shutil.which("unshare") is None:
        missing("unshare is not installed: apt-get install util-linux")
    mounted = tmp_path / "config"
    script = (
        f"set -e; mkdir {mounted}; mount -t tmpfs -o mode=0777 none {mounted}; cd {mounted}; "
        "mkdir -m 0777 ..2026_12_01;"
        "cat > ..2026_12_01/pgwatchdog.yaml; ln -s ..2026_12_01 ..data; ln -s ..data/pgwatchdog.yaml pgwatchdog.yaml;"
        f'cd /; check() {{ "{sys.executable}" -m watchdog.cli check -c {mounted}/pgwatchdog.yaml || echo "exit $?"; }};'
        f"check; mount -o remount,ro {mounted}; check"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env=environment(), input=ARMED, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if "mount" in done.stderr and "denied" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    refused, _, trusted = (done.stdout + done.stderr).partition("exit 2")
    said = " ".join(done.stderr.split())
    assert "may be written by everybody, who could replace it" in said, (refused, trusted)
    assert "ARMED: a" in done.stdout


# The environment


@pytest.mark.parametrize(
    ("variable", "value", "accepted"),
    [
        ("PGWATCHDOG_BUDGETS_DEFAULT", "5s", "2h"),
        ("PGWATCHDOG_BUDGETS_GRACE", "0s", "1min"),
        ("PGWATCHDOG_BUDGETS_CLOCK_SKEW", "0s", "5s"),
        ("PGWATCHDOG_POLL_INTERVAL", "1s", "10s"),
        ("PGWATCHDOG_BUDGETS_HALF_CLOSE", "gone", "spare"),
    ],
)
def test_the_environment_makes_no_armed_file_act_sooner_or_on_more(
    tmp_path: Path, variable: str, value: str, accepted: str
) -> None:
    text = f"budgets: {{default: 1h, half_close: spare}}\n{ARMED}"
    [problem] = problems(tmp_path, text, **{variable: value})
    assert problem.startswith(f"environment {variable}: would make a file that arms act")
    assert load(tmp_path, text, **{variable: accepted}).armed == ("a",)
    dry = text.replace("  mode: enforce\n", "  mode: dry-run\n")
    assert load(tmp_path, dry, **{variable: value}).armed == (), "in dry run it is a convenience"


def test_a_budget_for_everybody_comes_from_no_variable_where_the_armed_file_has_none(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, ARMED, PGWATCHDOG_BUDGETS_DEFAULT="1h")
    assert "act sooner or on more: write it in the file" in problem


# What another file would change


def test_what_another_configuration_changes_is_said_in_the_words_of_the_file(tmp_path: Path) -> None:
    before = load(tmp_path, f"budgets: {{default: 15min, roles: {{web_app: 30s, etl_app: none}}}}\n{ARMED}")
    assert differences(before, before) == []
    text = ARMED.replace('roles: ["etl_*"]', "roles: [web_app]").replace("name: a,", "name: c,")
    after = load(tmp_path, f"budgets: {{default: 5s, grace: 1s, roles: {{web_app: 1min, batch: 2h}}}}\n{text}")
    lines = differences(before, after)
    for line in (
        "cluster a: no longer watched",
        "cluster c: new, and ARMED",
        "budget of default: 905s → 6s (shorter)",
        "budget of role:web_app: 35s → 61s (longer)",
        "budget of role:batch: none → 7201s (new)",
    ):
        assert line in lines, lines
    assert any(line.startswith("rule ") and line.endswith(": changed (only)") for line in lines)
    assert sooner(before, after) == [
        "budget of default: 905s → 6s (shorter)",
        "budget of role:batch: none → 7201s (new)",
    ]


def test_a_smaller_change_says_whose_actor_is_new(tmp_path: Path) -> None:
    before = load(tmp_path, ARMED)
    pooled = load(tmp_path, ARMED.replace(", mode: enforce}", ", mode: enforce, pooled: {roles: [x]}}"))
    assert differences(before, pooled) == [
        "cluster a: another set of poolers",
        "a new actor, which watches for two intervals before it acts: a",
    ]
    disarmed = load(tmp_path, ARMED.replace(", mode: enforce}", "}"))
    assert "cluster a: is no longer armed" in differences(before, disarmed)
    assert "cluster a: becomes ARMED" in differences(disarmed, before)
