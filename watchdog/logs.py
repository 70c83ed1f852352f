"""Logging: event names as constants, one wide event per thing worth telling, never a query's text.

Core does not log. Lines go to stderr, so that a command's output stays clean.
"""

import logging
import sys
from enum import StrEnum
from typing import cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor


class Event(StrEnum):
    """Everything that is ever logged, by name."""

    STARTED = "started"
    LISTENING = "listening"
    STOPPED = "stopped"
    CLUSTER_READ = "cluster_read"
    CLUSTER_UNREAD = "cluster_unread"
    CLUSTER_INCOMPLETE = "cluster_incomplete"
    BEHIND_POOLER = "behind_pooler"
    VERDICT = "verdict"
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


def configure_logs(*, form: Format, level: Level) -> None:
    """Set up logging for the whole process."""
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def get_logger() -> FilteringBoundLogger:
    """The process's logger."""
    return cast("FilteringBoundLogger", structlog.get_logger())
