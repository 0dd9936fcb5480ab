"""Writes a resource's status when it changed, and not more often than people can read; and, of groups, when an operator last
looked, so that a status that nobody keeps up is known as such."""

import asyncio
import math
from collections.abc import Mapping
from zlib import crc32

import structlog

from baton.kube.api import Api, Json
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.model.times import read_seconds, to_text

APART = 0.25
FIRST_RETRY, LONGEST_RETRY = 1.0, 30.0
"""Seconds between attempts to write a status that is refused, whatever changes meanwhile."""

HEARTBEAT = 120.0
"""Seconds after which a status that did not change is written with the time of the last look. Such a write costs the API server
some 7 ms of a core and the operator 3 ms: with 1,000 groups 6 % and 2 % of one."""

SPREAD = 20.0
"""Seconds by which groups differ in this, so that a thousand that began together do not write together."""

LAST_LOOK = "lastLookTime"

INVALID = 422
"""The status of a refusal of a JSON patch whose test fails."""

log = structlog.get_logger("baton.status")


class StatusWriter:
    """Writes the /status of one resource. If several wait, it writes only the latest."""

    def __init__(self, api: Api, path: str, uid: str, clock: ApiServerClock, *, heartbeat: bool = False) -> None:
        """`heartbeat`: the status says when its resource was last looked at."""
        self._clock = clock
        self._api = api
        self._path = path
        self._uid = uid
        self._wanted: Json | None = None
        self._written: Json | None = None
        self._news = asyncio.Event()
        self._looked_at: float | None = None
        """Unix seconds; None: its status does not say so."""
        self._pause = APART
        self._every = (HEARTBEAT - SPREAD * (crc32(uid.encode()) % 1000) / 1000) if heartbeat else math.inf
        self._beat_at = -math.inf
        """When the status is to be written in any case (unix seconds)."""

    def want(self, status: Json, known: Mapping[str, object]) -> None:
        """This is how it should read; `known` is how it reads, as far as it was seen."""
        if self._written is None:
            self._written = _without_look(known)
            self._beat_at = min(read_seconds(known.get(LAST_LOOK), -math.inf), self._clock.now()) + self._every
        status = _without_look(status)
        if status != self._wanted:
            self._wanted = status
            self._news.set()

    def overwritten(self, known: Mapping[str, object]) -> bool:
        """Whether somebody else has written since: `known`, as it was seen to read, is not what was last written."""
        return self._wanted is not None and self._wanted == self._written and _without_look(known) != self._written

    def want_again(self, status: Json, known: Mapping[str, object]) -> None:
        """This is how it should read, where somebody else has written what is known."""
        self._written = None
        self.want(status, known)
        self._news.set()

    def looked(self) -> None:
        """The resource was compared with the facts just now."""
        self._looked_at = self._clock.now()
        if self._wanted is not None and self._looked_at >= self._beat_at:
            self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self.flush()
            await asyncio.sleep(self._pause)

    async def flush(self) -> None:
        """Write now if there is anything to write."""
        wanted, looked = self._wanted, self._looked_at
        if wanted is None or (wanted == self._written and (looked is None or looked < self._beat_at)):
            return
        shown = wanted if looked is None else {**wanted, LAST_LOOK: to_text(looked)}
        try:
            await self._api.replace_status(self._path, self._uid, shown)
            self._written, self._beat_at = wanted, self._clock.now() + self._every
            self._pause = APART
        except (ApiError, UnavailableError) as error:
            if _of_another(error):
                return  # what has its name now is not this writer's
            if not isinstance(error, NotFoundError):  # it is gone, or its kind is not served at this moment
                log.warning("a status could not be written", path=self._path, error=str(error))
            self._written = {}
            self._pause = min(LONGEST_RETRY, max(FIRST_RETRY, 2 * self._pause))
            self._news.set()


def _without_look(status: Mapping[str, object]) -> Json:
    return {name: value for name, value in status.items() if name != LAST_LOOK}


def _of_another(error: Exception) -> bool:
    """The test of the UID failed. A 409 is another thing: so many wrote the object at once that the server gave up."""
    return isinstance(error, ConflictError) and error.status == INVALID
