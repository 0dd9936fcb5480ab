"""A pod's own key of the ledger, from the mounted ConfigMap."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from baton.model.ids import MemberId, Uid
from baton.model.ledger import LedgerError, MemberEntry

log = logging.getLogger(__name__)

LOOK_EVERY = 0.05
"""Seconds. The kubelet tells nobody that it has refreshed a mount; looking is one readlink."""

_ABSENT = (FileNotFoundError, NotADirectoryError)
"""What says that there is no entry. Any other failure (too many open files, no permission) says nothing of it."""

_Version = str | tuple[int, int, int] | None


class Assignments(Protocol):
    """Tells a pod which partitions are its own."""

    def current(self) -> MemberEntry | None:
        """As far as it is known now; the same object while it is the same. None: nothing says that the pod has any."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed`, from another thread, when `current` is another than it was last."""

    def close(self) -> None: ...


class AssignmentSource:
    """Reads the file named like the pod in the directory where the ledger is mounted.

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
                self._refresh()
                self._unreadable = False
            except OSError as error:
                if not self._unreadable:
                    log.warning("The ledger's key %s cannot be read, and its last state stands: %s", self._member, error)
                self._unreadable = True

    def _refresh(self) -> None:
        """Raises OSError where nobody can tell what the entry is."""
        version = self._look()
        if version == self._version:
            return
        entry = self._read(version, self._entry)
        if entry is None and self._look() != version:
            return  # it was swapped for another meanwhile, and is read at the next look
        self._version, self._entry = version, entry

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
