"""Annotate pods so that the kubelet refreshes their mounted ledger at once, instead of within a minute.

The annotation follows from the ledger, and the pod shows the one that it got last. So a lost request is repeated, and a restarted
operator repeats no request.
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
"""Seconds after which a pod that does not show its annotation is annotated again: another program may have changed it."""

log = structlog.get_logger("baton.mounts")

AT_ONCE = 4
"""Most requests of a group under way. A thousand groups may have to annotate ten pods each."""

_Key = tuple[str, MemberId]
"""A pod's namespace and name."""


@dataclass(frozen=True, slots=True)
class MountRefresh:
    """A pod whose annotation must change to `mark` (None: no annotation)."""

    namespace: str
    pod: MemberId
    uid: Uid
    mark: str | None

    @property
    def key(self) -> _Key:
        return self.namespace, self.pod


@lru_cache(maxsize=20_000)
def mark(entry: str) -> str | None:
    """The annotation's value for a ledger entry, which changes only if the pod's partitions do. None: the pod owns nothing."""
    owned = json.loads(entry).get("owned")
    return sha256(json.dumps(owned).encode()).hexdigest()[:16] if owned else None


def due_refreshes(ledger: Mapping[str, str], pods: Iterable[PodView]) -> list[MountRefresh]:
    """Refreshes for the pods whose annotation does not match their ledger entry. Spark executors need none: their driver watches
    the ledger."""
    return [
        MountRefresh(pod.namespace, pod.name, pod.uid, wanted)
        for pod in pods
        if pod.nameable
        and pod.spark_role != EXECUTOR
        and (entry := ledger.get(pod.name)) is not None
        and pod.told != (wanted := mark(entry))
    ]


class MountRefresher:
    """Sends refreshes, one request per pod at a time. A refresh is not repeated while the watch may not have shown it yet."""

    def __init__(self, api: Api, clock: ApiServerClock) -> None:
        self._api = api
        self._clock = clock
        self._under_way: dict[_Key, MountRefresh] = {}
        """Latest refresh of each pod that has a request under way or waiting for its turn."""
        self._sent: OrderedDict[_Key, tuple[MountRefresh, float]] = OrderedDict()
        """Last refresh sent to each other pod, and when, oldest first."""

    async def carry_out(self, wanted: Iterable[MountRefresh]) -> None:
        """Send the refreshes that were not sent recently. Pods that are gone are skipped."""
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
            for key in left:  # cancelled before their request began
                del self._under_way[key]
        if failed := [error for error in answers if error is not None]:
            log.warning(
                "cannot annotate pods; their mounted ledger may lag by a minute",
                namespace=fresh[0].namespace,
                pods=len(failed),
                error=failed[0],
            )

    async def _tell(self, key: _Key, room: asyncio.Semaphore, left: set[_Key]) -> str | None:
        """Send the latest refresh of a pod, again if it changes while the request is under way. Returns the error, if any."""
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
                        log.debug("pod is gone, not annotated", namespace=namespace, pod=pod)
            self._sent[key] = (self._under_way[key], self._clock.ticks())
        except (ApiError, UnavailableError) as error:
            return str(error)
        finally:
            del self._under_way[key]
        return None

    def _last_sent(self, key: _Key) -> MountRefresh | None:
        sent = self._sent.get(key)
        return self._under_way.get(key) or (None if sent is None else sent[0])
