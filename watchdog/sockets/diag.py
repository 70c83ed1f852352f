"""Reads the established TCP connections of one local port by inet_diag over netlink (Linux, sock_diag(7)).

A dump walks the kernel's whole table, which takes some milliseconds whatever it finds. A request for one connection
takes ten microseconds. So a connection that a dump has shown is requested by itself afterwards. /proc/net/tcp shows the
same and costs several times as much.
"""

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from watchdog.core.observed.activity import ClientEndpoint

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
ESTABLISHED = 1
ANY_STATE = 0xFFFFFFFF
NO_COOKIE = 0xFFFFFFFF
DEADLINE = 0.2
"""Seconds to wait for the kernel's answer. It normally comes within a few milliseconds."""

BUFFER = 1 << 18

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_ENDS = struct.Struct("!HH16s16s")
_REST = struct.Struct("=III")
_ERROR = struct.Struct("=i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One connection as the kernel identifies it. Addresses are in network byte order."""

    family: int
    port: int
    client_port: int
    local: bytes
    remote: bytes

    @property
    def client(self) -> ClientEndpoint:
        """The client's endpoint, with its address in the form in which endpoints are compared."""
        if self.family == socket.AF_INET:
            return ClientEndpoint(socket.inet_ntop(socket.AF_INET, self.remote[:4]), self.client_port)
        found = ipaddress.IPv6Address(self.remote)
        return ClientEndpoint(str(found.ipv4_mapped or found), self.client_port)


def established(port: int) -> Iterator[Connection]:
    """All established connections to `port`, on any local address.

    Raises:
        OSError: the kernel does not show them (another system, a sandbox, no inet_diag).

    """
    with _link() as link:
        for family in (socket.AF_INET, socket.AF_INET6):
            # In a dump the kernel takes a source port that is not 0 as a filter.
            link.send(
                _request(
                    Connection(family=family, port=port, client_port=0, local=b"", remote=b""),
                    states=1 << ESTABLISHED,
                    dump=True,
                )
            )
            for _, connection in _answers(link, family):
                yield connection


def is_established(connections: list[Connection]) -> list[bool]:
    """Whether each of these connections is still established.

    Raises:
        OSError: as for `established`.

    """
    with _link() as link:
        found = []
        for connection in connections:
            link.send(_request(connection, states=ANY_STATE, dump=False))
            found.append(any(state == ESTABLISHED for state, _ in _answers(link, connection.family, one=True)))
        return found


def _link() -> socket.socket:
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError(errno.ENOSYS, "no netlink on this system")
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    link.settimeout(DEADLINE)
    return link


def _request(connection: Connection, *, states: int, dump: bool) -> bytes:
    wanted = _REQUEST.pack(connection.family, socket.IPPROTO_TCP, 0, 0, states)
    wanted += _ENDS.pack(connection.port, connection.client_port, connection.local, connection.remote)
    wanted += _REST.pack(0, NO_COOKIE, NO_COOKIE)
    flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    return _HEADER.pack(_HEADER.size + len(wanted), SOCK_DIAG_BY_FAMILY, flags, 1, 0) + wanted


def _answers(link: socket.socket, family: int, *, one: bool = False) -> Iterator[tuple[int, Connection]]:
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
                if code == errno.ENOENT:
                    return  # there is no such connection
                raise OSError(code, os.strerror(code))
            port, client_port, local, remote = _ENDS.unpack_from(data, body + 4)
            yield (
                data[body + 1],
                Connection(family=family, port=port, client_port=client_port, local=local, remote=remote),
            )
            offset += (length + 3) & ~3
        if one:
            return
