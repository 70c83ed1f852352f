"""Logging: the names of the logged events, and the setup of structlog.

Each event is one line with all of its fields that have a value. No line holds the text of a query, and none holds a
control character: what comes from outside is escaped. `watchdog.core` does not log.
Lines go to stderr, so that stdout holds nothing but a command's output.
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from watchdog.core.present.escapes import printable


class Event(StrEnum):
    """The names of all events that are logged."""

    LISTENING = "listening"
    STOPPED = "stopped"
    CLUSTER_READ = "cluster_read"
    CLUSTER_UNREAD = "cluster_unread"
    CLUSTER_INCOMPLETE = "cluster_incomplete"
    BEHIND_POOLER = "behind_pooler"
    VERDICT = "verdict"
    VERDICTS_LEFT_OUT = "verdicts_left_out"
    SOCKETS = "sockets"
    OUTCOME = "outcome"
    OUTCOMES_LEFT_OUT = "outcomes_left_out"
    RETRY_AFTER_CANCEL = "retry_after_cancel"
    ARMED = "armed"
    DISARMED = "disarmed"
    LEDGER_FAILED = "ledger_failed"
    STATEMENT_FAILED = "statement_failed"
    STATEMENT_RECOVERED = "statement_recovered"
    SERVER_UNTESTED = "server_untested"
    CLOCK_STEPPED = "clock_stepped"
    OUTPUT_LOST = "output_lost"
    INTERNAL_ERROR = "internal_error"
    RELOADED = "reloaded"
    RELOAD_FAILED = "reload_failed"
    CONFIGURATION_WARNING = "configuration_warning"


class Format(StrEnum):
    """The format of a log line."""

    LOGFMT = "logfmt"
    JSON = "json"


class Level(StrEnum):
    """The lowest level at which lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Stderr:
    """A stream to stderr that drops what it cannot write. `lost` counts the writes and flushes that failed.

    So a full disk or a closed pipe does not stop pgwatchdog.
    """

    def __init__(self) -> None:
        """Start with a count of 0."""
        self.lost = 0

    def write(self, text: str) -> int:
        """Write `text`. A write that fails is counted in `lost`."""
        try:
            return sys.stderr.write(text)
        except (OSError, ValueError):
            self.lost += 1
            return len(text)

    def flush(self) -> None:
        """Flush the stream. A flush that fails is counted in `lost`."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            self.lost += 1


def configure_logs(*, form: Format, level: Level) -> Stderr:
    """Set up logging for the whole process. The returned stream counts the writes that failed."""
    stderr = Stderr()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            drop_empty,
            *_RENDERERS[form],
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", stderr)),
        cache_logger_on_first_use=False,
    )
    return stderr


def drop_empty(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """A processor that drops the fields without a value: None, empty text and empty lists."""
    return {key: value for key, value in fields.items() if value is not None and value not in _EMPTY}


def escape(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """A processor that escapes what is not printable. The renderer escapes line feeds itself."""
    return {key: value if isinstance(value, int | float) else _escaped(str(value)) for key, value in fields.items()}


def _escaped(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


_EMPTY: tuple[object, ...] = ("", [], ())

_RENDERERS: Mapping[Format, Sequence[Processor]] = {
    Format.LOGFMT: (
        escape,
        structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False
        ),
    ),
    Format.JSON: (structlog.processors.JSONRenderer(),),
}


def say_line(line: str) -> None:
    """Write one line to stdout. If that fails, log `output_lost` instead of raising an exception."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        get_logger().warning(Event.OUTPUT_LOST)


def get_logger() -> FilteringBoundLogger:
    """The process's logger."""
    return cast("FilteringBoundLogger", structlog.get_logger())
