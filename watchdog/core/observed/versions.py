"""The major versions of PostgreSQL that pgwatchdog supports."""

MIN_SUPPORTED = 14
"""Lowest major version that is supported. A server of an older version is refused."""

MAX_TESTED = 18
"""Highest major version on which the tests run. A server of a newer version is watched as well."""


def major(server_version: int) -> int:
    """The major version in a `server_version_num`: 18 for 180006."""
    return server_version // 10_000


def version_num(major: int) -> int:
    """The lowest `server_version_num` of a major version: 180000 for 18."""
    return major * 10_000
