"""How an operator reaches a queue's server: with latencies, and with whatever is the matter with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from baton.model.ids import Epoch, Uid
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import Claimant, Owner, QueueCheck, QueueConflict, QueueUnreachable
from tests.simulation.seeds.queues import DOWN, FULL, HANGS, Queue

if TYPE_CHECKING:
    from tests.simulation.seeds.operators import Operator

T = TypeVar("T")


class SeedQueue:
    """A QueueAdapter of a queue whose server refuses stale owners."""

    fenced = True
    answers_within = ANSWERS_WITHIN

    def __init__(self, queue: Queue, operator: Operator, claimant: Claimant) -> None:
        self._queue = queue
        self._operator = operator
        self._claimant = claimant
        self._paused: dict[int, Epoch] = {}
        self._told: dict[int, Epoch] = {}
        """The epoch of each partition's owner, as this process was told last."""

    async def check(self) -> QueueCheck:
        return await self._ask(self._seen)

    def _seen(self) -> QueueCheck:
        queue = self._queue
        owners = {number: _owner(log.uid, log.epoch) for number, log in sorted(queue.logs.items()) if log.epoch}
        return QueueCheck(f"run-{queue.restarts}" if queue.group is not None else None, queue.partitions, owners)

    async def ensure(self, count: int | None) -> None:
        if count is None and (count := await self._ask(lambda: self._queue.partitions)) is None:
            return
        us, wanted = self._claimant, count
        group, uid = await self._ask(lambda: self._queue.claim(us.group, us.uid, us.takes_over, wanted), write=True)
        if uid != us.uid:
            raise QueueConflict(f"the queue {self._queue.name} belongs to {group} ({uid})")

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Owner | None = None
    ) -> int | Owner | None:
        self._paused[partition] = epoch
        receiver = None if then is None or then.uid is None else (then.uid, then.epoch)
        return await self._left(partition, lambda: self._queue.pause(partition, epoch, receiver), write=True)

    async def outstanding(self, partition: int) -> int | Owner | None:
        return await self._left(partition, lambda: self._queue.outstanding(partition))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        def granted() -> Owner:
            return self._handed_over(partition) or _owner(*self._queue.grant(partition, uid, epoch))

        owner = await self._ask(granted, write=True)
        self._told[partition] = owner.epoch
        return owner

    async def release(self) -> bool:
        await self._ask(lambda: self._queue.release(self._claimant.uid), write=True)
        return True

    async def close(self) -> None:
        pass

    async def _left(self, partition: int, ask: Callable[[], int], write: bool = False) -> int | Owner:
        def answered() -> int | Owner:
            left = ask()
            return self._handed_over(partition) or left

        answer = await self._ask(answered, write)
        if isinstance(answer, Owner):
            self._told[partition] = answer.epoch
        return answer

    def _handed_over(self, partition: int) -> Owner | None:
        """To this owner, and the operator has not been told: as baton/queues/kafka/pauses.py."""
        log = self._queue.log(partition)
        paused = self._paused.get(partition)
        handed_over = log.handed_over if paused is None else log.epoch > paused
        news = self._queue.direct and log.uid is not None and handed_over and self._told.get(partition) != log.epoch
        return _owner(log.uid, log.epoch) if news else None

    async def _ask(self, do: Callable[[], T], write: bool = False) -> T:
        """`write`: a full server refuses it."""

        def carried_out() -> T:
            queue = self._queue
            if queue.state == DOWN or (queue.state == FULL and write):
                raise QueueUnreachable(f"the server of {queue.name} is {queue.state}; start it, or make room")
            return do()

        return await self._operator.connection.carry(0.002, carried_out, lambda: self._queue.state == HANGS)


def _owner(uid: str | None, epoch: int) -> Owner:
    return Owner(None if uid is None else Uid(uid), Epoch(epoch))
