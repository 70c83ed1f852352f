"""What the kernel's sockets say of a client: connected, gone, half-closed, or not known."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import NoReturn

import pytest
from support.replicas import apart_or_skipped
from support.servers import until

from watchdog.core.observed.activity import ClientEndpoint
from watchdog.core.observed.sockets import ClientState, OwnConnection, Session, SocketVisibility
from watchdog.demo.guardian import Guardian
from watchdog.sockets import diag
from watchdog.sockets.kernel import DUMP_AGAIN, KernelSockets

CONNECTED, GONE, HALF_CLOSED = ClientState.CONNECTED, ClientState.GONE, ClientState.HALF_CLOSED
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

Pair = tuple[socket.socket, socket.socket]
"""The client's socket and the server's."""


def endpoint(sock: socket.socket, *, peer: bool = False) -> ClientEndpoint:
    name = sock.getpeername() if peer else sock.getsockname()
    return ClientEndpoint(name[0].removeprefix("::ffff:"), name[1])


class Port:
    """Listeners on one port, and the connections to them."""

    def __init__(self, stack: ExitStack, *hosts: str) -> None:
        self.stack = stack
        self.listeners: dict[str, socket.socket] = {}
        self.port = 0
        for host in hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = stack.enter_context(socket.create_server((host, self.port), family=family))
            self.listeners[host], self.port = listener, listener.getsockname()[1]

    def connect(self, host: str, *, source: tuple[str, int] | None = None) -> Pair:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        client = self.stack.enter_context(socket.socket(family))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if source is not None:
            client.bind(source)
        client.connect((host, self.port))
        return client, self.stack.enter_context(self.listeners[host].accept()[0])


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def own_of(pair: Pair) -> OwnConnection:
    return OwnConnection(endpoint(pair[1]), endpoint(pair[1], peer=True))


def sessions(pairs: Sequence[Pair]) -> dict[Session, ClientEndpoint]:
    return {(pid, BEGAN): endpoint(server, peer=True) for pid, (_, server) in enumerate(pairs)}


def states(kernel: KernelSockets, asked: dict[Session, ClientEndpoint], own: OwnConnection) -> list[ClientState]:
    reading = kernel.read(asked, own=own)
    assert reading.visibility is SocketVisibility.SEEN
    return [reading.clients[each] for each in asked]


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def test_a_server_whose_side_of_our_connection_is_not_here_is_elsewhere() -> None:
    away = OwnConnection(ClientEndpoint("10.9.8.7", 5432), ClientEndpoint("10.9.8.6", 2))
    reading = KernelSockets().read({(1, BEGAN): ClientEndpoint("10.9.8.5", 1)}, own=away)
    assert (reading.visibility, reading.clients) == (SocketVisibility.ELSEWHERE, {})


def test_a_server_behind_a_tunnel_is_elsewhere_though_a_connection_here_has_the_same_four_ends(
    stack: ExitStack,
) -> None:
    """The far end of a tunnel is often 127.0.0.1 and the usual port, as is a server here."""
    here = Port(stack, "127.0.0.1")
    client, server = here.connect("127.0.0.1")
    through = OwnConnection(endpoint(server), endpoint(client), direct=False)
    assert KernelSockets().read({}, own=through).visibility is SocketVisibility.ELSEWHERE
    assert KernelSockets().read({}, own=own_of((client, server))).visibility is SocketVisibility.SEEN


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_client_is_gone_when_it_closes_or_resets(stack: ExitStack, host: str) -> None:
    port = Port(stack, host)
    pairs = [port.connect(host) for _ in range(5)]
    own, asked, kernel = own_of(pairs[0]), sessions(pairs[1:]), KernelSockets()
    assert states(kernel, asked, own) == [CONNECTED] * 4
    pairs[1][0].close()
    reset(pairs[2][0])  # its entry is gone altogether
    wanted = [GONE, GONE, CONNECTED, CONNECTED]
    until(lambda: states(kernel, asked, own) == wanted)
    assert states(kernel, asked, own) == wanted
    assert states(KernelSockets(), asked, own) == wanted, "one listener: who was never seen is gone too"


def test_a_half_closed_client_that_is_here_is_spared_until_it_leaves(stack: ExitStack) -> None:
    port = Port(stack, "127.0.0.1")
    own, pair, kernel = own_of(port.connect("127.0.0.1")), port.connect("127.0.0.1"), KernelSockets()
    asked = sessions([pair])
    assert states(kernel, asked, own) == [CONNECTED]
    pair[0].shutdown(socket.SHUT_WR)
    until(lambda: states(kernel, asked, own) == [HALF_CLOSED])
    assert states(KernelSockets(), asked, own) == [HALF_CLOSED], "never seen before"
    pair[0].close()
    until(lambda: states(kernel, asked, own) == [GONE])


def test_with_other_listeners_on_the_port_a_client_that_was_never_seen_is_unknown(stack: ExitStack) -> None:
    port = Port(stack, "127.0.0.1", "127.0.0.2")
    own = own_of(port.connect("127.0.0.1"))
    seen, never = port.connect("127.0.0.2"), port.connect("127.0.0.1")
    asked, kernel = sessions([seen, never]), KernelSockets()
    assert states(kernel, {(0, BEGAN): asked[0, BEGAN]}, own) == [CONNECTED]
    reset(seen[0])
    reset(never[0])
    until(lambda: states(kernel, asked, own) == [GONE, ClientState.UNKNOWN])


def test_a_port_that_another_client_uses_again_for_another_server_proves_nothing(stack: ExitStack) -> None:
    port = Port(stack, "127.0.0.1", "127.0.0.2")
    own, kernel = own_of(port.connect("127.0.0.1")), KernelSockets()
    pair = port.connect("127.0.0.2", source=("127.0.0.1", 0))
    asked = sessions([pair])
    assert states(kernel, asked, own) == [CONNECTED]
    source = asked[0, BEGAN]
    other = port.connect("127.0.0.1", source=(source.address, source.port))
    closing = _four(pair)
    reset(pair[0])
    until(lambda: not diag.look_up([closing]))
    assert states(kernel, asked, own) == [CONNECTED], "a connection that fits is there"
    reset(other[0])
    until(lambda: states(kernel, asked, own) == [GONE])


def test_who_was_unknown_is_found_once_its_connection_shows(stack: ExitStack) -> None:
    """A row may be read before the kernel's table, and a dump may leave out an entry."""
    now = [0.0]
    port = Port(stack, "127.0.0.1", "127.0.0.2")
    own, kernel = own_of(port.connect("127.0.0.1")), KernelSockets(clock=lambda: now[0])
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        source = chosen.getsockname()
    asked = {(1, BEGAN): ClientEndpoint(*source)}
    assert states(kernel, asked, own) == [ClientState.UNKNOWN]
    port.connect("127.0.0.2", source=source)
    assert states(kernel, asked, own) == [ClientState.UNKNOWN], "the table is not walked at each reading"
    now[0] += DUMP_AGAIN
    assert states(kernel, asked, own) == [CONNECTED]


def test_a_client_of_a_socket_that_is_bound_to_a_device_is_connected(stack: ExitStack) -> None:
    """As every one of a link-local address is: the kernel finds such a socket only by its device."""
    if os.geteuid() != 0:
        pytest.skip("only root may bind a socket to a device")
    port = Port(stack, "127.0.0.1", "127.0.0.2")
    own, kernel = own_of(port.connect("127.0.0.1")), KernelSockets()
    port.listeners["127.0.0.2"].setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    pair = port.connect("127.0.0.2")
    asked = sessions([pair])
    for _ in range(2):
        assert states(kernel, asked, own) == [CONNECTED]
    pair[0].close()
    until(lambda: states(kernel, asked, own) == [GONE])


def test_sessions_that_are_asked_for_no_more_are_forgotten(stack: ExitStack) -> None:
    now = [0.0]
    port = Port(stack, "127.0.0.1")
    own, kernel = own_of(port.connect("127.0.0.1")), KernelSockets(clock=lambda: now[0])
    pairs = [port.connect("127.0.0.1") for _ in range(3)]
    asked = sessions(pairs)
    states(kernel, asked, own)
    assert len(kernel._known) == 3
    now[0] += 61
    assert states(kernel, {(0, BEGAN): asked[0, BEGAN]}, own) == [CONNECTED]
    assert len(kernel._known) == 1


def test_a_v4_client_of_a_dual_stack_server_is_found_by_its_v4_address(stack: ExitStack) -> None:
    listener = stack.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
    pairs = []
    for _ in range(2):
        client = stack.enter_context(socket.create_connection(("127.0.0.1", listener.getsockname()[1])))
        pairs.append((client, stack.enter_context(listener.accept()[0])))
    own, asked, kernel = own_of(pairs[0]), sessions(pairs[1:]), KernelSockets()
    assert states(kernel, asked, own) == [CONNECTED]
    pairs[1][0].shutdown(socket.SHUT_WR)
    until(lambda: states(kernel, asked, own) == [HALF_CLOSED])
    reset(pairs[1][0])
    until(lambda: states(kernel, asked, own) == [GONE])
    assert states(KernelSockets(), asked, own) == [GONE], "the one listener serves both versions"


def test_of_a_client_in_another_namespace_only_the_servers_side_is_seen(
    stack: ExitStack, guardian: Guardian, missing: Callable[[str], NoReturn]
) -> None:
    subnet = f"10.214.{os.getpid() % 250}"
    inside, _ = apart_or_skipped(stack, guardian=guardian, missing=missing, subnet=subnet)
    listener = stack.enter_context(socket.create_server((f"{subnet}.1", 0)))
    host, port = listener.getsockname()
    script = (
        f"import socket, sys\none = socket.create_connection(({host!r}, {port}))\nsys.stdin.readline()\n"
        "one.shutdown(socket.SHUT_WR)\nsys.stdin.readline()\n"
    )
    process = stack.enter_context(
        subprocess.Popen([*inside, sys.executable, "-c", script], stdin=subprocess.PIPE, text=True)
    )
    stack.callback(process.kill)
    server = stack.enter_context(listener.accept()[0])
    mine = stack.enter_context(socket.create_connection((host, port)))
    own = own_of((mine, stack.enter_context(listener.accept()[0])))
    asked, kernel = {(1, BEGAN): endpoint(server, peer=True)}, KernelSockets()
    assert states(kernel, asked, own) == [CONNECTED]
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    until(lambda: states(kernel, asked, own) == [ClientState.CLOSE_WAIT])


def test_an_address_is_ours_or_not() -> None:
    assert [diag.is_local(each) for each in ("127.0.0.1", "127.9.9.9", "::1")] == [True] * 3
    assert [diag.is_local(each) for each in ("192.0.2.7", "2001:db8::7", "fe80::1")] == [False] * 3


def _four(pair: Pair) -> diag.Connection:
    found = diag.connection_of(endpoint(pair[1]), endpoint(pair[1], peer=True))
    assert found is not None
    return found
