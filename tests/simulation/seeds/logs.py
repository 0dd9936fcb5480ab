"""What the operators log: lines of the timeline where one is wanted; and an exception is something that must not be."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import structlog

from tests.simulation.seeds.loop import PROCESS

if TYPE_CHECKING:
    from tests.simulation.seeds.environment import Environment

_environments: list[Environment] = []


def listen(environment: Environment, level: int = logging.ERROR) -> None:
    """From now on what is logged is this environment's."""
    _environments[:] = [environment]
    structlog.configure(
        processors=[_hear],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _hear(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    environment, process = _environments[0], PROCESS.get()
    error = event.pop("exc_info", None)
    what = event.pop("event")
    text = f"{process}: {what} {_facts(event)}"
    if error or "task" in what:
        environment.violated(f"{text} {error!r}", error if isinstance(error, BaseException) else None)
    environment.say(text)
    raise structlog.DropEvent


def _facts(event: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in event.items() if name not in ("namespace", "group"))
