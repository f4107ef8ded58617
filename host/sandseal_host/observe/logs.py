"""Logs: one line an event, as JSON for machines or coloured text for people."""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

# Libraries that report at `info` what only their own authors want to know.
_CHATTY = ("alembic", "httpcore", "httpx", "uvicorn")

# What is written whatever else is not worth a line; whether requests get one is a setting of its own.
_WANTED = ("sandseal.audit", "sandseal.requests")

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def get_logger(name: str) -> FilteringBoundLogger:
    """The logger of that name; takes an event and its facts as keywords."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def configure_logging(*, json: bool, level: str = "info", stream: TextIO = sys.stderr) -> None:
    """Send what this process logs, through structlog or the standard library, to one stream.

    Args:
        json: one JSON object a line; otherwise text for a terminal.
        level: the least level that is written, `debug`, `info`, `warning` or `error`.
        stream: where lines go.
    """
    # Plain tracebacks: the richer ones print local variables, and with them tokens.
    console = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
    renderer: Processor = structlog.processors.JSONRenderer() if json else console
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),  # the level may change
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([structlog.processors.format_exc_info] if json else []),
                renderer,
            ],
        )
    )
    logging.getLogger().handlers[:] = [handler]
    set_log_level(level)
    for name in _WANTED:
        logging.getLogger(name).setLevel(logging.INFO)


def log_level() -> str:
    """The least level that is written."""
    return logging.getLevelName(logging.getLogger().level).lower()


def set_log_level(level: str) -> None:
    """Write lines of this level and above from now on, `debug`, `info`, `warning` or `error`."""
    logging.getLogger().setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
