"""The major versions of PostgreSQL that pgwatchdog supports."""

MIN_SUPPORTED = 14
"""Lowest major version that is supported. A server of an older version is refused."""

MAX_SUPPORTED = 19
"""The newest version whose release notes and catalogs have been gone through."""

MAX_TESTED = 18
"""The newest version that the tests run on. Newer servers are watched; to act on one takes `allow_untested`."""


def major(server_version: int) -> int:
    """The major version in a `server_version_num`: 18 for 180006."""
    return server_version // 10_000


def is_untested(server_version: int) -> bool:
    """True for a server that is newer than every version that the tests run on."""
    return major(server_version) > MAX_TESTED


def version_num(major: int) -> int:
    """The lowest `server_version_num` of a major version: 180000 for 18."""
    return major * 10_000
