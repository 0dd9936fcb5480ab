"""Writes a resource's status when it changed, and not more often than people can read."""

import asyncio
from typing import Any

import structlog

from baton.controller.faults import boundary
from baton.kube.api import Api, ApiError, Json, NotFoundError, UnavailableError
from baton.kube.clock import Clock

APART = 0.25
RETRY = 1.0

log = structlog.get_logger("baton.status")


class StatusWriter:
    """One resource's /status. The latest wins; what was meanwhile is left out."""

    def __init__(self, api: Api, path: str, uid: str, clock: Clock) -> None:
        self._clock = clock
        self._api = api
        self._path = f"{path}/status"
        self._uid = uid
        self._wanted: Json | None = None
        self._written: Json | None = None
        self._fields: set[str] = set()
        """All that ever stood there, as far as was seen."""
        self._news = asyncio.Event()

    def want(self, status: Json, known: Json) -> None:
        """This is how it should read; `known` is how it reads, as far as it was seen."""
        if self._written is None:
            self._written = dict(known)
            self._fields |= known.keys()
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
        wanted, before = self._wanted, self._written or {}
        if wanted is None or wanted == before:
            return
        # A merge patch leaves alone what it does not name: a field that is gone has to be named as null.
        patch: dict[str, Any] = {**dict.fromkeys(self._fields - wanted.keys()), **wanted}
        self._fields |= wanted.keys()
        try:
            with boundary("status-write"):
                await self._api.merge(self._path, {"metadata": {"uid": self._uid}, "status": patch})
            self._written = wanted
        except NotFoundError:
            pass
        except (ApiError, UnavailableError) as error:
            log.warning("a status could not be written", path=self._path, error=str(error))
            self._written = {}
            asyncio.get_running_loop().call_at(self._clock.ticks() + RETRY, self._news.set)
