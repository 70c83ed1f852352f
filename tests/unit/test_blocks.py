"""Compressed blocks: one valid gzip stream, whatever they are, and each block compressed once."""

import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from watchdog.web.blocks import Block, gzipped

LINE = b'pgwatchdog_up{server="main"} 1.0\n'


@given(st.lists(st.binary() | st.integers(1, 20_000).map(lambda count: LINE * count), max_size=8))
def test_blocks_come_out_as_they_went_in_as_a_single_member_and_nothing_behind_it(texts: list[bytes]) -> None:
    stream = gzipped([Block(text) for text in texts])
    assert gzip.decompress(stream) == b"".join(texts), "its checksum and its size are right"
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    assert reader.decompress(stream) == b"".join(texts)
    assert (reader.eof, reader.unused_data) == (True, b"")


def test_a_block_that_stands_is_not_compressed_again() -> None:
    stands = Block(LINE * 1000)
    first = gzipped([stands, Block(b"one")])
    deflated = stands.deflated
    second = gzipped([stands, Block(b"two")])
    assert stands.deflated is deflated
    assert first != second
    assert len(first) < len(LINE) * 1000 / 50
