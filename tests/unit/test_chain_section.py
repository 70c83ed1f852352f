"""The section `chain` of the configuration: what becomes of it in the core."""

import typing
from datetime import timedelta
from pathlib import Path

from support.chains import END, QUERY, minutes

from watchdog.core.chain.chain import ZERO, Chain, Layer
from watchdog.core.chain.layers import KNOWN
from watchdog.ledger.url import check_url
from watchdog.postgres.dsn import check_dsn
from watchdog.settings.chain import Kind
from watchdog.settings.load import load_file

SMALLEST = "clusters: [{name: a, dsn: host=db1}]\n"
LAYERS = """
chain:
  work: 32.5min
  statement_timeout: 14min
  period: 1h
  layers:
    - {name: scheduler, kind: step-functions, retries: 6}
    - {name: queue, kind: lambda-async}
    - {name: function, kind: lambda-async, asynchronous: false, attempts: 1, pause: 0s, backoff: 1}
    - {name: wrapper, kind: boto3-legacy, timeout: 14min, lifetime: 15min, hands_down: true}
    - {name: worker}
"""


def chain(folder: Path, text: str) -> Chain | None:
    file = folder / "pgwatchdog.yaml"
    file.write_text(SMALLEST + text)
    return load_file(file, env={}, check_dsn=check_dsn, check_url=check_url).chain


def test_the_section_becomes_a_chain_and_kinds_become_numbers(tmp_path: Path) -> None:
    layers = (
        Layer(name="scheduler", attempts=7, pause=timedelta(seconds=1), backoff=2),
        Layer(name="queue", attempts=3, pause=minutes(1), backoff=2, asynchronous=True),
        Layer(name="function", attempts=1, pause=ZERO, backoff=1),
        Layer(name="wrapper", attempts=5, timeout=minutes(14), lifetime=END, hands_down=True),
        Layer(name="worker"),
    )
    assert chain(tmp_path, LAYERS) == Chain(layers, QUERY, minutes(14), timedelta(hours=1))


def test_without_the_section_there_is_no_chain(tmp_path: Path) -> None:
    assert chain(tmp_path, "") is None
    assert chain(tmp_path, "chain: null\n") is None


def test_every_known_layer_may_be_written() -> None:
    assert set(typing.get_args(Kind)) == set(KNOWN)
