"""The HTTP server: metrics, findings, page and probes. Every response is made from the last completed looks."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from watchdog.core.present.look import Look, Unread
from watchdog.core.present.records import cluster_record
from watchdog.errors import UsageError
from watchdog.web.exposition import CONTENT_TYPE, Exposition
from watchdog.web.page import Page

States = Callable[[], list[tuple[str, Look | Unread | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the server needs for its responses. `reload` is the only action; None means that it is off."""

    exposition: Exposition
    states: States
    judges: Callable[[], bool]
    ready: Callable[[], bool]
    reload: Callable[[], list[str]] | None


def application(shown: Shown) -> web.Application:
    """The routes. Neither the health probe nor the readiness probe queries a database."""
    page = Page()

    async def metrics(request: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("Accept-Encoding", "").lower():
            return web.Response(body=await shown.exposition.text(), headers=headers)
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=await shown.exposition.gzipped(), headers=headers)

    async def findings(_: web.Request) -> web.Response:
        judges = shown.judges()
        records = [cluster_record(state, server=server, judges=judges) for server, state in shown.states()]
        return web.json_response({"clusters": records})

    async def front(_: web.Request) -> web.Response:
        return web.Response(text=page.render(shown.states(), judges=shown.judges()), content_type="text/html")

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="pgwatchdog is healthy.\n")

    async def ready(_: web.Request) -> web.Response:
        if shown.ready():
            return web.Response(text="pgwatchdog is ready.\n")
        return web.Response(text="Not every cluster has been tried yet.\n", status=503)

    async def reload(_: web.Request) -> web.Response:
        if shown.reload is None:
            return web.Response(text="Reloading over HTTP is off: set web.lifecycle, or send SIGHUP.\n", status=403)
        problems = shown.reload()
        return web.Response(text="".join(f"{line}\n" for line in problems), status=500 if problems else 200)

    app = web.Application()
    app.add_routes(
        [
            web.get("/", front),
            web.get("/metrics", metrics),
            web.get("/api/v1/findings", findings),
            *(web.get(path, healthy) for path in ("/-/healthy", "/livez")),
            *(web.get(path, ready) for path in ("/-/ready", "/readyz")),
            web.post("/-/reload", reload),
        ]
    )
    return app


@dataclass(slots=True)
class Listener:
    """A server that is listening. `address` is its URL."""

    runner: web.AppRunner
    address: str

    async def close(self) -> None:
        """Stop listening and close open connections."""
        await self.runner.cleanup()


async def listen(shown: Shown, *, host: str | None, port: int) -> Listener:
    """Start to listen. Port 0 means any free port.

    Raises:
        UsageError: the address cannot be used.

    """
    runner = web.AppRunner(application(shown), access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
    except OSError as error:
        await runner.cleanup()
        where = f"{host or ''}:{port}"
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise UsageError(f"cannot listen on {where}: {why}; choose another with --web.listen-address") from error
    bound = runner.addresses[0]
    return Listener(runner, f"http://{_url_host(host)}:{bound[1]}/")


def _url_host(host: str | None) -> str:
    if host is None:
        return "localhost"
    return f"[{host}]" if ":" in host else host
