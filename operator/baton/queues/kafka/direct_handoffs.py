"""Hand-offs from pod to pod: the owner that lets go grants the partition to its receiver itself, in its last commit.

The operator has written into the ledger who is to have the partition and under which epoch before it asks for the pause, so
nothing is left for it to decide when the owner lets go. A grant of its own would be seven requests more, one after the other,
while nobody works on the partition. It sees the record of the receiver as one that it has granted, and grants itself where the
owner does not: at the deadline, where something is left or is to be marked, or where the owner has not heard who is next.

The receiver may begin at once. The record says that somebody may have read (`BY_GIVER`), so the receiver need not write
its mark first, if it knows that no earlier process of its pod has begun: the partition had a lower epoch when this process began.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from baton.model.ids import Epoch, Partition
from baton.queues.kafka.record import Committed
from baton.queues.protocol import Owner


class HandedOver(NamedTuple):
    """What a pod has seen of a partition that was handed over to it."""

    topic: str
    committed: Committed
    asked_at: float
    """When that was asked for (monotonic)."""


class DirectHandoffs:
    """What a pod's announcements tell its readers. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun_with: Mapping[Partition, Epoch] | None = None
        """The epochs of all partitions of the group, as this process has seen them first; None: it has not yet."""
        self._next: dict[Partition, tuple[Epoch, Owner]] = {}
        self._handed_over: dict[Partition, HandedOver] = {}

    @property
    def begun(self) -> bool:
        return self._begun_with is not None

    def begin(self, epochs: Mapping[Partition, Epoch]) -> None:
        """All partitions of the group that have an epoch; once, before anything else is asked of any."""
        self._begun_with = epochs

    def is_new(self, partition: Partition, epoch: Epoch) -> bool:
        """It was granted under this epoch since this process began: no earlier one of the pod has read it under that."""
        return self._begun_with is not None and epoch > self._begun_with.get(partition, 0)

    def set_next_owner(self, partition: Partition, epoch: Epoch, then: Owner | None) -> None:
        """The owner at this epoch is to hand it to `then`; None: to nobody that is known, and the operator grants it."""
        with self._lock:
            if then is None:
                self._next.pop(partition, None)
            else:
                self._next[partition] = epoch, then

    def next_owner(self, partition: Partition, epoch: Epoch) -> Owner | None:
        """Who is to have it after the owner at this epoch."""
        with self._lock:
            under, then = self._next.get(partition, (None, None))
            return then if under == epoch else None

    def handed_over(self, partition: Partition, seen: HandedOver) -> None:
        """It is this pod's now, by its owner's word."""
        with self._lock:
            self._handed_over[partition] = seen

    def take(self, partition: Partition, epoch: Epoch) -> HandedOver | None:
        """What was seen of it, if it was handed to this pod under this epoch since this process began: once."""
        with self._lock:
            seen = self._handed_over.pop(partition, None)
        record = seen.committed.record if seen is not None else None
        return seen if record is not None and record.epoch == epoch and self.is_new(partition, epoch) else None
