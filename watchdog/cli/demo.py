"""`pgwatchdog demo`: runs the demo's stories on an embedded Postgres, in dry run and then armed, and compares both."""

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from watchdog.cli import assembly
from watchdog.cli.configuration import load_settings
from watchdog.core.acting.recall import Recorded
from watchdog.demo.accounts import Works, record_words, round_words, rows
from watchdog.demo.guardian import Guardian
from watchdog.demo.scenery import allow_to_cancel, prepare
from watchdog.demo.server import EmbeddedServer, create_server
from watchdog.demo.stage import Stage
from watchdog.demo.stories import BUDGETS, GRACE, RULES, THREADS_BUDGET, WEB_BUDGET, Story
from watchdog.ledger.history import Wanted
from watchdog.ledger.rows import recorded_of
from watchdog.ledger.store import Store
from watchdog.logs import Format, Level, configure_logs
from watchdog.runtime.ports import Sink

WIDTH = 100
COLUMNS = (
    ("", 1), ("STORY", 20), ("FOR\nNOBODY\nDRY RUN", 7), ("FOR\nNOBODY\nARMED", 6), ("ORPHAN", 8), ("EVIDENCE", 11),
    ("DONE", 11), ("THE SERVER'S LOG", 20),
)  # fmt: skip


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave server and daemon up afterwards, until Ctrl-C.")] = False,
) -> None:
    """Boot a Postgres of its own, play the stories of orphaned queries on it, and watch them.

    Takes about a minute. Everything is stopped and removed at the end, on Ctrl-C, and when the demo is killed.
    """
    configure_logs(form=Format.LOGFMT, level=Level.ERROR)
    for name in [each for each in os.environ if each.startswith("PG") and not each.startswith("PGWATCHDOG")]:
        del os.environ[name]  # libpq's variables may point to another server than the demo's
    guardian = Guardian.start()
    try:
        folder = Path(tempfile.mkdtemp(prefix="pgwatchdog-"))
        guardian.mind_directory(folder)
        folder.chmod(0o755)
        asyncio.run(_demo(folder, guardian=guardian, keep=keep))
    finally:
        guardian.clean_up()


async def _demo(folder: Path, *, guardian: Guardian, keep: bool) -> None:
    _stop_on_sigterm()
    console = Console(highlight=False, width=WIDTH)
    console.print("Booting a Postgres of its own …")
    server = await asyncio.to_thread(_boot, folder, guardian)
    cast = await asyncio.to_thread(prepare, server)
    theatre = _Theatre(files=_Files.write(folder, server), console=console, guardian=guardian, server=server, cast=cast)
    console.print("\nRound one, in dry run: everything is decided, nothing is signalled.")
    dry_run = await theatre.play(theatre.files.dry_run)
    console.print("\nRound two, armed: the same stories, and what policy decides is done.")
    await asyncio.to_thread(allow_to_cancel, server)
    armed = await theatre.play(theatre.files.armed)
    acts = await asyncio.to_thread(theatre.recorded)
    _conclude(console, dry_run, armed, acts)
    if keep:
        await theatre.stay()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Theatre:
    """What both rounds share. Each round has its own daemon, which loads a configuration file as usual."""

    files: "_Files"
    console: Console
    guardian: Guardian
    server: EmbeddedServer
    cast: Sequence[Story]

    async def play(self, configuration: Path) -> Works:
        """Run every story once while a daemon with this configuration watches."""
        stage = Stage(
            server=self.server,
            guardian=self.guardian,
            announce=lambda at, text: self.console.print(f"  {at:5.1f} s  {text}"),
        )
        async with self._watched(configuration, stage):
            return await stage.play(self.cast)

    async def stay(self) -> None:
        """Keep the server and a daemon in dry run up until the process is interrupted."""
        self.console.print("\nServer and daemon stay up until Ctrl-C, the daemon in dry run again: it only reports.")
        async with self._watched(self.files.dry_run):
            where = f"{self.server.password}@127.0.0.1:{self.server.port}/postgres"
            for line in (
                f"psql 'postgresql://web_app:{where}' -c 'SELECT pg_sleep(60)'",
                f"pgwatchdog report 'postgresql://pgwatchdog:{where}' --budget {WEB_BUDGET}",
                f"pgwatchdog history -c {self.files.armed}",
            ):
                self.console.print(f"  {line}", soft_wrap=True)
            await asyncio.Event().wait()

    def recorded(self) -> list[Recorded]:
        """The acts in the ledger, oldest first."""
        store = Store(self.files.ledger)
        try:
            return [recorded_of(row) for row in reversed(store.history(Wanted()))]
        finally:
            store.close()

    @asynccontextmanager
    async def _watched(self, configuration: Path, *sinks: Sink) -> AsyncIterator[None]:
        """Run a daemon with this configuration for as long as the context."""
        daemon = assembly.daemon(load_settings(configuration, env={}), reload=None, sinks=sinks)
        stop, up = asyncio.Event(), asyncio.Event()
        watching = asyncio.create_task(daemon.run(stop=stop, listening=lambda address: self._listening(address, up)))
        try:
            await asyncio.wait({watching, asyncio.ensure_future(up.wait())}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()  # the daemon failed to start; this raises its error
            yield
        finally:
            stop.set()
            await watching

    def _listening(self, address: str, up: asyncio.Event) -> None:
        self.console.print(f"The daemon is watching: {address} and {address}metrics")
        up.set()


def _boot(folder: Path, guardian: Guardian) -> EmbeddedServer:
    server = create_server(folder / "server", guardian=guardian)
    server.start()
    return server


@dataclass(frozen=True, slots=True)
class _Files:
    """The configuration files of both rounds and the ledger's URL. They are written once, before any daemon runs."""

    dry_run: Path
    armed: Path
    ledger: str

    @classmethod
    def write(cls, folder: Path, server: EmbeddedServer) -> "_Files":
        """Write the files for this server. In the armed one both modes are enforce, and it has a ledger."""
        _private(folder / "password", server.password)
        ledger = f"sqlite:///{folder / 'ledger.db'}"
        return cls(
            _private(folder / "dry-run.yaml", _configuration(server, mode="dry-run")),
            _private(folder / "armed.yaml", f'{_configuration(server, mode="enforce")}ledger: {{url: "{ledger}"}}\n'),
            ledger,
        )


def _configuration(server: EmbeddedServer, *, mode: str) -> str:
    target = f'dsn: "{server.dsn(role="pgwatchdog")}", password_file: password'
    cluster = f"clusters:\n  - {{name: demo, {target}, mode: {mode}}}\n"
    policy = f"policy:\n  mode: {mode}\n{RULES}"
    return f'web: {{listen: "127.0.0.1:0"}}\n{cluster}{BUDGETS}{policy}'


def _private(path: Path, text: str) -> Path:
    """Write a file with mode 0600, because a file that arms is refused if others may write it."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _conclude(console: Console, dry_run: Works, armed: Works, acts: Sequence[Recorded]) -> None:
    console.print()
    console.print(_table(dry_run, armed))
    console.print(
        "For nobody: how long the work ran on after its caller had left. Orphan: when it was called one,\n"
        "counted from its start, and the evidence, both in dry run. Done: when armed; a dry run does nothing.\n"
        f"Budgets: web {WEB_BUDGET}, threads {THREADS_BUDGET}; grace {GRACE}.\n"
    )
    console.print(round_words("Dry run", dry_run))
    console.print(round_words("Armed", armed))
    console.print(record_words(acts, armed))
    console.print("`pgwatchdog history` shows such a record: who, on what grounds, and what came of it.")


def _table(dry_run: Works, armed: Works) -> Table:
    table = Table(
        title="What happened",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name, width in COLUMNS:
        table.add_column(name, width=width)
    for row in rows(dry_run, armed):
        table.add_row(*row.cells())
    return table


def _stop_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C, so that every `finally` runs."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
