"""A change of a pod's annotation makes the kubelet refresh the pod's mounted ledger at once, and not only within a minute.

The ledger says which annotation a pod needs, and the pod has the one it got last. So a lost request is seen and repeated, and a
restarted operator repeats none.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import structlog

from baton.kube.api import Api, Json, core_path
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.members import EXECUTOR
from baton.kube.pods import PodView
from baton.model.ids import MemberId, Uid
from baton.model.names import LEDGER_KEY_ANNOTATION

SHOWN_WITHIN = 15.0
"""Seconds. A pod that does not show by then what it was sent is sent it again: others may have changed it."""

log = structlog.get_logger("baton.mounts")

AT_ONCE = 4
"""Requests of a group under way. A thousand groups may have ten pods each to tell."""

_Key = tuple[str, MemberId]
"""A pod's namespace and name."""


@dataclass(frozen=True, slots=True)
class MountRefresh:
    """One pod whose annotation is to change."""

    namespace: str
    pod: MemberId
    uid: Uid
    mark: str | None

    @property
    def key(self) -> _Key:
        return self.namespace, self.pod


@lru_cache(maxsize=20_000)
def mark(entry: str) -> str | None:
    """The annotation's value for a ledger entry: changes when what the pod owns does. Nothing else of it is worth a request.
    None: it owns nothing."""
    owned = json.loads(entry).get("owned")
    return sha256(json.dumps(owned).encode()).hexdigest()[:16] if owned else None


def due_refreshes(ledger: Mapping[str, str], pods: Iterable[PodView]) -> list[MountRefresh]:
    """The refreshes of the pods whose annotation is not that of their key of the ledger. Spark's executors have no need of it:
    their driver watches the ledger."""
    return [
        MountRefresh(pod.namespace, pod.name, pod.uid, wanted)
        for pod in pods
        if pod.nameable
        and pod.spark_role != EXECUTOR
        and (entry := ledger.get(pod.name)) is not None
        and pod.told != (wanted := mark(entry))
    ]


class MountRefresher:
    """Carries refreshes out, each once, as long as the watch may still be about to show it. One request per pod is under way."""

    def __init__(self, api: Api, clock: ApiServerClock) -> None:
        self._api = api
        self._clock = clock
        self._under_way: dict[_Key, MountRefresh] = {}
        """What pods that are being told, however long that takes, are to be told last. A request may wait for its turn."""
        self._sent: OrderedDict[_Key, tuple[MountRefresh, float]] = OrderedDict()
        """What each other pod was told last, and when; in that order."""

    async def carry_out(self, wanted: Iterable[MountRefresh]) -> None:
        """Patch all that were not sent just now. A pod that is gone needs none."""
        now = self._clock.ticks()
        while self._sent and now >= next(iter(self._sent.values()))[1] + SHOWN_WITHIN:
            self._sent.popitem(last=False)
        fresh = [refresh for refresh in wanted if self._last_sent(refresh.key) != refresh]
        left = {refresh.key for refresh in fresh if refresh.key not in self._under_way}
        room = asyncio.Semaphore(AT_ONCE)
        for refresh in fresh:
            self._under_way[refresh.key] = refresh
            self._sent.pop(refresh.key, None)
        try:
            answers = await asyncio.gather(*(self._tell(key, room, left) for key in left))
        finally:
            for key in left:  # cancelled before it began
                del self._under_way[key]
        if failed := [error for error in answers if error is not None]:
            log.warning(
                "annotations of pods could not be changed; their mounts may lag by a minute",
                namespace=fresh[0].namespace,
                pods=len(failed),
                error=failed[0],
            )

    async def _tell(self, key: _Key, room: asyncio.Semaphore, left: set[_Key]) -> str | None:
        """Returns why the pod could not be told. What it is to be told may change until the request has its turn, and then again:
        then that is sent next."""
        left.remove(key)
        namespace, pod = key
        told: MountRefresh | None = None

        def patch() -> Json:
            nonlocal told
            told = self._under_way[key]
            return {"metadata": {"uid": told.uid, "annotations": {LEDGER_KEY_ANNOTATION: told.mark}}}

        try:
            async with room:
                while told != self._under_way[key]:
                    try:
                        await self._api.merge(core_path(namespace, "pods", pod), patch)
                    except (NotFoundError, ConflictError):
                        log.debug("a pod is gone before it was told", namespace=namespace, pod=pod)
            self._sent[key] = (self._under_way[key], self._clock.ticks())
        except (ApiError, UnavailableError) as error:
            return str(error)
        finally:
            del self._under_way[key]
        return None

    def _last_sent(self, key: _Key) -> MountRefresh | None:
        sent = self._sent.get(key)
        return self._under_way.get(key) or (None if sent is None else sent[0])
