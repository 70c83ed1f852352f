"""The base of the image test: a Debian with Python and nothing else, made by debootstrap in `.cache` of the checkout.

`python -m support.base_system` makes it. `make image-base` runs that.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
PACKAGES = ("python3", "python3-venv", "ca-certificates")


def base_system() -> Path:
    """The folder of the base system; it need not be there. It is of the same release as this machine."""
    return CACHE / f"base-{platform.freedesktop_os_release().get('VERSION_CODENAME', 'unknown')}"


def make(base: Path, *, bootstrap: str) -> None:
    """Make the base system unless it exists already. Wants root.

    debootstrap mounts /proc in the folder, and leaves it there if it is killed. So it runs in namespaces of its own,
    which end with it, and it ends with this process: no mount of it is ever seen here, and the folder can be removed
    without reaching into /proc.

    Raises:
        RuntimeError: debootstrap has failed, with what it has printed.

    """
    if base.exists():
        return
    fresh = base.with_suffix(".new")
    unmount(fresh)
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.parent.mkdir(exist_ok=True)
    apart = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")
    arguments = ("--variant=minbase", f"--include={','.join(PACKAGES)}", base.name.removeprefix("base-"))
    done = subprocess.run([*apart, bootstrap, *arguments, fresh], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"debootstrap has failed with {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    fresh.rename(base)  # atomic, so that an interrupted debootstrap leaves no base that looks complete


def unmount(folder: Path) -> None:
    """Unmount everything below a folder: a debootstrap that was not started by `make` may have been killed there."""
    for point in reversed(mounts_below(folder)):
        subprocess.run(["umount", "--lazy", point], check=True, capture_output=True)


def mounts_below(folder: Path) -> list[Path]:
    """The mount points below a folder, in the order in which they were mounted."""
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    points = [Path(line.split(" ")[1].replace("\\040", " ")) for line in lines]
    return [point for point in points if folder.resolve() in point.parents]


if __name__ == "__main__":
    found = shutil.which("debootstrap", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        sys.exit("debootstrap is not installed: apt-get install debootstrap")
    make(base_system(), bootstrap=found)
