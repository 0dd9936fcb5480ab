"""A pod's assignments: its key of the mounted ledger, and announcements of its queues."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from baton.consumer.ending import Left
from baton.consumer.handler import in_event_loop
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry, flat
from baton.model.retrying import doubling
from baton.queues.consumer_side import Announcements
from baton.queues.protocol import Heard, QueueUnreachable

log = logging.getLogger(__name__)

LOOK_EVERY = 0.05
"""Seconds. The kubelet does not announce that it has refreshed a mount; a look is one readlink."""

_ABSENT = (FileNotFoundError, NotADirectoryError)
"""Errors that mean that the pod has no entry. Other errors (too many open files, no permission) do not."""

_Version = str | tuple[int, int, int] | None


class Assignments(Protocol):
    """Tells a pod which partitions it owns. `AssignmentSource` is one.

    ```python
    entry = assignments.current()
    if entry is not None:
        print(entry.owned, entry.revoking)
    ```
    """

    def current(self) -> MemberEntry | None:
        """Return the pod's current assignments, the same object while nothing changes. None: none are known."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, from another thread, whenever `current` has changed."""

    def close(self) -> None:
        """Stop watching."""


class AssignmentSource:
    """Reads the file named like the pod in the directory where the ledger is mounted.

    ```python
    assignments = AssignmentSource(pod.ledger, pod.name, pod.uid)
    ```

    The kubelet writes a new directory and then swaps the link `..data`, so that a reader sees one state or the next. A plain
    directory works as well (outside of a cluster). An entry with another UID was written for an earlier pod of that name and is
    ignored.
    """

    def __init__(self, directory: Path, member: MemberId, uid: Uid) -> None:
        self._directory = directory
        self._link, self._file = directory / "..data", directory / member
        self._member = member
        self._uid = uid
        self._version: _Version = None
        self._entry: MemberEntry | None = None
        self._unreadable = False
        self._watched = False
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def current(self) -> MemberEntry | None:
        """Return the pod's entry in the mount, the same object while the mount is unchanged. None: it has none.

        While the entry is invalid, which is logged, or the mount cannot be read, the last valid entry is returned: queues reject
        a consumer with outdated assignments. Each call tries again.
        """
        if not self._watched:
            self._look_again()
        return self._entry

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, from another thread, within about 50 ms of each change of the mount since the last `current`. From now
        on `current` returns what that thread has read."""
        before = self._entry
        self._look_again()
        self._watched = True
        threading.Thread(target=self._watch, args=(changed, before), name="baton-ledger", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _watch(self, changed: Callable[[], None], seen: MemberEntry | None) -> None:
        while not self._closed.wait(LOOK_EVERY):
            self._look_again()
            if self._entry is not seen:
                seen = self._entry
                changed()

    def _look_again(self) -> None:
        with self._lock:
            try:
                version = self._look()
                if version != self._version:
                    entry = self._read(version, self._entry)
                    if entry is not None or self._look() == version:  # otherwise it was swapped meanwhile: read at the next look
                        self._version, self._entry = version, entry
                self._unreadable = False
            except OSError as error:
                if not self._unreadable:
                    log.warning("The ledger's key %s cannot be read, and its last state is used: %s", self._member, error)
                self._unreadable = True

    def _look(self) -> _Version:
        """Return a version of the mount that changes whenever the entry may have changed."""
        try:
            return str(self._link.readlink())
        except _ABSENT:
            pass
        try:
            status = self._file.stat()
        except _ABSENT:
            return None
        return (status.st_mtime_ns, status.st_ino, status.st_size)

    def _read(self, version: _Version, last: MemberEntry | None) -> MemberEntry | None:
        # For a new key, the kubelet makes the link after the swap: a look between the two would find no entry.
        directory = self._directory / version if isinstance(version, str) else self._directory
        try:
            entry = MemberEntry.from_json((directory / self._member).read_text(encoding="utf-8"))
        except _ABSENT:
            return None
        except (LedgerError, UnicodeDecodeError) as error:
            log.warning("The ledger's key %s is invalid and ignored: %s", self._member, error)
            return last
        return entry if entry.uid == self._uid else None


# Pure functions that merge the owner records of a pod's queues with its ledger. Epochs, which only grow, tell which one is newer.


Records = Mapping[Partition, Heard]


def unconfirmed(records: Records, told: MemberEntry | None, uid: Uid) -> Records:
    """Return the records that are newer than the ledger.

    A partition that the ledger does not name was granted after it was written, or has been taken away since: the next request
    to the queue decides. Otherwise the higher epoch counts. At the same epoch, a partition that is being revoked stays revoked.
    """
    owned, named = dict(flat(told.owned)) if told else {}, _named(told)

    def is_news(partition: Partition, record: Heard) -> bool:
        epoch = named.get(partition)
        if epoch is None:
            return record.uid == uid
        return record.epoch > epoch or (record.epoch == epoch and record.paused and partition in owned)

    return {partition: record for partition, record in records.items() if is_news(partition, record)}


def remembered(records: Records, news: Records, told: MemberEntry | None) -> Records:
    """Return the `unconfirmed` records, and those of partitions that the ledger does not name: an older ledger may still arrive
    before one that names them."""
    named = _named(told)
    return {partition: record for partition, record in records.items() if partition in news or partition not in named}


def merged(told: MemberEntry, records: Records, uid: Uid) -> MemberEntry:
    """Return the ledger's entry, corrected by these records."""
    owned: dict[QueueName, dict[int, Epoch]] = {queue: dict(grants) for queue, grants in told.owned.items()}
    revoking: dict[QueueName, dict[int, Epoch]] = {queue: dict(grants) for queue, grants in told.revoking.items()}
    for (queue, number), record in records.items():
        for named in (owned, revoking):
            named.get(queue, {}).pop(number, None)
        if record.uid == uid:
            (revoking if record.paused else owned).setdefault(queue, {})[number] = record.epoch
    return replace(told, owned=owned, revoking=revoking)


def _named(told: MemberEntry | None) -> dict[Partition, Epoch]:
    """Return the epochs of all partitions that the ledger names."""
    return {} if told is None else dict(flat(told.revoking)) | dict(flat(told.owned))


# Announcements: the owner record at the queue is the truth, and the kubelet refreshes the mounted ledger a second later, or a
# minute. So the queue wakes the pod, the pod reads the owner records, and uses them until its ledger is as new (`unconfirmed`).


LOOK_AGAIN = 4.0
"""Seconds after which the queue is asked again about records that the ledger has not confirmed: the ledger may be newer already,
and not name them for that reason."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class AnnouncedAssignments:
    """A pod's ledger, updated by the announcements of its queues. `Assignments` for a consumer.

    ```python
    source = AssignmentSource(pod.ledger, pod.name, pod.uid)
    assignments = AnnouncedAssignments(source, announcements, "shop/orders", pod.name, pod.uid)
    ```
    """

    def __init__(
        self,
        ledger: Assignments,
        announcements: Announcements,
        group: str,
        member: MemberId,
        uid: Uid,
        deadlines: Left = lambda partition, epoch: None,
    ) -> None:
        """`group`: namespace/name. `deadlines`: the ledger's deadlines."""
        self._deadlines = deadlines
        self._ledger = ledger
        self._announcements = announcements
        self._nothing = MemberEntry(group, member, uid, 0, False)
        self._uid = uid
        self._lock = threading.Lock()
        self._records: Records = {}
        """The last announced owner record of each partition, until the ledger confirms it."""
        self._ledger_entry: MemberEntry | None = None
        self._entry: MemberEntry | None = None
        self._ends: dict[Partition, tuple[Epoch, float | None]] = {}
        """The epoch and the deadline (monotonic) of each revoked partition; None: the queue has no deadline for it."""
        self._silent_at = float("-inf")
        """When the queue last failed to answer a request for a deadline (monotonic)."""
        self._asking = threading.Lock()
        """Held during a request for a deadline."""
        self._closed = threading.Event()

    def current(self) -> MemberEntry | None:
        """Return the current assignments, as `Assignments.current`."""
        ledger_entry = self._ledger.current()
        with self._lock:
            if ledger_entry is not self._ledger_entry:
                self._ledger_entry = ledger_entry
                self._update(self._records)
            return self._entry

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Return the seconds until a revoked partition is taken away: by the ledger's deadline, or else by the queue's, counted
        from when the pod first learned of it; None if unknown. Asks the queue once for each epoch, and again after a while if it
        did not answer. Does not wait for the answer in an event loop, and returns None until it comes."""
        if (known := self._deadlines(partition, epoch)) is not None:
            return known
        if not self._has_asked(partition, epoch):
            if not in_event_loop():
                self._ask(partition, epoch)
            elif not self._asking.locked():
                threading.Thread(target=self._ask, args=(partition, epoch), name="baton-time-left", daemon=True).start()
        known_epoch, end = self._ends.get(partition, (0, None))
        return None if end is None or known_epoch != epoch else max(0.0, end - time.monotonic())

    def _has_asked(self, partition: Partition, epoch: Epoch) -> bool:
        """Return whether the queue's answer is known, or the queue has just failed to answer."""
        return self._ends.get(partition, (0, None))[0] >= epoch or time.monotonic() - self._silent_at < LOOK_AGAIN

    def _ask(self, partition: Partition, epoch: Epoch) -> None:
        with self._asking:
            if self._has_asked(partition, epoch):
                return
            try:
                self._record_ends(self._announcements.look([partition]))
            except QueueUnreachable:
                self._silent_at = time.monotonic()
                return
            with self._lock:
                if self._ends.get(partition, (0, None))[0] < epoch:
                    self._ends[partition] = (epoch, None)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` from another thread, as `Assignments.watch`."""
        self._ledger.watch(changed)
        threading.Thread(target=self._listen, args=(changed,), name="baton-announcements", daemon=True).start()

    def close(self) -> None:
        """Stop watching, as `Assignments.close`."""
        self._closed.set()
        self._ledger.close()
        # In a separate thread: a hanging server must not use up the pod's grace period.
        threading.Thread(target=self._close, name="baton-interrupt", daemon=True).start()

    def _close(self) -> None:
        try:
            self._announcements.interrupt()
        finally:
            self._announcements.close()

    def _listen(self, changed: Callable[[], None]) -> None:
        pauses, logged = doubling(_FIRST_PAUSE, _LONGEST_PAUSE), ""
        while not self._closed.is_set():
            try:
                if self._wait_for_announcements():
                    changed()
                pauses, logged = doubling(_FIRST_PAUSE, _LONGEST_PAUSE), ""
            except Exception as problem:
                if self._closed.is_set():  # `close` has closed the connection
                    return
                if type(problem).__name__ != logged:
                    unknown = not isinstance(problem, QueueUnreachable)
                    log.warning("hand-off notices now come only through the mounted ledger: %s", problem, exc_info=unknown)
                logged = type(problem).__name__
                self._closed.wait(next(pauses))

    def _wait_for_announcements(self) -> bool:
        """Wait for announcements for a while. Returns whether the assignments have changed."""
        found = self._announcements.wait(LOOK_AGAIN)
        asked: Iterable[Partition] = ()
        if not found and (asked := list(unconfirmed(self._records, self._ledger_entry, self._uid))):
            found = self._announcements.look(asked)
        self._record_ends(found)
        with self._lock:
            before = self._entry
            gone = [partition for partition in asked if partition not in found]
            left = {partition: record for partition, record in self._records.items() if partition not in gone}
            self._update(left | dict(found))
            return self._entry is not before

    def _record_ends(self, records: Records) -> None:
        now = time.monotonic()
        with self._lock:
            for partition, record in records.items():
                epoch, end = self._ends.get(partition, (0, None))
                newer = record.epoch > epoch or (record.epoch == epoch and end is None)
                if newer and record.paused and record.within is not None:
                    self._ends[partition] = (record.epoch, now + record.within)

    def _update(self, records: Records) -> None:
        """Merge the records of the queues with the ledger."""
        news = unconfirmed(records, self._ledger_entry, self._uid)
        self._records = remembered(records, news, self._ledger_entry)
        entry = merged(self._ledger_entry or self._nothing, news, self._uid) if news else self._ledger_entry
        if entry != self._entry:
            self._entry = entry
