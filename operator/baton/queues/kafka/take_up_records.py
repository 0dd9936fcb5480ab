"""How a process takes partitions up: the owner records get its mark before it hands anything out, or, where they say that its
pod may have read already (`direct_handoffs`), with its first commit."""

import time
from collections.abc import Mapping
from dataclasses import replace

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.group_offsets import Commit, GroupOffsets
from baton.queues.kafka.partition_locks import PartitionLocks
from baton.queues.kafka.read_position import ReadPosition, taken_up
from baton.queues.kafka.record import BY_GIVER, Committed, Record, names
from baton.queues.kafka.transaction import GRANTED_WITHIN
from baton.queues.protocol import PartitionUnavailable

TRIES = 5
"""One after the other, before that others take tokens meanwhile is somebody's trouble."""


class TakeUpRecords:
    """Of one queue, for the pod with this UID. Methods raise QueueUnreachable. Any thread may call."""

    def __init__(
        self,
        offsets: GroupOffsets,
        queue: QueueName,
        uid: Uid,
        process: str,
        locks: PartitionLocks,
        handoffs: DirectHandoffs,
    ) -> None:
        """`process`: its mark. `locks`: are held while a partition's record is asked for and committed."""
        self._offsets = offsets
        self._queue = queue
        self._uid = uid
        self._process = process
        self._handoffs = handoffs
        self._locks = locks
        self._marking: dict[int, Epoch] = {}
        """Of which the broker was told of this process, under this epoch, and has not said that it heard: nothing of them was
        handed out, so they have no try more where it is told again."""

    def handed_over(self, partitions: Mapping[int, Epoch]) -> dict[int, ReadPosition]:
        """Those of these that the owner before has handed over to this pod, as its announcements have seen: nothing is asked,
        and nothing marked yet."""
        found: dict[int, ReadPosition] = {}
        for number, epoch in partitions.items():
            seen = self._handoffs.take(Partition(self._queue, number), epoch)
            if seen is None or not self._offsets.begin_with(seen.topic):
                continue
            record = seen.committed.record
            if record is not None and (record.queue, record.uid, record.reader) == (self._queue, self._uid, BY_GIVER):
                found[number] = ReadPosition.begun(seen.committed, seen.asked_at)
        return found

    def granted(self, partitions: Mapping[int, Epoch]) -> dict[int, Committed]:
        """Those of these that are this pod's at these epochs, and that nobody has read yet."""
        found, _ = self._offsets.now(tuple(partitions))
        return {number: seen for number, seen in found.items() if _is_new(seen.record, self._uid, partitions[number])}

    def together(self, found: Mapping[int, Committed]) -> dict[int, ReadPosition]:
        """What `granted` has found: the records get the mark of this process, before it hands anything out. Without those of
        which that was refused: see `OwnerCommits.begin`."""
        now = time.monotonic()
        marked = {
            number: seen._replace(record=taken_up(seen.record, seen.offset, 0, self._process))
            for number, seen in found.items()
            if seen.record is not None
        }
        wanted = {number: Commit(at, record, seen=found[number]) for number, (at, record) in marked.items() if record is not None}
        self._marking |= {number: one.record.epoch for number, one in wanted.items()}
        refused = self._offsets.commit_several(wanted)  # nobody else commits these meanwhile
        for number in wanted.keys() - refused.keys():
            del self._marking[number]
        return {number: ReadPosition.begun(seen, now) for number, seen in marked.items() if number not in refused}

    def one(self, partition: int, epoch: Epoch) -> Committed:
        """What is committed, with this process in the record if it is the pod's; also where others take tokens at the same time,
        or have taken one and gone."""
        for tries in range(TRIES):
            try:
                seen = self._taken_up(partition, epoch, trusting=not tries)
            except StaleToken:
                time.sleep(GRANTED_WITHIN / TRIES)
                continue
            if names(seen.record, self._uid, epoch):
                self._marking.pop(partition, None)
                self._handoffs.begins(Partition(self._queue, partition), epoch)
            return seen
        raise granted_on(self._offsets, self._queue, partition)

    def _taken_up(self, partition: int, epoch: Epoch, *, trusting: bool) -> Committed:
        """`trusting`: under the record's token, if nobody has read yet. Raises StaleToken."""
        with self._locks.held([partition]):
            found, _ = self._offsets.now((partition,))
            seen = found.get(partition)
            if seen is not None and not names(seen.record, self._uid, epoch):
                return seen
            if trusting and seen is not None and seen.record is not None and _is_new(seen.record, self._uid, epoch):
                record = taken_up(seen.record, seen.offset, 0, self._process)
                self._marking[partition] = epoch
                self._offsets.commit(partition, Commit(seen.offset, record, seen=seen))
                return seen._replace(record=record)

            def change(seen: Committed, end: int) -> Record | None:
                if seen.record is None or not names(seen.record, self._uid, epoch):
                    return None
                if seen.record.reader == BY_GIVER and self._handoffs.is_new(Partition(self._queue, partition), epoch):
                    self._marking[partition] = epoch
                    return replace(seen.record, reader=self._process, released=False)
                if seen.record.reader != self._process:
                    self._marking[partition] = epoch
                elif self._marking.get(partition) == epoch:
                    return seen.record
                return taken_up(seen.record, seen.offset, end, self._process)

            return self._offsets.renewed(partition, change)


def granted_on(offsets: GroupOffsets, queue: QueueName, partition: int) -> PartitionUnavailable:
    """Others take its tokens without an end."""
    return PartitionUnavailable(
        f"{offsets.place}: {queue}/{partition} is granted again and again: see that only one operator does"
    )


def _is_new(record: Record | None, uid: Uid, epoch: Epoch) -> bool:
    """It is this owner's, and nobody has read the partition since."""
    return record is not None and names(record, uid, epoch) and not (record.reader or record.query)
