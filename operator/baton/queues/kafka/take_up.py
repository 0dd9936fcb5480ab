"""Takes up partitions while others are read: their owner records get the mark of this process in the background."""

import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping

from baton.model.ids import Epoch
from baton.queues.fence import StaleOwner
from baton.queues.kafka.commits import OwnerCommits
from baton.queues.kafka.event_loop import LoopUser
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

Found = ReadPosition | Exception
"""A position to read from, or the error that prevented it."""


class TakingUp:
    """Runs a task in an event loop while there are partitions to take up; any thread may call. Each call names the partition's
    epoch; a position under another epoch is dropped."""

    def __init__(
        self,
        loop: LoopUser,
        commits: OwnerCommits,
        fetching: Callable[[], Fetcher],
        end: Callable[[int], object],
        told: Callable[[], object],
    ) -> None:
        """`fetching` returns the present fetcher of the queue's topic. `end` is called with a partition that was taken up and is
        no longer needed, `told` when `take` has something to return."""
        self._loop = loop
        self._commits, self._fetching, self._end, self._told = commits, fetching, end, told
        self._changed = threading.Condition()
        self._wanted: dict[int, Epoch] = {}
        self._under_way: dict[int, Epoch] = {}
        self._found: dict[int, tuple[Epoch, Found]] = {}
        self._begun_at: dict[int, float] = {}
        """When each partition was last tried (monotonic). One that failed goes behind the others the next time."""
        self._runs = False
        self._closed = False

    def ready(self, partition: int, epoch: Epoch) -> bool:
        """Whether `take` would return at once. If not, start taking the partition up."""
        with self._changed:
            return self._is_found(partition, epoch)

    def take(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Wait for a partition and return its position. Raises the error that prevented it; the next call tries again."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._is_found(partition, epoch))
            if self._closed:
                raise QueueUnreachable("the connection is closed")
            _, found = self._found.pop(partition)
            if isinstance(found, QueueUnreachable) and not isinstance(found, PartitionUnavailable):
                # The outage may be over when the other partitions are taken: drop its copies.
                self._found = {n: one for n, one in self._found.items() if not isinstance(one[1], QueueUnreachable)}
        if isinstance(found, Exception):
            raise found
        return found

    def under_way(self, partition: int) -> bool:
        """Whether the partition is being taken up; `told` is called when that is over."""
        with self._changed:
            return partition in self._wanted or partition in self._under_way

    def withdraw(
        self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False
    ) -> tuple[dict[int, ReadPosition], set[int]]:
        """Withdraw these partitions. Return those that were taken up, and those still being taken up after `within` seconds,
        which have to be withdrawn again, unless `give_up`."""

        def over() -> bool:
            return self._closed or all(self._under_way.get(number) != epoch for number, epoch in partitions.items())

        taken_up: dict[int, ReadPosition] = {}
        under_way: set[int] = set()
        with self._changed:
            for number, epoch in partitions.items():
                if self._wanted.get(number) == epoch:
                    del self._wanted[number]
            self._changed.wait_for(over, within)
            for number, epoch in partitions.items():
                if self._under_way.get(number) == epoch:
                    under_way.add(number)
                    if give_up:
                        del self._under_way[number]
                found = self._found.get(number)
                if found is not None and found[0] == epoch:
                    del self._found[number]
                    if isinstance(found[1], ReadPosition):
                        taken_up[number] = found[1]
        return taken_up, under_way

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_found(self, partition: int, epoch: Epoch) -> bool:
        if self._found.get(partition, (None,))[0] == epoch:
            return True
        if epoch not in (self._wanted.get(partition), self._under_way.get(partition)):
            self._wanted[partition] = epoch
            if not self._runs:
                self._runs = True
                self._loop.begin(self._run())
        return False

    async def _run(self) -> None:
        while True:
            with self._changed:
                self._under_way, self._wanted = self._wanted, {}
                partitions = dict(self._under_way)
                if not partitions or self._closed:
                    self._runs = False
                    return
            async for found in self.take_up(partitions):
                self._are_over(found, partitions)

    def _are_over(self, answer: Mapping[int, Found], partitions: Mapping[int, Epoch]) -> None:
        with self._changed:
            wanted = {number for number in answer if self._under_way.pop(number, None) == partitions[number]}
            self._found |= {number: (partitions[number], answer[number]) for number in wanted}
            self._changed.notify_all()
        if wanted:
            self._told()
        for number in answer.keys() - wanted:
            if isinstance(answer[number], ReadPosition):
                self._end(number)

    # -- the order of taking up; each partition is fetched from its committed offset

    async def take_up(self, partitions: Mapping[int, Epoch]) -> AsyncIterator[Mapping[int, Found]]:
        """Take up first the partitions that were handed over, then, together, those that no process has read since their grant,
        then the others. Each partition is in one of the answers."""
        left = dict(partitions)
        try:
            for begin in (self._begin_handed_over, self._begin_together):
                if left:
                    begun = await begin(left)
                    yield begun
                    left = {partition: epoch for partition, epoch in left.items() if partition not in begun}
            turns = sorted(left, key=lambda partition: (self._begun_at.get(partition, 0.0), partition))
            left = {partition: partitions[partition] for partition in turns}
            while left:
                partition, epoch = next(iter(left.items()))
                self._begun_at[partition] = time.monotonic()
                yield {partition: await self._begin(partition, epoch)}
                del left[partition]
        except Exception as problem:
            yield dict.fromkeys(left, problem)

    async def _begin_handed_over(self, partitions: Mapping[int, Epoch]) -> Mapping[int, ReadPosition]:
        begun = self._commits.take_handed_over(partitions)
        if begun:
            self._fetching().begin({partition: position.committed for partition, position in begun.items()})
        return begun

    async def _begin_together(self, partitions: Mapping[int, Epoch]) -> Mapping[int, ReadPosition]:
        """Begin to fetch these while their records get the mark of this process."""
        found = await self._commits.newly_granted(partitions)
        fetcher = self._fetching()
        fetcher.begin({partition: seen.offset for partition, seen in found.items()})
        begun: Mapping[int, ReadPosition] = {}
        try:
            begun = await self._commits.take_up(found)
        finally:
            for partition in found.keys() - begun.keys():
                fetcher.end(partition)
        return begun

    async def _begin(self, partition: int, epoch: Epoch) -> ReadPosition | StaleOwner | PartitionUnavailable:
        try:
            position = await self._commits.begin(partition, epoch)
        except (StaleOwner, PartitionUnavailable) as refusal:
            return refusal
        self._fetching().begin({partition: position.committed})
        return position
