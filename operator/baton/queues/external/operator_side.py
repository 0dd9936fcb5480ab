"""A queue that Baton cannot reach: its partitions are only numbers, and only a consumer's report releases one."""

from baton.model.ids import Epoch, Uid
from baton.queues.external.kind import KIND
from baton.queues.opening import QueueToOpen
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueCheck


class ExternalQueue:
    """`QueueAdapter` (baton.queues.protocol) of an External queue. Nothing enforces its grants, and it has no owner records."""

    fenced = KIND.fenced
    answers_within = KIND.answers_within

    def __init__(self) -> None:
        self._partitions: int | None = None

    async def check(self) -> QueueCheck:
        return QueueCheck(partitions=self._partitions)

    async def ensure(self, count: int | None) -> None:
        self._partitions = count if count is not None else self._partitions

    async def pause(self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None) -> int | None:
        return None

    async def outstanding(self, partition: int) -> int | None:
        return None

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        return Ownership(uid, epoch)

    async def release(self) -> bool:
        self._partitions = None
        return True

    async def close(self) -> None:
        pass


async def open_queue(queue: QueueToOpen, claimant: Claimant) -> QueueAdapter:
    """`OpenQueueSide` of External."""
    return ExternalQueue()
