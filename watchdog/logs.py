"""Logging: event names as constants, one wide event per thing worth telling, never a query's text.

Core does not log. Lines go to stderr, so that a command's output stays clean.
"""

import logging
import sys
from enum import StrEnum
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor


class Event(StrEnum):
    """Everything that is ever logged, by name."""

    LISTENING = "listening"
    STOPPED = "stopped"
    CLUSTER_READ = "cluster_read"
    CLUSTER_UNREAD = "cluster_unread"
    CLUSTER_INCOMPLETE = "cluster_incomplete"
    BEHIND_POOLER = "behind_pooler"
    VERDICT = "verdict"
    SOCKETS = "sockets"
    OUTCOME = "outcome"
    RETRY_AFTER_CANCEL = "retry_after_cancel"
    ARMED = "armed"
    DISARMED = "disarmed"
    LEDGER_FAILED = "ledger_failed"
    STATEMENT_FAILED = "statement_failed"
    STATEMENT_RECOVERED = "statement_recovered"
    SERVER_UNTESTED = "server_untested"
    OUTPUT_LOST = "output_lost"
    INTERNAL_ERROR = "internal_error"
    RELOADED = "reloaded"
    RELOAD_FAILED = "reload_failed"
    CONFIGURATION_WARNING = "configuration_warning"


class Format(StrEnum):
    """How a line looks."""

    LOGFMT = "logfmt"
    JSON = "json"


class Level(StrEnum):
    """From which level on lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Stderr:
    """Standard error that loses lines rather than its writer: a full disk or a closed pipe stops no watchdog."""

    def __init__(self) -> None:
        """Begin with no line lost."""
        self.lost = 0

    def write(self, text: str) -> int:
        """Write, or count what could not be written."""
        try:
            return sys.stderr.write(text)
        except (OSError, ValueError):
            self.lost += 1
            return len(text)

    def flush(self) -> None:
        """Flush, or count what could not be flushed."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            self.lost += 1


def configure_logs(*, form: Format, level: Level) -> Stderr:
    """Set up logging for the whole process; the stream that is returned knows how many lines it has lost."""
    stderr = Stderr()
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if form is Format.JSON
        else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", stderr)),
        cache_logger_on_first_use=False,
    )
    return stderr


def say_line(line: str) -> None:
    """One line on standard output; lost rather than raised where it cannot be written."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        get_logger().warning(Event.OUTPUT_LOST)


def get_logger() -> FilteringBoundLogger:
    """The process's logger."""
    return cast("FilteringBoundLogger", structlog.get_logger())
