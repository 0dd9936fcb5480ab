"""Queues of which a group has no partition any more, and the end of a deleted group, which waits for the last of them."""

import asyncio
from collections.abc import Callable, Set

from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.events import EventRecorder
from baton.controller.finalizer import Finalizer
from baton.controller.problems import EventReason
from baton.controller.queue_workers import QueueWorkers
from baton.controller.scaling import Scaling
from baton.controller.status import not_released
from baton.engine import GroupState
from baton.kube.objects import GroupView
from baton.model.ids import QueueName

AGAIN_AFTER = 1.0
"""Seconds until the next try to take the finalizer off: something still had it, or the group changed meanwhile."""


class QueueReleases:
    """The queues of one group, by its `workers`."""

    def __init__(
        self,
        key: GroupKey,
        uid: str,
        cache: ClusterCache,
        workers: QueueWorkers,
        recorder: EventRecorder,
        scaling: Scaling,
        finalizer: Finalizer,
        wake: Callable[[], None],
    ) -> None:
        self._key = key
        self._uid = uid
        self._cache = cache
        self._workers = workers
        self._recorder = recorder
        self._scaling = scaling
        self._finalizer = finalizer
        self._wake = wake

    def release(self, state: GroupState, but: Set[QueueName]) -> bool:
        """Release the queues of which the ledger has no partition, except `but`. True when all of these are released."""
        kept = {partition.queue for partition in state.records}
        return self._workers.dismiss(self._workers.names - kept - but, recorded=frozenset(state.queues))

    async def follow(self, group: GroupView, state: GroupState) -> bool:
        """Release what `group` does not name any more. True: the group is deleted, and its finalizer is off. Raises Stuck."""
        for queue, why in self._workers.given_up().items():
            self._recorder.warn(EventReason.NOT_RELEASED, not_released(queue, why, self._uid))
        named = [] if group.deleting or group.spec is None else [QueueName(queue.name) for queue in group.spec.queues]
        released = self.release(state, {name for name in named if self._cache.queues.get(self._key[0], name)})
        if not group.deleting or state.records or not released:
            return False
        if self._scaling.spared and await self._finalizer.take_off(group):
            return True
        asyncio.get_running_loop().call_later(AGAIN_AFTER, self._wake)
        return False
