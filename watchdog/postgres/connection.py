"""Text from servers of any encoding: never refused, never an error; what cannot be decoded is shown escaped.

The server is asked not to convert: where names of several encodings stand in one catalog, it would refuse the whole
answer.
"""

import codecs
from functools import cache

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq.abc import PGconn

_TYPES = ("text", "name")


class Connection(psycopg.AsyncConnection[tuple[object, ...]]):
    """A connection that reads text in its server's encoding. What it reads with is shared by all of that encoding.

    `checked` are the statements whose columns it has been seen to send under the right names.
    """

    def __init__(self, pgconn: PGconn) -> None:
        """Over an open connection of libpq."""
        super().__init__(pgconn)
        self.checked: set[object] = set()

    @property
    def adapters(self) -> AdaptersMap:
        """How values are read and written."""
        return _adapters(self.info.parameter_status("server_encoding") or "")


@cache
def _adapters(server_encoding: str) -> AdaptersMap:
    codec = _codec(server_encoding)

    class Text(Loader):
        def load(self, data: Buffer) -> str:
            return bytes(data).decode(codec, "backslashreplace")

    class BinaryText(Text):
        format = pq.Format.BINARY

    adapters = AdaptersMap(psycopg.adapters)
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
