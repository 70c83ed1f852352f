"""The demo, as a newcomer meets it: its table, and that nothing is left behind however it ends."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from support.demos import demo, read_until
from support.processes import get_json
from support.servers import until

pytestmark = pytest.mark.acceptance


def descendants(folder: Path) -> list[int]:
    """Every process that has something to do with `folder`: the server, and callers of it."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                home = (each / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line or f"TMPDIR={folder}" in home:
                found.append(int(each.name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_demo_tells_every_story_and_leaves_nothing_behind(public_folder: Path) -> None:
    with demo(public_folder) as process:
        text = read_until(process, "when its work was done")
        assert process.wait(timeout=30) == 0
    rows = dict(re.findall(r"(?m)^ ?([A-J]) (.*)$", text.partition("What happened")[2]))
    assert sorted(rows) == list("ABCDEFGHIJ")
    for name in "ADE":
        assert re.search(r"at \d+\.\d s +over budget", rows[name]), rows[name]
    for name in "BCFGHIJ":
        assert "over budget" not in rows[name]
    assert "nearing" in rows["F"]
    assert "connection to" in rows["B"]
    assert "canceling" in rows["C"]
    assert all("nothing" in rows[name] for name in "ADE")
    assert "superseded" in text
    assert float(re.findall(r"\d+\.\d", rows["B"])[0]) < 5 < float(re.findall(r"\d+\.\d", rows["A"])[0])
    assert re.search(r"\d orphans, \d+ s of work for nobody", text)
    until(lambda: not descendants(public_folder), timeout=30, what="the end of every process")
    assert list(public_folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_demo_that_is_interrupted_or_killed_leaves_nothing_behind(
    public_folder: Path, number: signal.Signals
) -> None:
    with demo(public_folder) as process:
        read_until(process, "client killed, server as it comes")
        assert len(descendants(public_folder)) > 5
        process.send_signal(number)
        code = process.wait(timeout=40)
    assert code == (-9 if number is signal.SIGKILL else 130)
    until(lambda: not descendants(public_folder), timeout=50, what="the end of every process")
    until(lambda: not list(public_folder.iterdir()), timeout=30, what="the removal of its folder")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_keep_leaves_server_and_daemon_up_until_interrupted(public_folder: Path) -> None:
    with demo(public_folder, "--keep") as process:
        text = read_until(process, "psql 'postgresql://")
        address = re.findall(r"http://127\.0\.0\.1:\d+/", text)[0]
        [cluster] = get_json(f"{address}api/v1/findings")["clusters"]
        assert cluster["read"]
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert time.monotonic() - begun < 30
    until(lambda: not descendants(public_folder), timeout=30, what="the end of every process")
