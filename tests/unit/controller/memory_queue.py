"""A queue in memory with owners, epochs and outstanding messages. A test can make it fail, slow or hang."""

import asyncio

from baton.model.ids import Epoch, Uid
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import Ownership, PartitionUnavailable, QueueCheck, QueueConflict, QueueUnreachable, Resizing

NEVER = 1e9
"""Seconds."""


class MemoryQueue:
    fenced = True
    answers_within = ANSWERS_WITHIN

    def __init__(self, partitions: int | None = None) -> None:
        self.count = partitions
        self.records: dict[int, Ownership] = {}
        self.left: dict[int, int] = {}
        self.run: str | None = "run-1"
        self.lag = {0: 5}
        self.finished = 7
        self.down = False
        self.conflict: str | None = None
        self.calls: list[str] = []
        self.released = False
        self.risks: tuple[str, ...] = ()
        self.hangs = False
        self.takes: dict[str, float] = {}
        """Seconds that a method takes, by its name."""
        self.refuses: frozenset[str] = frozenset()
        """Methods."""
        self.loses: frozenset[str] = frozenset()
        """Methods that take effect, but whose answers are lost."""
        self.owners_say: dict[int, Ownership] = {}
        """Owners of partitions after direct hand-offs."""
        self.unavailable: dict[int, str] = {}
        """Why these partitions cannot be granted."""
        self.fails: Exception | None = None
        self.steps: list[Resizing] = []
        """The answers to `ensure` in turn; the last one is repeated. Without any, the number of partitions changes at once."""
        """The number of partitions that was asked for last."""

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        seconds = NEVER if self.hangs else self.takes.get(name, 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        if self.fails is not None:
            raise self.fails
        if self.down or name in self.refuses:
            raise QueueUnreachable("the queue is down; start it")

    async def check(self) -> QueueCheck:
        await self._called("check")
        return QueueCheck(self.run, self.count, dict(self.records), dict(self.lag), self.finished, {0: 2}, {0: 1}, self.risks)

    async def ensure(self, count: int | None) -> Resizing | None:
        await self._called("ensure")
        if self.conflict is not None:
            raise QueueConflict(self.conflict)
        if self.steps:
            return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        self.count = count if count is not None else self.count
        return None

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership | None:
        await self._called("pause")
        return self.owners_say.get(partition, self.left.get(partition, 0))

    async def outstanding(self, partition: int) -> int | Ownership | None:
        await self._called("outstanding")
        return self.owners_say.get(partition, self.left.get(partition, 0))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        await self._called("grant")
        if partition in self.unavailable:
            raise PartitionUnavailable(self.unavailable[partition])
        record = self.records.get(partition, Ownership(None, Epoch(0)))
        if epoch > record.epoch:
            self.records[partition] = record = Ownership(uid, epoch)
        if "grant" in self.loses:
            raise QueueUnreachable("the connection was lost; connect again")
        return record

    async def release(self) -> bool:
        await self._called("release")
        self.released = True
        return True

    async def close(self) -> None:
        self.calls.append("close")
