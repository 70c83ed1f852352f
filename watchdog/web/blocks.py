"""Blocks of text that are compressed once and served many times, as one gzip stream (RFC 1952).

Deflate data may be divided at byte boundaries (RFC 1951). So blocks that were compressed separately can be joined to
one valid stream. A block that has not changed since the last scrape costs only the computation of its checksum.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

LEVEL = 1
"""The compression level. Because the text is repetitive, level 1 is four times as fast as the default level 6 and the
result is only a tenth larger."""

_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
"""The gzip header: method deflate, no flags, no modification time, level and operating system unknown."""

_END = b"\x03\x00"
"""The final deflate block, which is empty."""


@dataclass(slots=True)
class Block:
    """A piece of the text. Its compressed form is computed at the first access and then kept."""

    text: bytes
    _deflated: bytes | None = field(default=None, repr=False)

    @property
    def deflated(self) -> bytes:
        """The text as raw deflate data that ends at a byte boundary, without the final block."""
        if self._deflated is None:
            packer = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
            self._deflated = packer.compress(self.text) + packer.flush(zlib.Z_FULL_FLUSH)
        return self._deflated


def gzipped(blocks: Sequence[Block]) -> bytes:
    """All blocks as one gzip stream. Call it outside the event loop, because megabytes of text take a while."""
    checksum, size = 0, 0
    for block in blocks:
        checksum = zlib.crc32(block.text, checksum)
        size += len(block.text)
    tail = struct.pack("<II", checksum, size & 0xFFFFFFFF)
    return b"".join((_HEAD, *(block.deflated for block in blocks), _END, tail))
