"""Writes a resource's status when it changed, and not more often than people can read."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from baton.kube.api import Api, Json
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.model.times import to_text

APART = 0.5
"""Seconds between a change and its status: what changes meanwhile goes into one."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 30.0
"""Seconds between attempts to write a status that is refused, whatever changes meanwhile."""

LAST_CHANGE = "lastChangeTime"

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

INVALID = 422
"""The status of a refusal of a JSON patch whose test fails."""

log = structlog.get_logger("baton.status")


class StatusWriter:
    """Writes the /status of one resource. If several wait, it writes only the latest."""

    def __init__(self, api: Api, path: str, uid: str, clock: ApiServerClock, start: Start, *, dated: bool = False) -> None:
        """`start` makes a task of what is to be done; `dated`: the status says when it last changed."""
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

    def want(self, status: Json, known: Mapping[str, object]) -> None:
        """This is how it should read; `known` is how it reads, as far as it was seen."""
        if self._written is None:
            self._written = _without_date(known)
        self._wanted = _without_date(status)
        if self._wanted != self._written:
            self._write_soon()

    def put_right(self, known: Mapping[str, object]) -> None:
        """Write it again where others have written since: `known`, as it was seen to read, is not what was last written. Now and
        then: who contradicts is answered slowly."""
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
            wanted = self._wanted or {}  # it may have changed again since this waits for its turn
            return {**wanted, LAST_CHANGE: to_text(self._clock.now())} if self._dated else wanted

        try:
            await self._api.replace_status(self._path, self._uid, shown)
            self._written = wanted
            self._pause = APART
        except (ApiError, UnavailableError) as error:
            if _of_another(error):
                self._written = wanted  # what has its name now is not this writer's
                return
            if not isinstance(error, NotFoundError):  # it is gone, or its kind is not served at this moment
                log.warning("a status could not be written", path=self._path, error=str(error))
            self._written = {}
            self._pause = min(LONGEST_RETRY, max(FIRST_RETRY, 2 * self._pause))


def _without_date(status: Mapping[str, object]) -> Json:
    return {name: value for name, value in status.items() if name != LAST_CHANGE}


def _of_another(error: Exception) -> bool:
    """The test of the UID failed. A 409 is another thing: so many wrote the object at once that the server gave up."""
    return isinstance(error, ConflictError) and error.status == INVALID
