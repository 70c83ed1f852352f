"""The versions of PostgreSQL that can be watched, as major versions."""

MIN_SUPPORTED = 14
"""Servers older than this are refused."""

MAX_TESTED = 18
"""Newer servers are watched as well, but the tests do not run on them."""


def major(server_version: int) -> int:
    """The major version of a `server_version_num`: 18 for 180006."""
    return server_version // 10_000


def version_num(major: int) -> int:
    """The lowest `server_version_num` of a major version: 180000 for 18."""
    return major * 10_000
