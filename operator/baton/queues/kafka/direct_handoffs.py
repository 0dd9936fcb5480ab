"""Hand-offs from pod to pod: the owner that lets go grants the partition to its receiver itself, in its last commit.

The operator has written into the ledger who is to have the partition and under which epoch before it asks for the pause, so
nothing is left for it to decide when the owner lets go. Its look, its grant and the receiver's mark would be nine requests more,
one after the other, while no pod works on the partition. It treats the receiver's record as a grant that it made, and
grants itself where the owner does not: at the deadline, where something is left or is to be marked, where the record has to say
something new, or where the owner has not heard who is next, or has less than a second for it.

The receiver may begin at once. The record says that the partition may have been read (`BY_GIVER`), so the receiver need not write
its mark first, if it knows that no earlier process of its pod has begun: this process has seen the partition at a lower epoch.
"""

import threading
import time
from typing import NamedTuple

from baton.model.ids import Epoch, Partition
from baton.queues.kafka.record import Committed
from baton.queues.protocol import Ownership

_MOMENT = 1.0
"""Seconds. An owner that is not in a handler for long lets go within a third of it."""


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
        self._lowest: dict[Partition, Epoch] = {}
        """The lowest epoch at which this process has seen each partition,"""
        self._begun: dict[Partition, Epoch] = {}
        """and the one under which it has begun to read it."""
        self._next: dict[Partition, tuple[Epoch, Ownership, float]] = {}
        """The next owner of each partition, after the owner at this epoch, and when that was heard (monotonic)."""
        self._handed_over: dict[Partition, HandedOver] = {}

    def saw(self, partition: Partition, epoch: Epoch) -> None:
        """Its record has this epoch now."""
        with self._lock:
            self._lowest[partition] = min(epoch, self._lowest.get(partition, epoch))

    def is_new(self, partition: Partition, epoch: Epoch) -> bool:
        """It was granted under this epoch since this process began, and no process of the pod has read it under that epoch."""
        with self._lock:
            return self._is_new(partition, epoch)

    def begins(self, partition: Partition, epoch: Epoch) -> None:
        """It is read under this epoch."""
        with self._lock:
            self._begun[partition] = epoch
            self._handed_over.pop(partition, None)

    def set_next_owner(self, partition: Partition, epoch: Epoch, then: Ownership | None) -> None:
        """The owner at this epoch is to hand it to `then`; None: the next owner is unknown, and the operator grants it."""
        with self._lock:
            if then is None:
                self._next.pop(partition, None)
            else:
                self._next[partition] = epoch, then, time.monotonic()

    def next_owner(self, partition: Partition, epoch: Epoch) -> Ownership | None:
        """Who is to have it after the owner at this epoch."""
        with self._lock:
            under, then, _ = self._next.get(partition, (None, None, 0.0))
            return then if under == epoch else None

    def is_about_to_let_go(self, partition: Partition, epoch: Epoch) -> bool:
        """Its owner at this epoch has just heard who is next, and will let go in a moment."""
        with self._lock:
            under, _, heard_at = self._next.get(partition, (None, None, 0.0))
            return under == epoch and time.monotonic() - heard_at < _MOMENT

    def handed_over(self, partition: Partition, seen: HandedOver) -> None:
        """It is this pod's now, by its owner's word."""
        record = seen.committed.record
        with self._lock:
            if record is not None and self._is_new(partition, record.epoch):
                self._handed_over[partition] = seen

    def take(self, partition: Partition, epoch: Epoch) -> HandedOver | None:
        """What was seen of the partition if it was handed to this pod under this epoch and no process of the pod has read it.
        Returned once, to the first reader."""
        with self._lock:
            seen = self._handed_over.pop(partition, None)
            record = seen.committed.record if seen is not None else None
            if record is None or record.epoch != epoch or not self._is_new(partition, epoch):
                return None
            self._begun[partition] = epoch
            return seen

    def _is_new(self, partition: Partition, epoch: Epoch) -> bool:
        return self._lowest.get(partition, epoch) < epoch and self._begun.get(partition, 0) < epoch
