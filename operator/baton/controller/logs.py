"""Logging: text on a terminal, JSON otherwise, including the logs of kopf and other libraries."""

import logging
import os
import sys
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer

WITHOUT_LOCALS = ExceptionDictTransformer(show_locals=False)
"""Tracebacks without local variables, which may contain passwords; the same holds for text logs."""


def set_up(level: str, style: str = "auto") -> None:
    """Configure logging. `level`: debug, info, warning or error. `style`: json, text, or auto (text on a terminal)."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    terminal = sys.stderr.isatty()
    text = style == "text" or (style == "auto" and terminal)
    colours = terminal and not os.environ.get("NO_COLOR")
    last: list[Any] = [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)]
    if not text:
        last = [structlog.processors.ExceptionRenderer(WITHOUT_LOCALS), structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("baton").setLevel(level.upper())
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # While the API server is away, every watch would log every attempt; the elector already logs the outage.
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
