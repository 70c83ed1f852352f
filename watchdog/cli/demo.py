"""`pgwatchdog demo`: orphans on a real Postgres, watched live, with a table at the end."""

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from watchdog.cli import wiring
from watchdog.demo.guardian import Guardian
from watchdog.demo.server import EmbeddedServer, create_server
from watchdog.demo.stage import Stage, Work, server_log
from watchdog.demo.stories import CONFIGURATION, GRACE, THREADS_BUDGET, WEB_BUDGET
from watchdog.logs import Format, Level, configure_logs

WIDTH = 100


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave server and daemon up afterwards, until Ctrl-C.")] = False,
) -> None:
    """Boot a Postgres of its own, play the stories of orphaned queries on it, and watch them.

    Takes about a minute. Everything is stopped and removed at the end, on Ctrl-C, and when the demo is killed.
    """
    configure_logs(form=Format.LOGFMT, level=Level.ERROR)
    for name in [each for each in os.environ if each.startswith("PG") and not each.startswith("PGWATCHDOG")]:
        del os.environ[name]  # libpq's variables are about somebody's real server, not about the demo's
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
    stage = Stage(server, guardian, lambda at, text: console.print(f"  {at:5.1f} s  {text}"))
    cast = await asyncio.to_thread(stage.prepare)
    daemon = wiring.daemon(wiring.load_settings(_configuration(folder, server), env={}), reload=None, sinks=[stage])
    stop, up = asyncio.Event(), asyncio.Event()
    watching = asyncio.create_task(daemon.run(stop=stop, listening=lambda address: _listening(console, address, up)))
    await asyncio.wait({watching, asyncio.ensure_future(up.wait())}, return_when=asyncio.FIRST_COMPLETED)
    try:
        works = await stage.play(cast)
        console.print(_table(works, server))
        console.print(
            "For nobody: how long the work ran on after its caller had left. Orphan: when it was called one,\n"
            f"counted from its start. Budgets: web {WEB_BUDGET}, threads {THREADS_BUDGET}; grace {GRACE}.\n"
        )
        console.print(_summary(works))
        if keep:
            await _stay(console, server)
    finally:
        stop.set()
        await watching


def _boot(folder: Path, guardian: Guardian) -> EmbeddedServer:
    server = create_server(folder / "server", guardian=guardian)
    server.start()
    return server


def _configuration(folder: Path, server: EmbeddedServer) -> Path:
    """Write the daemon's configuration; it is an ordinary file for the ordinary code path."""
    (folder / "password").touch(mode=0o600)
    (folder / "password").write_text(server.password, encoding="ascii")
    path = folder / "pgwatchdog.yaml"
    cluster = f'clusters:\n  - {{name: demo, dsn: "{server.dsn(role="pgwatchdog")}", password_file: password}}\n'
    path.write_text(f'web: {{listen: "127.0.0.1:0"}}\n{cluster}{CONFIGURATION}', encoding="utf-8")
    return path


def _listening(console: Console, address: str, up: asyncio.Event) -> None:
    console.print(f"The daemon is watching: {address} and {address}metrics")
    up.set()


def _table(works: Sequence[Work], server: EmbeddedServer) -> Table:
    table = Table(title="What happened", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("STORY", width=36)
    table.add_column("FOR NOBODY", width=8, justify="right")
    table.add_column("ORPHAN", width=9)
    table.add_column("EVIDENCE", width=11)
    table.add_column("THE SERVER'S LOG", width=24)
    for name in dict.fromkeys(work.story.name for work in works):
        first, *more = [work for work in works if work.story.name == name]
        table.add_row(f"{name} {first.story.title}", *_row(first, server))
        for number, work in enumerate((work for work in more if work.left is not None), start=2):
            table.add_row(f"    its copy number {number}", *_row(work, server))
    return table


def _row(work: Work, server: EmbeddedServer) -> tuple[str, ...]:
    return (
        "-" if work.for_nobody is None else f"{work.for_nobody:.1f} s",
        _called(work),
        "\n".join(sorted(work.evidence)).replace("_", " ") or "-",
        server_log(server, work) or "nothing",
    )


def _called(work: Work) -> str:
    if work.named_at is not None:
        return f"at {work.named_at - work.began:.1f} s"
    return "nearing" if "nearing" in work.named else "no"


def _summary(works: Sequence[Work]) -> str:
    left = [work.left for work in works if work.left is not None]
    orphans = [work for work in works if work.named_at is not None]
    gone = [work.ended for work in orphans if work.ended is not None]
    if not left or not gone:
        return "No orphan was seen."
    after = max(gone) - max(left)
    wasted = sum(work.for_nobody or 0.0 for work in works)
    return (
        f"{len(orphans)} orphans, {wasted:.0f} s of work for nobody. The last caller left at {max(left):.1f} s;\n"
        f"the last orphan was gone {after:.1f} s after that, when its work was done: this was a dry run."
    )


async def _stay(console: Console, server: EmbeddedServer) -> None:
    console.print("\nServer and daemon stay up until Ctrl-C.")
    where = f"{server.password}@127.0.0.1:{server.port}/postgres"
    console.print(f"  psql 'postgresql://web_app:{where}' -c 'SELECT pg_sleep(60)'", soft_wrap=True)
    console.print(f"  pgwatchdog report 'postgresql://pgwatchdog:{where}' --budget {WEB_BUDGET}", soft_wrap=True)
    await asyncio.Event().wait()


def _stop_on_sigterm() -> None:
    """SIGTERM ends the demo as Ctrl-C does: through every `finally`."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
