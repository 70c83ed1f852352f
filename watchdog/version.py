"""The version of pgwatchdog."""

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """The installed version of pgwatchdog."""
    try:
        return version("pgwatchdog")
    except PackageNotFoundError:  # the process runs from a source tree that is not installed
        return "unknown"
