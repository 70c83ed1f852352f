"""The HTTP server: metrics, findings, page and probes. Every response is made from the last completed looks."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aiohttp import web

from watchdog.core.present.look import Look, Unread
from watchdog.core.present.records import cluster_record
from watchdog.errors import UsageError
from watchdog.web.exposition import CONTENT_TYPE, Exposition
from watchdog.web.page import Page

State = tuple[str, Look | Unread | None]
States = Callable[[], list[State]]

MIN_AGE = 1.0
"""Seconds for which a text is shown again although a cluster has been looked at since."""


@dataclass(slots=True)
class Rendered:
    """A text that is made of the newest states, and made again only when one of them is new.

    Many readers at once would otherwise keep the event loop from its looks and acts.
    """

    states: States
    render: Callable[[list[State]], str]
    _of: list[State] | None = field(default=None, init=False)
    _text: str = field(default="", init=False)
    _made_at: float = field(default=0.0, init=False)

    def text(self) -> str:
        """The text."""
        now, states = time.monotonic(), self.states()
        if self._of is None or (now - self._made_at >= MIN_AGE and not _same(states, self._of)):
            self._of, self._text, self._made_at = states, self.render(states), now
        return self._text


def _same(states: list[State], others: list[State]) -> bool:
    return len(states) == len(others) and all(
        name == known and state is before for (name, state), (known, before) in zip(states, others, strict=True)
    )


def _is_own(request: web.Request) -> bool:
    """True unless a browser says that a page of another site sends the request. Other clients send no Origin."""
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


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
    as_page, as_json = _page_of(shown), _findings_of(shown)

    async def metrics(request: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("Accept-Encoding", "").lower():
            return web.Response(body=await shown.exposition.text(), headers=headers)
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=await shown.exposition.gzipped(), headers=headers)

    async def findings(_: web.Request) -> web.Response:
        return web.Response(text=as_json.text(), content_type="application/json")

    async def front(_: web.Request) -> web.Response:
        return web.Response(text=as_page.text(), content_type="text/html")

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="pgwatchdog is healthy.\n")

    async def ready(_: web.Request) -> web.Response:
        if shown.ready():
            return web.Response(text="pgwatchdog is ready.\n")
        return web.Response(text="Not every cluster has been tried yet.\n", status=503)

    async def reload(request: web.Request) -> web.Response:
        return _reloaded(request, shown)

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


def _reloaded(request: web.Request, shown: Shown) -> web.Response:
    if not _is_own(request):
        return web.Response(text="A page of another site may not reload pgwatchdog.\n", status=403)
    if shown.reload is None:
        return web.Response(text="Reloading over HTTP is off: set web.lifecycle, or send SIGHUP.\n", status=403)
    problems = shown.reload()
    return web.Response(text="".join(f"{line}\n" for line in problems), status=500 if problems else 200)


def _page_of(shown: Shown) -> Rendered:
    page = Page()
    return Rendered(shown.states, lambda states: page.render(states, judges=shown.judges()))


def _findings_of(shown: Shown) -> Rendered:
    def render(states: list[State]) -> str:
        judges = shown.judges()
        return json.dumps({"clusters": [cluster_record(each, server=server, judges=judges) for server, each in states]})

    return Rendered(shown.states, render)


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
