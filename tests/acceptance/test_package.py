"""The wheel and the source distribution: they build, install into a clean environment and start, on each Python."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.utils import safe_walk
from hatchling.builders.wheel import WheelBuilder
from support.processes import environment

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("package")]
ROOT = Path(__file__).parents[2]
RUN = ROOT / "requirements" / "run.txt"


def interpreter(version: str) -> str | None:
    """A working interpreter of this version: the running one, one on the path, or one of a version manager's."""
    found = [shutil.which(f"python{version}")]
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        found.insert(0, sys.executable)
    manager = shutil.which("pyenv")
    if manager is not None:
        root = subprocess.run([manager, "root"], capture_output=True, text=True, check=False).stdout.strip()
        found += [str(each) for each in Path(root).glob(f"versions/{version}*/bin/python{version}")]
    for each in found:
        if (
            each is not None
            and subprocess.run([each, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0
        ):
            return each
    return None


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment())
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def with_pip(wheel: Path, clean: Path, *, python: str) -> None:
    """Make an environment with the pinned dependencies and the wheel, as the README says."""
    run(python, "-m", "venv", clean, cwd=clean.parent)
    pip = (clean / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "-r", RUN, cwd=clean.parent)
    run(*pip, "--no-deps", wheel, cwd=clean.parent)


def with_uv(wheel: Path, clean: Path, *, python: str) -> None:
    """The same by uv, which is much quicker. It fetches every file anew, so that each is compared with its hash."""
    uv = (sys.executable, "-m", "uv", "--quiet", "--no-cache")
    run(*uv, "venv", "--python", python, clean, cwd=clean.parent)
    install = (*uv, "pip", "install", "--python", clean / "bin" / "python")
    run(*install, "--require-hashes", "-r", RUN, cwd=clean.parent)
    run(*install, "--no-deps", wheel, cwd=clean.parent)


def test_both_carry_what_belongs_to_them(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    [source] = built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"watchdog/py.typed", "watchdog/postgres/sql/activity.sql", "watchdog/web/templates/page.html"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/conftest.py", "config/smallest.yaml", "Makefile", "LICENSE", "requirements/dev.txt"} <= held


def test_a_build_walks_only_what_it_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a build, other tests unpack servers and a base system into .cache, where files come and go."""
    walked = []

    def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
        for each in safe_walk(path):
            walked.append(Path(each[0]).relative_to(ROOT).parts[:1])
            yield each

    monkeypatch.setattr("hatchling.builders.plugin.interface.safe_walk", walk)
    (ROOT / ".cache").mkdir(exist_ok=True)
    for builder in (SdistBuilder, WheelBuilder):
        assert list(builder(str(ROOT)).recurse_included_files())
    assert {name for parts in walked for name in parts} <= {"watchdog", "tests", "config", "docs", "requirements"}


@pytest.mark.parametrize(("version", "install"), [("3.11", with_pip), ("3.12", with_uv), ("3.13", with_uv)])
def test_it_installs_and_starts_in_a_clean_environment(
    built: Path, tmp_path: Path, version: str, install: Callable[..., None], missing: Callable[[str], NoReturn]
) -> None:
    python = interpreter(version)
    if python is None:
        if version == "3.11":
            missing("Python 3.11 is not installed: apt-get install python3.11-venv")
        pytest.skip(f"Python {version} is not installed here; the public workflow has it")
    [wheel] = built.glob("*.whl")
    install(wheel, tmp_path / "clean", python=python)
    clean = tmp_path / "clean" / "bin"
    assert run(clean / "pgwatchdog", "--version", cwd=tmp_path) == "pgwatchdog 0.1.0\n"
    assert "good" in run(clean / "pgwatchdog", "check", "-c", ROOT / "config" / "smallest.yaml", cwd=tmp_path)
    demo = subprocess.run(
        [clean / "pgwatchdog", "demo"], capture_output=True, text=True, check=False, env=environment()
    )
    assert demo.returncode == 2
    assert "pip install 'pgwatchdog[demo]'" in demo.stderr
