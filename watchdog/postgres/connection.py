"""Connections that read text from servers of any encoding. Bytes that cannot be decoded are shown escaped.

The server is asked not to convert text. If one catalog holds names of several encodings, a conversion would fail and
the server would refuse the whole result.
"""

import codecs
from functools import cache

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq.abc import PGconn
from psycopg.types.string import StrBinaryDumper, StrDumper

_TYPES = ("text", "name")


class Connection(psycopg.AsyncConnection[tuple[object, ...]]):
    """A connection that decodes text in its server's encoding. All connections of one encoding share their adapters.

    `checked` are the statements whose column names have been found right on this connection.
    """

    def __init__(self, pgconn: PGconn) -> None:
        """Wrap an open libpq connection."""
        super().__init__(pgconn)
        self.checked: set[object] = set()

    @property
    def adapters(self) -> AdaptersMap:
        """The adapters that convert values from and to the server's format."""
        return _adapters(self.info.parameter_status("server_encoding") or "")


@cache
def _adapters(server_encoding: str) -> AdaptersMap:
    codec = _codec(server_encoding)

    class Text(Loader):
        def load(self, data: Buffer) -> str:
            return bytes(data).decode(codec, "backslashreplace")

    class BinaryText(Text):
        format = pq.Format.BINARY

    class Dump(StrDumper):
        def dump(self, obj: str) -> bytes:
            return obj.encode(codec, "backslashreplace")

    class BinaryDump(StrBinaryDumper):
        def dump(self, obj: str) -> bytes:
            return obj.encode(codec, "backslashreplace")

    adapters = AdaptersMap(psycopg.adapters)
    for dumper in (Dump, BinaryDump):
        adapters.register_dumper(str, dumper)
    for loader in (Text, BinaryText):
        for name in _TYPES:
            adapters.register_loader(name, loader)
    return adapters


def _codec(server_encoding: str) -> str:
    if server_encoding in {"UTF8", "SQL_ASCII", ""}:
        return "utf-8"
    try:
        return codecs.lookup(server_encoding.lower().replace("win", "cp")).name
    except LookupError:
        return "utf-8"
