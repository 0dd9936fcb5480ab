"""Writes a resource's status when it changed, and not more often than people can read."""

import asyncio

import structlog

from baton.controller.faults import boundary
from baton.kube.api import Api, ApiError, ConflictError, Json, NotFoundError, UnavailableError
from baton.kube.clock import Clock

APART = 0.25
RETRY = 1.0

log = structlog.get_logger("baton.status")


class StatusWriter:
    """One resource's /status. The latest wins; what was meanwhile is left out."""

    def __init__(self, api: Api, path: str, uid: str, clock: Clock) -> None:
        self._clock = clock
        self._api = api
        self._path = path
        self._uid = uid
        self._wanted: Json | None = None
        self._written: Json | None = None
        self._news = asyncio.Event()

    def want(self, status: Json, known: Json) -> None:
        """This is how it should read; `known` is how it reads, as far as it was seen."""
        if self._written is None:
            self._written = dict(known)
        if status != self._wanted:
            self._wanted = status
            self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self.flush()
            await asyncio.sleep(APART)

    async def flush(self) -> None:
        """Write now if there is anything to write."""
        wanted = self._wanted
        if wanted is None or wanted == self._written:
            return
        try:
            with boundary("status-write"):
                await self._api.replace_status(self._path, self._uid, wanted)
            self._written = wanted
        except (NotFoundError, ConflictError):
            pass  # it is gone, and what has its name now is not this writer's
        except (ApiError, UnavailableError) as error:
            log.warning("a status could not be written", path=self._path, error=str(error))
            self._written = {}
            asyncio.get_running_loop().call_at(self._clock.ticks() + RETRY, self._news.set)
