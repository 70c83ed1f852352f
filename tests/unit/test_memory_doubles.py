"""The source and the ledger in memory keep the contracts that the real ones keep."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from support.contracts import ClusterStage, LedgerContract, SourceContract
from support.memory_ledger import MemoryLedger
from support.memory_source import MemoryServer, MemorySource

from watchdog.ledger.store import Store
from watchdog.ledger.writer import Writer
from watchdog.runtime.ports import Ledger, Source


@dataclass
class MemoryStage(ClusterStage):
    """A cluster in memory."""

    server: MemoryServer = field(default_factory=MemoryServer)
    pids: Iterator[int] = field(default_factory=lambda: count(1))

    def run(self, *, name: str = "") -> int:
        return self.server.run(name=name)

    def finish(self, pid: int) -> None:
        self.server.finish(pid)

    def leave(self, pid: int) -> None:
        self.server.leave(pid)

    def block(self) -> tuple[int, int]:
        holder, waiter = self.server.run(), self.server.run()
        self.server.wait_for(waiter, holder)
        return waiter, holder

    @contextmanager
    def source(self) -> Iterator[Source]:
        source = MemorySource(self.server, next(self.pids))
        yield source
        source.close()


class TestMemorySource(SourceContract):
    @pytest.fixture
    def stage(self) -> ClusterStage:
        return MemoryStage()


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> Ledger:
        return MemoryLedger()


class TestWriter(LedgerContract):
    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Ledger:
        return Writer(Store(f"sqlite:///{tmp_path}/ledger.db"), 5.0)
