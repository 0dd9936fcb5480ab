"""A pod's partitions as its queues say, before its ledger does.

The owner record at the queue is the truth, and the mounted ledger tells it when the kubelet has come by: a second later, or a
minute. So the pod is woken by the queue, asks who owns what it is told of, and goes by that until its ledger is as new
(`unconfirmed_records`).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from baton.consumer.assignment_source import Assignments
from baton.consumer.handler import in_event_loop
from baton.consumer.unconfirmed_records import Records, merged, remembered, unconfirmed
from baton.model.ids import Epoch, MemberId, Partition, Uid
from baton.model.ledger import MemberEntry
from baton.queues.consumer_side import Announcements
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

LOOK_AGAIN = 4.0
"""Seconds after which the queue is asked again about what the ledger has not confirmed: it may be newer, and have skipped it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class AnnouncedAssignments:
    """The ledger of a pod, and what its queues say beyond it. `Assignments` for a consumer."""

    def __init__(self, ledger: Assignments, announcements: Announcements, group: str, member: MemberId, uid: Uid) -> None:
        """`group` is namespace/name."""
        self._ledger = ledger
        self._announcements = announcements
        self._nothing = MemberEntry(group, member, uid, 0, False)
        self._uid = uid
        self._lock = threading.Lock()
        self._heard: Records = {}
        """Of each partition that was announced, what the queue said last, until a ledger that is as new names it: an older one
        may come before that."""
        self._records: Records = {}
        """Those of which the ledger does not know yet."""
        self._told: MemberEntry | None = None
        self._entry: MemberEntry | None = None
        self._ends: dict[Partition, tuple[Epoch, float | None]] = {}
        """When the queue lets a partition of this epoch be taken away (monotonic), as far as it has said."""
        self._silent_at = float("-inf")
        """When it was asked for that last, and did not answer (monotonic)."""
        self._asking = threading.Lock()
        """By who asks for it."""
        self._closed = threading.Event()

    def current(self) -> MemberEntry | None:
        told = self._ledger.current()
        with self._lock:
            if told is not self._told:
                self._told = told
                self._know(self._heard)
            return self._entry

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Seconds until a partition that is called back is taken away, counted from when the pod first heard of it; None: the
        queue does not say. It is asked, once, where it has not been heard; where it did not answer, again after a while. An
        event loop does not wait for that: None, until it is known."""
        if not self._knows(partition, epoch):
            if not in_event_loop():
                self._ask(partition, epoch)
            elif not self._asking.locked():
                threading.Thread(target=self._ask, args=(partition, epoch), name="baton-time-left", daemon=True).start()
        told, end = self._ends.get(partition, (0, None))
        return None if end is None or told != epoch else max(0.0, end - time.monotonic())

    def _knows(self, partition: Partition, epoch: Epoch) -> bool:
        """The queue has been heard, or asked; or it did not answer a while ago."""
        return self._ends.get(partition, (0, None))[0] >= epoch or time.monotonic() - self._silent_at < LOOK_AGAIN

    def _ask(self, partition: Partition, epoch: Epoch) -> None:
        with self._asking:
            if self._knows(partition, epoch):
                return
            try:
                self._hear_ends(self._announcements.look([partition]))
            except QueueUnreachable:
                self._silent_at = time.monotonic()
                return
            with self._lock:
                if self._ends.get(partition, (0, None))[0] < epoch:
                    self._ends[partition] = (epoch, None)

    def watch(self, changed: Callable[[], None]) -> None:
        self._ledger.watch(changed)
        threading.Thread(target=self._listen, args=(changed,), name="baton-announcements", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._ledger.close()
        # A server that hangs must not use up the pod's grace period.
        threading.Thread(target=self._close, name="baton-interrupt", daemon=True).start()

    def _close(self) -> None:
        try:
            self._announcements.interrupt()
        finally:
            self._announcements.close()

    def _listen(self, changed: Callable[[], None]) -> None:
        failures, told = 0, ""
        while not self._closed.is_set():
            try:
                if self._hear():
                    changed()
                failures, told = 0, ""
            except Exception as problem:
                if self._closed.is_set():  # the connection was closed under it
                    return
                failures += 1
                if type(problem).__name__ != told:
                    unknown = not isinstance(problem, QueueUnreachable)
                    log.warning("Hand-offs wait for the ledger, for nothing is heard of them: %s", problem, exc_info=unknown)
                told = type(problem).__name__
                self._closed.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures, 10)))

    def _hear(self) -> bool:
        """Wait for announcements for a while. True: something has changed."""
        found = self._announcements.wait(LOOK_AGAIN)
        asked: Iterable[Partition] = ()
        if not found and (asked := list(self._records)):
            found = self._announcements.look(asked)
        self._hear_ends(found)
        with self._lock:
            before = self._entry
            gone = [partition for partition in asked if partition not in found]
            self._know({partition: record for partition, record in self._heard.items() if partition not in gone} | dict(found))
            return self._entry is not before

    def _hear_ends(self, records: Records) -> None:
        now = time.monotonic()
        with self._lock:
            for partition, record in records.items():
                epoch, end = self._ends.get(partition, (0, None))
                newer = record.epoch > epoch or (record.epoch == epoch and end is None)
                if newer and record.paused and record.within is not None:
                    self._ends[partition] = (record.epoch, now + record.within)

    def _know(self, heard: Records) -> None:
        """What the queues say now, beside what the ledger has told."""
        self._records = unconfirmed(heard, self._told, self._uid)
        self._heard = remembered(heard, self._records, self._told)
        entry = merged(self._told or self._nothing, self._records, self._uid) if self._records else self._told
        if entry != self._entry:
            self._entry = entry
