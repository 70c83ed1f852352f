"""TLS: passes the system's root certificates to libpq, and recognises a failed handshake.

A failed handshake has no SQLSTATE. It is recognised by the state of the connection before the last step: the status
from libpq, and the one byte with which a server answers the request for TLS.
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
    """The state of TLS before the last step of an attempt to connect."""

    NONE = auto()
    """No TLS, no answer to the request for TLS yet, or past the handshake."""

    UNDER_WAY = auto()
    """The server has answered the request for TLS with yes or no. A failure now is a failure of TLS."""

    UNCONFIRMED = auto()
    """Our side of the handshake is done, and the server's answer is there: a message of the protocol, or the alert with
    which a TLS 1.3 server refuses a client certificate."""


def handshake_of(pgconn: PGconn) -> Handshake:
    """The state of TLS before the next step."""
    match pgconn.status:
        case pq.ConnStatus.SSL_STARTUP if pgconn.ssl_in_use or _arrived(pgconn) in {b"S", b"N"}:
            return Handshake.UNDER_WAY
        case pq.ConnStatus.AWAITING_RESPONSE if pgconn.ssl_in_use and _arrived(pgconn):
            return Handshake.UNCONFIRMED
    return Handshake.NONE


def with_system_roots(parameters: Parameters, *, env: Mapping[str, str], bundles: Sequence[Path]) -> Parameters:
    """The parameters, with the system's bundle in place of `sslrootcert=system`.

    Raises:
        ReadError: there is no bundle (`tls`), or the sslmode is too weak (`configuration`).

    """
    if is_weak(parameters, env=env):
        raise ReadError(Reason.CONFIGURATION, "sslrootcert=system goes with sslmode=verify-full alone")
    try:
        return {**parameters, **system_roots(parameters, env=env, bundles=bundles)}
    except FileNotFoundError as error:
        raise ReadError(Reason.TLS, str(error)) from error


def _arrived(pgconn: PGconn) -> bytes:
    """The next byte on the connection, not consumed. Empty if there is none or the other side has closed."""
    try:
        with socket.socket(fileno=os.dup(pgconn.socket)) as end:
            return end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""
