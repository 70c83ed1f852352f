"""TLS: the system's roots where libpq cannot find them, and whether an attempt to connect failed in its handshake.

A failed handshake has no SQLSTATE. It is told by how far the connection had come before its last step: by the status
that libpq gives, and by the one byte with which a server answers a request for TLS.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from pathlib import Path

from psycopg import pq
from psycopg.pq.abc import PGconn

from watchdog.core.observed.reasons import Reason
from watchdog.errors import ReadError
from watchdog.system_roots import is_weak, system_roots

Parameters = dict[str, str]


class Handshake(Enum):
    """Where TLS stood before the last step of an attempt."""

    NONE = auto()
    """No TLS, or the server has not answered the request for it, or what followed had nothing to do with it."""

    UNDER_WAY = auto()
    """The server has answered the request for TLS, with yes or no. What fails now is TLS."""

    UNCONFIRMED = auto()
    """We have finished, and the next that comes is the server's first answer: an ErrorResponse, a request for
    authentication, or the alert with which a server of TLS 1.3 refuses our certificate."""


def handshake_of(pgconn: PGconn) -> Handshake:
    """Where TLS stands before the next step."""
    match pgconn.status:
        case pq.ConnStatus.SSL_STARTUP if pgconn.ssl_in_use or _arrived(pgconn) in {b"S", b"N"}:
            return Handshake.UNDER_WAY
        case pq.ConnStatus.AWAITING_RESPONSE if pgconn.ssl_in_use and _arrived(pgconn):
            return Handshake.UNCONFIRMED
    return Handshake.NONE


def with_system_roots(parameters: Parameters, *, env: Mapping[str, str], bundles: Sequence[Path]) -> Parameters:
    """The parameters, the system's bundle in place of `sslrootcert=system`.

    Raises:
        ReadError: there is no bundle (`tls`), or an sslmode that does not go with it (`configuration`).

    """
    if is_weak(parameters, env=env):
        raise ReadError(Reason.CONFIGURATION, "sslrootcert=system goes with sslmode=verify-full alone")
    try:
        return {**parameters, **system_roots(parameters, env=env, bundles=bundles)}
    except FileNotFoundError as error:
        raise ReadError(Reason.TLS, str(error)) from error


def _arrived(pgconn: PGconn) -> bytes:
    """The next byte on the connection, left there; empty where there is none, or the other side has closed."""
    try:
        with socket.socket(fileno=os.dup(pgconn.socket)) as end:
            return end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""
