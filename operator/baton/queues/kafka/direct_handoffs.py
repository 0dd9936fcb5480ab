"""Hand-offs from pod to pod: the owner that releases a partition grants it to the receiver in its last commit.

Before the operator asks for the pause, it has written the next owner and epoch into the ledger, so nothing is left to decide when
the owner releases the partition. The operator's look and grant and the receiver's mark would be nine more requests, one after the
other, while no pod works on the partition. The operator treats the receiver's record as its own grant. It grants itself if the
owner does not: at the deadline, if entries are unfinished or to be marked, if the record has to tell something new, or if
the owner does not know the next one, or has less than a second.

The receiver may begin at once. The record says that the partition may have been read (`BY_GIVER`), so the receiver need not write
its mark first, provided it knows that no earlier process of its pod has begun: this process has seen the partition at a lower
epoch.
"""

import threading
import time
from typing import NamedTuple

from baton.model.ids import Epoch, Partition
from baton.queues.kafka.record import Committed
from baton.queues.protocol import Ownership

_MOMENT = 1.0
"""Seconds. An owner that is not in a long handler releases the partition within a third of that."""


class HandedOver(NamedTuple):
    """A partition that was handed over to this pod, as the pod has seen it."""

    topic: str
    committed: Committed
    asked_at: float
    """When that was requested (monotonic)."""


class DirectHandoffs:
    """News of hand-offs from a pod's announcements to its readers. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lowest: dict[Partition, Epoch] = {}
        """The lowest epoch at which this process has seen each partition."""
        self._begun: dict[Partition, Epoch] = {}
        """The epoch under which this process began to read each partition."""
        self._next: dict[Partition, tuple[Epoch, Ownership, float]] = {}
        """The epoch of each partition's present owner, the next owner, and when that was announced (monotonic)."""
        self._handed_over: dict[Partition, HandedOver] = {}

    def saw(self, partition: Partition, epoch: Epoch) -> None:
        """Note that the partition's record has this epoch."""
        with self._lock:
            self._lowest[partition] = min(epoch, self._lowest.get(partition, epoch))

    def is_new(self, partition: Partition, epoch: Epoch) -> bool:
        """Whether it was granted under this epoch since this process began, and no process of the pod has read it under that
        epoch."""
        with self._lock:
            return self._lowest.get(partition, epoch) < epoch and self._begun.get(partition, 0) < epoch

    def begins(self, partition: Partition, epoch: Epoch) -> None:
        with self._lock:
            self._begun[partition] = epoch
            self._handed_over.pop(partition, None)

    def set_next_owner(self, partition: Partition, epoch: Epoch, then: Ownership | None) -> None:
        """The owner at this epoch is to hand the partition to `then`; None: the next owner is unknown, and the operator grants
        it."""
        with self._lock:
            if then is None:
                self._next.pop(partition, None)
            else:
                self._next[partition] = epoch, then, time.monotonic()

    def next_owner(self, partition: Partition, epoch: Epoch) -> Ownership | None:
        with self._lock:
            under, then, _ = self._next.get(partition, (None, None, 0.0))
            return then if under == epoch else None

    def is_about_to_release(self, partition: Partition, epoch: Epoch) -> bool:
        """Whether the owner at this epoch has just learned who is next, and releases the partition in a moment."""
        with self._lock:
            under, _, heard_at = self._next.get(partition, (None, None, 0.0))
            return under == epoch and time.monotonic() - heard_at < _MOMENT

    def handed_over(self, partition: Partition, seen: HandedOver) -> None:
        """Note that its owner handed the partition over to this pod."""
        record = seen.committed.record
        with self._lock:
            if record is not None and self.is_new(partition, record.epoch):
                self._handed_over[partition] = seen

    def take(self, partition: Partition, epoch: Epoch) -> HandedOver | None:
        """Return what was seen of the partition, if it was handed to this pod under this epoch and no process of the pod has read
        it. Only the first call returns it."""
        with self._lock:
            seen = self._handed_over.pop(partition, None)
            record = seen.committed.record if seen is not None else None
            if record is None or record.epoch != epoch or not self.is_new(partition, epoch):
                return None
            self._begun[partition] = epoch
            return seen
