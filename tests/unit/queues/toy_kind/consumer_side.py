"""Toy queues, for a pod of one group."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from baton.queues.toy.server import SERVERS

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable
from baton.queues.waiting_thread import WaitingThread


class ToyReader:
    """`Reader` (baton.queues.consumer_side) of a toy queue."""

    def __init__(self, server: str, name: str, uid: Uid) -> None:
        self._queue, self._name, self._uid = SERVERS[server][name], QueueName(name.partition("/")[2]), uid
        self._read: dict[tuple[int, Epoch], int] = {}
        """How far each partition was read under an epoch."""
        self._asked_at: dict[int, float] = {}
        self._interrupt = threading.Event()
        self._waiting: WaitingThread | None = None

    def read(self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = 0, new: bool = True) -> list[Entry]:
        self.verify(partition, epoch)
        if self._queue.owner(partition).paused:
            raise PartitionPaused(partition)
        begin = self._read.get((partition, epoch), 0)
        found = self._queue.values[partition][begin : begin + count]
        self._read[partition, epoch] = begin + len(found)
        return [
            Entry(self._name, partition, str(place), b"", value, 0, epoch, redelivered=False)
            for place, value in enumerate(found, begin)
            if (partition, place) not in self._queue.done
        ]

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self.verify(partition, epoch)
        self._queue.done |= {(partition, int(offset)) for offset in offsets}

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        self._read[partition, epoch] = int(offset)
        return True

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        self.ack(partition, epoch, [offset])

    def release(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        for partition, epoch in partitions.items():
            self._read.pop((partition, epoch), None)
        return {}

    def sure_at(self, partition: int) -> float:
        return self._asked_at[partition]

    def verify(self, partition: int, epoch: Epoch) -> None:
        self._asked_at[partition] = time.monotonic()
        record = self._queue.owner(partition)
        if (record.uid, record.epoch) != (self._uid, epoch):
            raise StaleOwner(partition, self._uid, epoch, record)

    def ready(self, partition: int, epoch: Epoch) -> bool:
        return self._read.get((partition, epoch), 0) < len(self._queue.values[partition])

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        if self._waiting is None:
            self._waiting = WaitingThread(self._wait, self._interrupt.set, woken)
        self._waiting.wait_for(partitions)

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()

    def _wait(self, partitions: Sequence[int], timeout: float) -> None:
        self._interrupt.wait(timeout)
        self._interrupt.clear()


class ToyConsumerSide:
    """`ConsumerSide` of Toy. Its queues announce nothing."""

    def __init__(self, server: str, group: str, uid: Uid) -> None:
        self._server, self._namespace, self._uid = server, group.partition("/")[0], uid

    def reader(self, queue: QueueName) -> ToyReader:
        return ToyReader(self._server, f"{self._namespace}/{queue}", self._uid)

    def announcements(self) -> None:
        return None
