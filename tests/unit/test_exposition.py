"""The exposition's text: a golden one, and that every metric is in the table."""

import ast
import gzip
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client import generate_latest
from support.builders import backend, book, judge_settings, rule
from support.metrics import METRIC_NAMES, METRICS
from test_series import look

import watchdog.web
from watchdog.core.acting.rules import EVERY_ORPHAN_RULE
from watchdog.core.judging.judge import Progress
from watchdog.core.observed.reasons import Reason
from watchdog.core.present.look import Look, Unread
from watchdog.web.exposition import Exposition, _Collected, _family
from watchdog.web.families import acting, activity, process, reading
from watchdog.web.labels import Bounds
from watchdog.web.metric import Labels, Metric, Type
from watchdog.web.own import OwnState
from watchdog.web.table import CLUSTER_METRICS

FAMILIES = (reading, activity, acting, process)
WEB = Path(watchdog.web.__file__).parent
JUDGE_SETTINGS = judge_settings(book(rule(copies=1, retry_gap=10)))


def exposition() -> Exposition:
    return Exposition(
        book=JUDGE_SETTINGS.book,
        rules=(EVERY_ORPHAN_RULE,),
        bounds=Bounds(),
        process_values=OwnState(clusters=2, loaded_at=1e9).values,
    )


async def test_golden_the_whole_exposition(golden: Callable[[str, str], None]) -> None:
    one = exposition()
    work = (
        backend(pid=1, query=100, query_id=7),
        backend(pid=2, role="etl_app", name="scan:threads:w1", query=1000, xid=True),
        backend(pid=3, role="etl_app", name="scan:threads:w1", query=500),
        backend(pid=4, state="idle in transaction", query=2, xact=3, wait=("Client", "ClientRead")),
        backend(pid=5, role='odd"\\\nname', query=1),
    )
    one.publish(look(*work, judged_by=JUDGE_SETTINGS))
    one.publish(Unread("second", Reason.TIMEOUT, "slow"))
    text = (await one.text()).decode()
    ours = re.sub(r"(?m)^(# (HELP|TYPE) )?process_.*\n", "", text)
    ours = re.sub(r"(?m)^(pgwatchdog_(last_poll_success_timestamp|event_loop_lag)_seconds\S*) .*$", r"\1 TIME", ours)
    ours = re.sub(r'python_version="[^"]*",version="[^"]*"', 'python_version="P",version="V"', ours)
    golden("exposition.txt", ours)


async def test_every_exposed_family_of_ours_is_in_the_table_with_help_and_type() -> None:
    one = exposition()
    one.publish(look(backend(query=100), judged_by=JUDGE_SETTINGS))
    text = (await one.text()).decode()
    typed = dict(re.findall(r"# TYPE pgwatchdog_(\S+) (\S+)", text))
    assert set(typed) == METRIC_NAMES
    for line in text.splitlines():
        if line.startswith("pgwatchdog_"):
            name = re.sub(r"_(bucket|sum|count)$", "", line.partition("{")[0].split()[0].removeprefix("pgwatchdog_"))
            assert name in METRIC_NAMES


def declared(module: ModuleType) -> dict[str, Metric]:
    """The metrics that a module declares, by the names of their constants in the code that uses them."""
    short = module.__name__.rpartition(".")[2]
    return {f"{short}.{name}": value for name, value in vars(module).items() if isinstance(value, Metric)}


def sources(*, without: str) -> list[Path]:
    """The modules of `watchdog.web` whose path there does not match."""
    found = [file for file in WEB.rglob("*.py") if not file.relative_to(WEB).match(without)]
    assert len(found) > 10
    return found


def test_every_declared_metric_is_once_in_the_table_under_a_name_of_its_own() -> None:
    constants = [metric for module in FAMILIES for metric in declared(module).values()]
    assert {file.stem for file in WEB.glob("families/[a-z]*.py")} == {each.__name__.split(".")[-1] for each in FAMILIES}
    assert len(METRICS) == len(set(METRICS)) == len(METRIC_NAMES)
    assert set(METRICS) == set(constants)


def test_every_declared_metric_is_used_beside_the_table() -> None:
    text = "\n".join(file.read_text() for file in sources(without="table.py"))
    for module in FAMILIES:
        for name in declared(module):
            assert re.search(rf"\b{re.escape(name)}\b", text), f"nothing sets {name}"


def test_only_a_metrics_declaration_writes_its_name() -> None:
    names = METRIC_NAMES | {metric.full_name for metric in METRICS}
    for file in sources(without="families/*.py"):
        strings = {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
        assert not strings & names, file.name


def test_the_metrics_of_a_cluster_and_only_those_have_the_server_as_their_first_label() -> None:
    for metric in METRICS:
        assert ("server" in metric.labels) == (metric.labels[:1] == ("server",)) == (metric in CLUSTER_METRICS)


def test_counters_and_only_counters_end_in_total() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)


async def test_one_joined_text_serves_every_scrape_within_a_second() -> None:
    one = exposition()
    one.publish(look(backend(query=1), judged_by=JUDGE_SETTINGS))
    before, compressed = await one.text(), await one.gzipped()
    one.publish(look(backend(query=1), judged_by=JUDGE_SETTINGS))
    assert await one.text() == before
    assert await one.gzipped() is compressed


async def test_what_is_compressed_is_the_text() -> None:
    one = exposition()
    one.publish(look(backend(query=1), judged_by=JUDGE_SETTINGS))
    text = await one.text()
    assert text.count(b"\n") > 200
    assert gzip.decompress(await one.gzipped()) == text


async def test_however_looks_come_and_go_the_text_is_what_rendering_everything_anew_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("watchdog.web.exposition.FRESH_FOR", 0)
    one, rng = exposition(), random.Random(5)
    nothing = look(judged_by=JUDGE_SETTINGS)
    ended = replace(nothing.judgement, finished=[Progress(budget="role:web_app", used=1.5)])
    states: list[Look | Unread] = [
        nothing,
        replace(nothing, judgement=ended, census_failures=3),
        look(backend(pid=1, query=1), judged_by=JUDGE_SETTINGS),
        look(backend(pid=1, query=100), judged_by=JUDGE_SETTINGS),
        look(backend(pid=2, role="etl_app", name="scan:threads:w1", query=1000, xid=True), judged_by=JUDGE_SETTINGS),
        look(backend(pid=3, state="idle in transaction", xact=30), judged_by=JUDGE_SETTINGS),
        look(backend(pid=4, role="a\n# HELP b\n# TYPE c", query=1), judged_by=JUDGE_SETTINGS),
        Unread("main", Reason.TIMEOUT, "slow"),
    ]
    budgets = (JUDGE_SETTINGS.book, book(roles={"web_app": 5}))
    servers, texts = ["main", 'a "second"\\'], set()
    for step in range(200):
        state = nothing if step > 120 else rng.choice(states)  # at last the series of an hour come to their end
        one.publish(replace(state, server=rng.choice(servers)))
        if step % 20 == 19:
            one.apply_config(rng.choice(budgets), rules=(EVERY_ORPHAN_RULE,), bounds=Bounds(), servers=servers)
        monkeypatch.setattr("time.monotonic", lambda now=step * 60.0: now)
        shown = await one.text()
        texts.add(shown)
        assert _samples_of(shown) == _all_anew(one)
    assert len(texts) > 150, "the states differ"


def _samples_of(text: bytes) -> list[str]:
    lines = text.decode().splitlines()
    return sorted(line for line in lines if re.match(r"pgwatchdog_\w+\{.*server=", line))


def _all_anew(one: Exposition) -> list[str]:
    found = []
    for server, cluster_metrics in one._clusters.items():
        families = [_family(metric, server, cluster_metrics.series) for metric in CLUSTER_METRICS]
        text = generate_latest(_Collected(families)).decode()
        found += [line for line in text.splitlines() if not line.startswith("#")]
    return sorted(found)


async def test_a_value_of_the_process_with_a_wrong_number_of_labels_is_an_error() -> None:
    values: dict[Metric, dict[Labels, float]] = {process.BUILD_INFO: {("1.0",): 1.0}}
    one = Exposition(
        book=JUDGE_SETTINGS.book, rules=(EVERY_ORPHAN_RULE,), bounds=Bounds(), process_values=lambda: values
    )
    with pytest.raises(ValueError, match=r"^build_info has the labels \('version', 'python_version'\); "):
        await one.text()


async def test_a_cluster_that_a_reload_takes_away_leaves_no_series() -> None:
    one = exposition()
    one.publish(look(backend(query=1), judged_by=JUDGE_SETTINGS))
    one.apply_config(JUDGE_SETTINGS.book, rules=(EVERY_ORPHAN_RULE,), bounds=Bounds(), servers=["another"])
    assert 'server="main"' not in (await one.text()).decode()


async def test_what_could_not_be_rendered_once_is_rendered_with_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    one = exposition()
    with monkeypatch.context() as patch:
        patch.setattr("watchdog.web.exposition.generate_latest", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.publish(look(backend(query=1), judged_by=JUDGE_SETTINGS))
    one.publish(look(backend(query=1), judged_by=JUDGE_SETTINGS))
    assert _samples_of(await one.text()) == _all_anew(one)
