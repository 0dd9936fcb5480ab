"""Writes the status of a resource when it has changed, and not more often than people can read."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from baton.kube.api import Api, Json
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.model.retrying import doubling
from baton.model.times import to_text

APART = 0.5
"""Seconds from a change to the write of the status, which includes further changes."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 30.0
"""Seconds between attempts to write a status that is refused: the first and the longest pause."""

LAST_CHANGE = "lastChangeTime"

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

INVALID = 422
"""The HTTP status if the test of a JSON patch fails."""

log = structlog.get_logger("baton.status")


class StatusWriter:
    """Writes the /status of one resource: only the latest, if several wait."""

    def __init__(self, api: Api, path: str, uid: str, clock: ApiServerClock, start: Start, *, dated: bool = False) -> None:
        """`start`: starts a task; `dated`: the status has the time of its last change."""
        self._clock = clock
        self._api = api
        self._path = path
        self._uid = uid
        self._wanted: Json | None = None
        self._written: Json | None = None
        self._start = start
        self._task: asyncio.Task[None] | None = None
        self._dated = dated
        self._pause = APART
        self._retries = doubling(FIRST_RETRY, LONGEST_RETRY)

    def want(self, status: Json, known: Mapping[str, object]) -> None:
        """Set the status to write. `known`: the status of the resource when it was last seen."""
        if self._written is None:
            self._written = _without_date(known)
        self._wanted = _without_date(status)
        if self._wanted != self._written:
            self._write_soon()

    def put_right(self, known: Mapping[str, object]) -> None:
        """Write the status again if another client has overwritten it: `known`, the status when last seen, differs from the last
        write. Call it only now and then, so that two writers do not race."""
        if self._wanted is not None and self._wanted == self._written and _without_date(known) != self._written:
            self._written = {}
            self._write_soon()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _write_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._start(self._write())

    async def _write(self) -> None:
        while self._wanted != self._written:
            await asyncio.sleep(self._pause)
            await self.flush()

    async def flush(self) -> None:
        wanted = self._wanted
        if wanted is None or wanted == self._written:
            return

        def shown() -> Json:
            nonlocal wanted
            wanted = self._wanted or {}  # it may have changed while the request waited for its turn
            return {**wanted, LAST_CHANGE: to_text(self._clock.now())} if self._dated else wanted

        try:
            await self._api.replace_status(self._path, self._uid, shown)
            self._written = wanted
            self._pause, self._retries = APART, doubling(FIRST_RETRY, LONGEST_RETRY)
        except (ApiError, UnavailableError) as error:
            if _of_another(error):
                self._written = wanted  # the name belongs to another resource now
                return
            if not isinstance(error, NotFoundError):  # the resource is gone, or its kind is not served at the moment
                log.warning("a status could not be written", path=self._path, error=str(error))
            self._written = {}
            self._pause = next(self._retries)


def _without_date(status: Mapping[str, object]) -> Json:
    return {name: value for name, value in status.items() if name != LAST_CHANGE}


def _of_another(error: Exception) -> bool:
    """True if the test of the UID failed. A 409 means that too many clients wrote the object at once."""
    return isinstance(error, ConflictError) and error.status == INVALID
