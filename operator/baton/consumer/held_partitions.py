"""All that a consumer holds, as its ledger says, and the queues that it has open for it."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from baton.consumer.assignment_source import Assignments
from baton.consumer.held_entry import OutcomeListener
from baton.consumer.held_partition import HeldPartition, Phase
from baton.model.ids import Partition, QueueName
from baton.model.ledger import MemberEntry, flat
from baton.queues.consumer_side import Reader
from baton.queues.protocol import QueueUnreachable


class HeldPartitions:
    """Holdings by partition; changed by the consumer's loop only."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        hearing: OutcomeListener,
        woken: Callable[[], None],
    ) -> None:
        """`woken`: called, from any thread, when there may be something to read."""
        self._by_key = False
        self._open_queue = open_queue
        self._source = source
        self._hearing = hearing
        self._woken = woken
        self._entry: MemberEntry | None = None
        self._holdings: dict[Partition, HeldPartition] = {}
        self._readers: dict[QueueName, Reader] = {}

    def __iter__(self) -> Iterator[HeldPartition]:
        return iter(list(self._holdings.values()))

    def divide(self, *, by_key: bool) -> None:
        """Whether keys are worked on beside each other, but for holdings of which something is in hand already."""
        self._by_key = by_key
        for holding in self._holdings.values():
            if not holding.sequences:
                holding.by_key = by_key

    def follow_ledger(self, last_word: Callable[[HeldPartition, Reader], object]) -> list[HeldPartition]:
        """Take up what was granted, begin to let go of what is called back, and drop what is not ours any more: the answer.
        `last_word` is called with each of these before."""
        entry = self._source.current()
        if entry is self._entry:
            return []
        self._entry = entry
        owned, revoking = (dict(flat(entry.owned)), dict(flat(entry.revoking))) if entry else ({}, {})
        told = owned | revoking
        dropped = [holding for holding in self._holdings.values() if told.get(holding.partition) != holding.epoch]
        for holding in dropped:
            reader = self._readers.get(holding.partition.queue)
            if reader is None:
                holding.phase = Phase.FENCED
                continue
            if not holding.over:
                last_word(holding, reader)
            if not holding.over:
                holding.lose(reader)
        # A grant back has a new epoch, so what was let go of at one epoch stays let go of.
        self._holdings = {
            partition: before
            if (before := self._holdings.get(partition)) is not None and before.epoch == epoch
            else HeldPartition(partition, epoch, self._hearing, self._by_key)
            for partition, epoch in told.items()
        }
        for partition in revoking:
            self._holdings[partition].let_go()
        for queue in self._readers.keys() - {partition.queue for partition in told}:
            # Not in this thread: a server that hangs must not hold the other queues up.
            threading.Thread(target=self._readers.pop(queue).close, name="baton-close", daemon=True).start()
        return dropped

    def let_go(
        self, holdings: Iterable[HeldPartition], within: float, *, give_up: bool = False
    ) -> Mapping[HeldPartition, QueueUnreachable]:
        """Nothing of these is worked on any more. Each queue hears of all of its own at once, in so many seconds for all. The
        answer: of which its queue has not taken that; they are let go of once more, unless they are given up."""
        untaken: dict[HeldPartition, QueueUnreachable] = {}
        until = time.monotonic() + within
        by_queue: dict[QueueName, list[HeldPartition]] = {}
        for holding in holdings:
            by_queue.setdefault(holding.partition.queue, []).append(holding)
        for those in by_queue.values():
            left = max(0.0, until - time.monotonic())
            epochs = {holding.partition.number: holding.epoch for holding in those}
            problems = self.reader(those[0]).let_go(epochs, left, give_up=give_up)
            for holding in those:
                problem = problems.get(holding.partition.number)
                if problem is None or give_up:
                    holding.forget(Phase.RELEASED)
                else:
                    untaken[holding] = problem
        return untaken

    def reader(self, holding: HeldPartition) -> Reader:
        queue = holding.partition.queue
        if queue not in self._readers:
            self._readers[queue] = self._open_queue(queue)
        return self._readers[queue]

    def limits(self) -> list[tuple[QueueName, Callable[[], bool]]]:
        """Of each queue that has a limit of unacknowledged entries, whether this pod is at it."""
        found = [(queue, getattr(reader, "is_full", None)) for queue, reader in self._readers.items()]
        return [(queue, is_full) for queue, is_full in found if is_full is not None]

    def wait_for_entries(self, at_rest: Callable[[HeldPartition, Reader], bool]) -> None:
        """Wait at the queues for what is at rest."""
        resting: dict[QueueName, set[int]] = {queue: set() for queue in self._readers}
        for holding in self._holdings.values():
            queue = holding.partition.queue
            if queue in resting and at_rest(holding, self._readers[queue]):
                resting[queue].add(holding.partition.number)
        for queue, partitions in resting.items():
            self._readers[queue].wait_for(frozenset(partitions), self._woken)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
