"""The operator's side of a toy queue."""

from baton.queues.toy.kind import KIND
from baton.queues.toy.server import SERVERS, ToyQueue

from baton.model.ids import Epoch, Uid
from baton.queues.opening import QueueToOpen
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueCheck, QueueConflict


async def open_queue(queue: QueueToOpen, claimant: Claimant) -> QueueAdapter:
    """`OpenQueueSide` of Toy."""
    return ToyAdapter(SERVERS[queue.source.server][queue.full_name], claimant)


class ToyAdapter:
    """QueueAdapter for Toy sources."""

    fenced = KIND.fenced
    answers_within = KIND.answers_within

    def __init__(self, queue: ToyQueue, claimant: Claimant) -> None:
        self._queue, self._claimant = queue, claimant

    async def check(self) -> QueueCheck:
        queue = self._queue
        lag = {number: len(values) for number, values in queue.values.items()}
        for partition, _ in queue.done:
            lag[partition] -= 1
        return QueueCheck("the only run", queue.partitions, dict(queue.owners), lag)

    async def ensure(self, count: int | None) -> None:
        if self._queue.group not in (None, self._claimant.uid):
            raise QueueConflict(f"the toy queue belongs to the group {self._queue.group}: delete that one first")
        self._queue.group = self._claimant.uid
        self._queue.partitions = count or self._queue.partitions

    async def pause(self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None) -> int:
        record = self._queue.owner(partition)
        if record.epoch == epoch:
            self._queue.owners[partition] = record._replace(paused=True)
        return 0

    async def outstanding(self, partition: int) -> int:
        return 0

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        if epoch > self._queue.owner(partition).epoch:
            self._queue.owners[partition] = Ownership(uid, epoch)
        record: Ownership = self._queue.owner(partition)
        return record

    async def release(self) -> bool:
        if self._queue.group == self._claimant.uid:
            self._queue.group = None
        return True

    async def close(self) -> None:
        pass
