"""The statements of poll, census and blocking on every supported version; `make test-matrix` runs the whole suite."""

from collections.abc import Callable, Iterator
from typing import NoReturn

import psycopg
import pytest
from support.matrix import VERSIONS, binaries_of
from support.servers import TestServer, make_server, start
from support.watching import found, look_until, orphaned, watcher

from watchdog.demo.guardian import Guardian


@pytest.fixture(params=sorted(VERSIONS))
def versioned(
    request: pytest.FixtureRequest, guardian: Guardian, missing: Callable[[str], NoReturn]
) -> Iterator[TestServer]:
    major: int = request.param
    if not binaries_of(major).exists():
        missing(f"PostgreSQL {major} is not there: make matrix-binaries")
    server = make_server(guardian=guardian, major=major)
    yield server
    server.embedded.stop()


async def test_poll_census_and_blocking_work_on_every_version(versioned: TestServer) -> None:
    holder = psycopg.connect(versioned.dsn("web_app"), autocommit=True)
    waiter = psycopg.connect(versioned.dsn("etl_app"), autocommit=True, application_name="scan:a:w1")
    try:
        holder.execute("SELECT pg_advisory_lock(1)")
        pid = start(holder, "SELECT pg_sleep(60)", versioned)
        waiting = start(waiter, "SELECT pg_advisory_lock(1)", versioned)
        with watcher(versioned, roles={"web_app": 0.3, "etl_app": 60.0}, grace=0.0) as cycle:
            look = await look_until(cycle, lambda look: orphaned(look, pid))
    finally:
        holder.close()
        waiter.close()
    assert look.census.version.startswith(f"{versioned.major}.")
    assert found(look, waiting) == []
    assert [each.blocks for each in look.judgement.findings] == [1]
    assert look.judgement.unjudged["insufficient_privilege"] == 0
