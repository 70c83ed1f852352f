"""Why a cluster could not be read. Imports nothing, so that an error can carry it at no cost."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a cluster could not be read: a bounded set, a label of metrics."""

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
