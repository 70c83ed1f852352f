"""The reasons why a cluster could not be read.

This module imports no other module of pgwatchdog, so that `watchdog.errors` can use it.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a cluster could not be read. The value is a label value of metrics, so the set is fixed."""

    UNREACHABLE = "unreachable"
    NAME_LOOKUP = "name_lookup"
    AUTHENTICATION = "authentication"
    NO_DATABASE = "no_database"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    STARTING_UP = "starting_up"
    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    NOT_PERMITTED = "not_permitted"
    UNSUPPORTED_VERSION = "unsupported_version"
    CONFIGURATION = "configuration"
    STATEMENT = "statement"
    INTERNAL = "internal"
