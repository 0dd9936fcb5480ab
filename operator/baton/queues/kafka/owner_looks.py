"""An owner's looks at the owner records: whether it still has its partitions, and what says nothing of that."""

import time
from collections.abc import Mapping, Set

from baton.model.ids import QueueName
from baton.queues.consumer_side import SURE_FOR
from baton.queues.fence import StaleOwner
from baton.queues.kafka.client import ASKED_WITHIN
from baton.queues.kafka.group_offsets import GroupOffsets
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.reading_process import ReadingProcess
from baton.queues.kafka.record import Committed
from baton.queues.kafka.transaction import ENDS_WITHIN
from baton.queues.protocol import PartitionUnavailable


class OwnerLooks:
    """Of one queue, for this process of its pod. Methods raise StaleOwner where a partition is somebody else's, and
    QueueUnreachable. Any thread may call."""

    def __init__(
        self, offsets: GroupOffsets, queue: QueueName, process: ReadingProcess, positions: Mapping[int, ReadPosition]
    ) -> None:
        """`positions`: of the partitions that are read; it follows them as they change."""
        self._offsets = offsets
        self._queue = queue
        self._process = process
        self._positions = positions

    def refuse_lost(self, partition: int, position: ReadPosition) -> None:
        """Raises StaleOwner where it is known to be somebody else's."""
        if position.lost is not None:
            raise StaleOwner(partition, self._process.uid, position.epoch, position.lost, other_process=position.other_process)

    def be_sure(self, partition: int, position: ReadPosition) -> None:
        """Look where that was not done for a while: a commit is a look, too."""
        if time.monotonic() - position.sure_at > SURE_FOR:
            self.look(partition, position)

    def look(self, partition: int, position: ReadPosition) -> None:
        """At all owner records at once; of commits that are under way only this partition's is waited for: others are read, and
        committed, meanwhile."""
        asked_at, before = time.monotonic(), position.record
        unproven, pending = self._look_at({**self._positions, partition: position}, asked_at)
        proven = partition not in unproven
        if partition not in pending:
            position.unsettled = False
        else:
            proven = self._process.see(position, self._stable(partition, position).record, asked_at, before)
        self.refuse(partition, position, proven=proven)

    def look_at_all(self) -> None:
        """At the records of all that are read: whoever reads them need not, for a while. Raises QueueUnreachable only, also where
        that takes longer than such a look is good for."""
        if held := {**self._positions}:  # another thread may let go of some meanwhile
            self._look_at(held, time.monotonic(), SURE_FOR)

    def refuse(self, partition: int, position: ReadPosition, *, proven: bool) -> None:
        """Raises StaleOwner where it was seen to be somebody else's, PartitionUnavailable where that is not `proven`: what was
        seen is from before the grant."""
        self.refuse_lost(partition, position)
        if not proven:
            raise self.before_the_grant(partition)

    def before_the_grant(self, partition: int) -> PartitionUnavailable:
        return PartitionUnavailable(
            f"{self._offsets.place} answers for {self._queue}/{partition} with an owner from before it was granted to this pod: "
            "the broker that keeps the group's place is behind: wait until it has caught up, or the operator has granted it again"
        )

    def _look_at(
        self, held: Mapping[int, ReadPosition], asked_at: float, within: float = ASKED_WITHIN
    ) -> tuple[Set[int], tuple[int, ...]]:
        """The answer: of which what was seen says nothing, and of which a commit is under way."""
        before = {number: one.record for number, one in held.items()}
        found, pending = self._offsets.now(tuple(held), within)
        unproven = {
            number for number, seen in found.items() if not self._process.see(held[number], seen.record, asked_at, before[number])
        }
        return unproven, pending

    def _stable(self, partition: int, position: ReadPosition) -> Committed:
        """What is committed, after a commit that is under way: once that did not end, it is not waited for any more."""
        try:
            seen = self._offsets.stable(partition, 0.0 if position.unsettled else ENDS_WITHIN)
        except PartitionUnavailable:
            if position.in_doubt:  # it is this process' own
                raise PartitionUnavailable(
                    f"{self._offsets.place} is slow: a commit of {self._queue}/{partition} has not ended yet: see to its brokers"
                ) from None
            position.unsettled = True
            raise
        position.unsettled = False
        return seen
