"""A pod's own key of the ledger, from the mounted ConfigMap."""

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
"""Seconds. The kubelet does not announce that it has refreshed a mount; looking is one readlink."""

_ABSENT = (FileNotFoundError, NotADirectoryError)
"""What says that there is no entry. Any other failure (too many open files, no permission) says nothing of it."""

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
        """Return what is known now; the same object while nothing changes. None: nothing says that the pod has any."""

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
    directory works as well (outside a cluster). An entry with another pod's UID was written for an earlier pod of that name and
    is no entry.
    """

    def __init__(self, directory: Path, member: MemberId, uid: Uid) -> None:
        self._directory = directory
        self._link, self._file = directory / "..data", directory / member
        """Looked at in each turn of a consumer."""
        self._member = member
        self._uid = uid
        self._version: _Version = None
        self._entry: MemberEntry | None = None
        self._unreadable = False
        self._watched = False
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def current(self) -> MemberEntry | None:
        """The pod's entry as it stands in the mount; the same object while the mount is the same. None: it has none.

        A text that does not read as an entry is logged, and the last good one stands: the queues refuse what is too old. So it
        does while the mount cannot be read; each call tries again.
        """
        if not self._watched:
            self._look_again()
        return self._entry

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, from another thread, within about 50 ms of each change of the mount since the last `current`; which is
        what was seen then, from now on, and looks at nothing itself."""
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
                    if entry is not None or self._look() == version:  # else it was swapped: read at the next look
                        self._version, self._entry = version, entry
                self._unreadable = False
            except OSError as error:
                if not self._unreadable:
                    log.warning("The ledger's key %s cannot be read, and its last state stands: %s", self._member, error)
                self._unreadable = True

    def _look(self) -> _Version:
        """Changes whenever the entry may have."""
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
        # The kubelet makes the link to a key that is new after the swap: a look between them would find no entry.
        directory = self._directory / version if isinstance(version, str) else self._directory
        try:
            entry = MemberEntry.from_json((directory / self._member).read_text(encoding="utf-8"))
        except _ABSENT:
            return None
        except (LedgerError, UnicodeDecodeError) as error:
            log.warning("The ledger's key %s is no entry and is passed over: %s", self._member, error)
            return last
        return entry if entry.uid == self._uid else None


# What a pod's queues say, put together with what its ledger says. Which of them is newer is told by epochs, which only grow, and
# by no clock. Pure.


Records = Mapping[Partition, Heard]


def unconfirmed(records: Records, told: MemberEntry | None, uid: Uid) -> Records:
    """Those of which the ledger does not know yet.

    A partition that it does not name at all has not been told yet, or was taken away since: the next question to the queue will
    see. Of one that it names the higher epoch counts; at the same one, a partition that is being called back stays called back.
    """
    owned, named = dict(flat(told.owned)) if told else {}, _named(told)

    def is_news(partition: Partition, record: Heard) -> bool:
        epoch = named.get(partition)
        if epoch is None:
            return record.uid == uid
        return record.epoch > epoch or (record.epoch == epoch and record.paused and partition in owned)

    return {partition: record for partition, record in records.items() if is_news(partition, record)}


def remembered(records: Records, news: Records, told: MemberEntry | None) -> Records:
    """Those that are `unconfirmed`, and those of which the ledger says nothing: an older one may come before one that does."""
    named = _named(told)
    return {partition: record for partition, record in records.items() if partition in news or partition not in named}


def merged(told: MemberEntry, records: Records, uid: Uid) -> MemberEntry:
    """The ledger's entry as these records correct it."""
    owned: dict[QueueName, dict[int, Epoch]] = {queue: dict(grants) for queue, grants in told.owned.items()}
    revoking: dict[QueueName, dict[int, Epoch]] = {queue: dict(grants) for queue, grants in told.revoking.items()}
    for (queue, number), record in records.items():
        for named in (owned, revoking):
            named.get(queue, {}).pop(number, None)
        if record.uid == uid:
            (revoking if record.paused else owned).setdefault(queue, {})[number] = record.epoch
    return replace(told, owned=owned, revoking=revoking)


def _named(told: MemberEntry | None) -> dict[Partition, Epoch]:
    """Of each partition that the ledger names."""
    return {} if told is None else dict(flat(told.revoking)) | dict(flat(told.owned))


# A pod's partitions as its queues say, before its ledger does.
#
# The owner record at the queue is the truth, and the mounted ledger tells it when the kubelet has come by: a second later, or a
# minute. So the pod is woken by the queue, asks who owns what it is told of, and goes by that until its ledger is as new
# (`unconfirmed_records`).


LOOK_AGAIN = 4.0
"""Seconds after which the queue is asked again about what the ledger has not confirmed: it may be newer, and have skipped it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class AnnouncedAssignments:
    """The ledger of a pod, and what its queues say beyond it. `Assignments` for a consumer.

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
        """`group` is namespace/name. `deadlines`: those of the ledger."""
        self._deadlines = deadlines
        self._ledger = ledger
        self._announcements = announcements
        self._nothing = MemberEntry(group, member, uid, 0, False)
        self._uid = uid
        self._lock = threading.Lock()
        self._heard: Records = {}
        """Of each partition that was announced, what the queue said last, until a ledger that is as new names it: an older one
        may come before that."""
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
        """As `Assignments.current`."""
        told = self._ledger.current()
        with self._lock:
            if told is not self._told:
                self._told = told
                self._know(self._heard)
            return self._entry

    def left(self, partition: Partition, epoch: Epoch) -> float | None:
        """Seconds until a partition that is called back is taken away: to the ledger's deadline; where that is not known, counted
        from when the pod first heard of it; None: the queue does not say. It is asked, once, where it has not been heard; where
        it did not answer, again after a while. An event loop does not wait for that: None, until it is known."""
        if (known := self._deadlines(partition, epoch)) is not None:
            return known
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
        """As `Assignments.watch`."""
        self._ledger.watch(changed)
        threading.Thread(target=self._listen, args=(changed,), name="baton-announcements", daemon=True).start()

    def close(self) -> None:
        """As `Assignments.close`."""
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
        pauses, told = doubling(_FIRST_PAUSE, _LONGEST_PAUSE), ""
        while not self._closed.is_set():
            try:
                if self._hear():
                    changed()
                pauses, told = doubling(_FIRST_PAUSE, _LONGEST_PAUSE), ""
            except Exception as problem:
                if self._closed.is_set():  # the connection was closed under it
                    return
                if type(problem).__name__ != told:
                    unknown = not isinstance(problem, QueueUnreachable)
                    log.warning("hand-off notices now come only through the mounted ledger: %s", problem, exc_info=unknown)
                told = type(problem).__name__
                self._closed.wait(next(pauses))

    def _hear(self) -> bool:
        """Wait for announcements for a while. True: something has changed."""
        found = self._announcements.wait(LOOK_AGAIN)
        asked: Iterable[Partition] = ()
        if not found and (asked := list(unconfirmed(self._heard, self._told, self._uid))):
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
        news = unconfirmed(heard, self._told, self._uid)
        self._heard = remembered(heard, news, self._told)
        entry = merged(self._told or self._nothing, news, self._uid) if news else self._told
        if entry != self._entry:
            self._entry = entry
