"""Reads the TCP sockets of this network namespace by inet_diag over netlink (Linux, sock_diag(7)).

A dump walks the kernel's whole table, which takes some milliseconds whatever it finds. A request for one socket by its
four ends takes ten microseconds. /proc/net/tcp shows the same and costs several times as much.
"""

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from watchdog.core.observed.activity import ClientEndpoint

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
ANY_STATE = 0xFFFFFFFF
NO_COOKIE = 0xFFFFFFFF
INET_DIAG_SKV6ONLY = 11
DEADLINE = 0.2
"""Seconds to wait for the kernel's answer. It normally comes within a few milliseconds."""

BUFFER = 1 << 18

_NO_ROUTE = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EINVAL, errno.EAFNOSUPPORT, errno.EACCES}
)
"""The errors for an address that is none of ours and that no route leads to."""

ESTABLISHED, CLOSE_WAIT, LISTEN = 1, 8, 10
"""States of a TCP socket, by the kernel's numbers."""

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_ENDS = struct.Struct("!HH16s16s")
_REST = struct.Struct("=III")
_ERROR = struct.Struct("=i")
_INODE = struct.Struct("=I")
_ATTRIBUTE = struct.Struct("=HH")
_INTERFACE_AT, _INODE_AT, _MESSAGE = 40, 68, 72
"""Where interface and inode stand in the kernel's message of one socket, and the length of that message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One connection as the kernel identifies it. Addresses are in network byte order."""

    family: int
    port: int
    client_port: int
    local: bytes
    remote: bytes
    interface: int = 0
    """The device to which the socket is bound, as those of link-local addresses are; the kernel compares it too."""

    @property
    def client(self) -> ClientEndpoint:
        """The client's endpoint, with its address in the form in which endpoints are compared."""
        if self.family == socket.AF_INET:
            return ClientEndpoint(socket.inet_ntop(socket.AF_INET, self.remote[:4]), self.client_port)
        found = ipaddress.IPv6Address(self.remote)
        return ClientEndpoint(str(found.ipv4_mapped or found), self.client_port)

    @property
    def clients_end(self) -> "Connection":
        """The same connection as the kernel of its client identifies it."""
        return Connection(
            family=self.family,
            port=self.client_port,
            client_port=self.port,
            local=self.remote,
            remote=self.local,
            interface=self.interface,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """One socket: its four ends, its state, and its inode, which is 0 if it belongs to no process."""

    connection: Connection
    state: int
    inode: int
    v6_only: bool = False


def connection_of(server: ClientEndpoint, client: ClientEndpoint) -> Connection | None:
    """The connection with these ends, or None if their addresses are not of one family."""
    local, remote = ipaddress.ip_address(server.address), ipaddress.ip_address(client.address)
    if local.version != remote.version:
        return None
    return Connection(
        family=socket.AF_INET if local.version == 4 else socket.AF_INET6,  # noqa: PLR2004  # of the protocol
        port=server.port,
        client_port=client.port,
        local=local.packed,
        remote=remote.packed,
    )


def connections(port: int) -> Iterator[Socket]:
    """The sockets of all connections to `port` that are established or closed by their clients, on any local address.

    Raises:
        OSError: the kernel does not show them (another system, a sandbox, no inet_diag).

    """
    return _dump(port, states=1 << ESTABLISHED | 1 << CLOSE_WAIT)


def listeners(port: int) -> Iterator[Socket]:
    """All sockets that listen on `port`.

    Raises:
        OSError: as for `connections`.

    """
    return _dump(port, states=1 << LISTEN)


def look_up(wanted: Iterable[Connection]) -> dict[Connection, Socket]:
    """The socket of each of these connections. Those that are absent are left out.

    Raises:
        OSError: as for `connections`.

    """
    found = {}
    with _link() as link:
        for connection in wanted:
            link.send(_request(connection, states=ANY_STATE, dump=False))
            for each in _answers(link, one=True):
                if each.state != LISTEN:  # the kernel answers with the listener where there is no such connection
                    found[connection] = each
    return found


def is_local(address: str) -> bool:
    """True if `address` is one of this network namespace. No packet is sent.

    Raises:
        OSError: it cannot be found out.

    """
    found = ipaddress.ip_address(address)
    if found.is_loopback:
        return True
    family = socket.AF_INET if found.version == 4 else socket.AF_INET6  # noqa: PLR2004  # of the protocol
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            # The kernel chooses the address itself as the source only if it is its own.
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == found
    except OSError as error:
        if error.errno in _NO_ROUTE:
            return False
        raise


def _dump(port: int, *, states: int) -> Iterator[Socket]:
    with _link() as link:
        for family in (socket.AF_INET, socket.AF_INET6):
            # In a dump the kernel takes a source port that is not 0 as a filter.
            wanted = Connection(family=family, port=port, client_port=0, local=b"", remote=b"")
            link.send(_request(wanted, states=states, dump=True))
            yield from _answers(link)


def _link() -> socket.socket:
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError(errno.ENOSYS, "no netlink on this system")
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    link.settimeout(DEADLINE)
    return link


def _request(connection: Connection, *, states: int, dump: bool) -> bytes:
    wanted = _REQUEST.pack(connection.family, socket.IPPROTO_TCP, 0, 0, states)
    wanted += _ENDS.pack(connection.port, connection.client_port, connection.local, connection.remote)
    wanted += _REST.pack(connection.interface, NO_COOKIE, NO_COOKIE)
    flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    return _HEADER.pack(_HEADER.size + len(wanted), SOCK_DIAG_BY_FAMILY, flags, 1, 0) + wanted


def _answers(link: socket.socket, *, one: bool = False) -> Iterator[Socket]:
    while True:
        data = link.recv(BUFFER)
        offset = 0
        while offset < len(data):
            length, kind, _, _, _ = _HEADER.unpack_from(data, offset)
            body = offset + _HEADER.size
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                code = -_ERROR.unpack_from(data, body)[0]
                if code == errno.ENOENT and one:
                    return  # there is no such connection; of a dump it says that the kernel offers none
                raise OSError(code, os.strerror(code))
            yield _socket(data, body, offset + length)
            offset += (length + 3) & ~3
        if one:
            return


def _socket(data: bytes, body: int, end: int) -> Socket:
    port, client_port, local, remote = _ENDS.unpack_from(data, body + 4)
    family = data[body]
    width = 4 if family == socket.AF_INET else 16
    return Socket(
        connection=Connection(
            family=family,
            port=port,
            client_port=client_port,
            local=local[:width],
            remote=remote[:width],
            interface=_INODE.unpack_from(data, body + _INTERFACE_AT)[0],
        ),
        state=data[body + 1],
        inode=_INODE.unpack_from(data, body + _INODE_AT)[0],
        v6_only=_is_v6_only(data, body + _MESSAGE, end),
    )


def _is_v6_only(data: bytes, offset: int, end: int) -> bool:
    while offset + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if kind == INET_DIAG_SKV6ONLY:
            return data[offset + _ATTRIBUTE.size] != 0
        if length < _ATTRIBUTE.size:
            break
        offset += (length + 3) & ~3
    return False
