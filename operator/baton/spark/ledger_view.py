"""The driver's view of the ledger: every member's key and the size that the fleet should have.

The driver does not own partitions, so nothing makes the kubelet refresh a mounted map for it: it watches the ConfigMap at the
API server.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from baton.consumer.api_server import ApiConnection, segments
from baton.model.ids import MemberId
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.names import LEDGER_GROUP_KEY, ledger_name
from baton.spark.followed_objects import FollowedObjects
from baton.spark.ownership import Ownership, ownership
from baton.spark.scale import RequestedScale, parse_scale

log = logging.getLogger("baton.spark")


@dataclass(frozen=True)
class LedgerSnapshot:
    """One state of the ledger."""

    entries: Mapping[MemberId, MemberEntry] = field(default_factory=dict)
    scale: RequestedScale | None = None

    @cached_property
    def ownership(self) -> Ownership:
        """The grants that it records."""
        return ownership(self.entries.values())

    @property
    def generation(self) -> int:
        """The newest of its keys; 0: it has none."""
        return max((entry.generation for entry in self.entries.values()), default=0)


class LedgerView(Protocol):
    """Where the driver learns the ledger from."""

    def read(self) -> LedgerSnapshot:
        """The newest state that was seen."""

    def on_change(self, told: Callable[[], None]) -> None:
        """Call `told` (from any thread) after each new state."""

    def close(self) -> None:
        """Stop following the ledger."""


class ReadLedger(NamedTuple):
    """What the data of the ConfigMap say. A key that does not read is ignored: its member owns nothing."""

    ledger: LedgerSnapshot
    ignored: Mapping[str, str]
    """By key, what is ignored and why."""


def parse(data: Mapping[str, str]) -> ReadLedger:
    """From the data of the ConfigMap."""
    entries: dict[MemberId, MemberEntry] = {}
    ignored: dict[str, str] = {}
    for name, text in data.items():
        if name == LEDGER_GROUP_KEY:
            continue
        try:
            entries[MemberId(name)] = MemberEntry.from_json(text)
        except LedgerError as error:
            ignored[name] = f"the ledger's key {name} is not an entry and is ignored: {error}"
    try:
        scale = parse_scale(data.get(LEDGER_GROUP_KEY))
    except LedgerError as error:
        ignored[LEDGER_GROUP_KEY] = f"the size of the fleet in the ledger is ignored: {error}"
        scale = None
    return ReadLedger(LedgerSnapshot(entries, scale), ignored)


class _View:
    """The newest state, and those who want to hear of it."""

    def __init__(self) -> None:
        self._data: Mapping[str, str] = {}
        self._ledger = LedgerSnapshot()
        self._ignored: Mapping[str, str] = {}
        """What was told of: once, until the key reads again or is gone."""
        self._told: list[Callable[[], None]] = []
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def read(self) -> LedgerSnapshot:
        return self._ledger

    def on_change(self, told: Callable[[], None]) -> None:
        self._told.append(told)

    def close(self) -> None:
        self._closed.set()

    def _see(self, data: Mapping[str, str]) -> None:
        with self._lock:
            if data == self._data:
                return
            self._data = dict(data)
            self._ledger, ignored = parse(data)
            for key in sorted(ignored.keys() - self._ignored.keys()):
                log.warning("%s", ignored[key])
            self._ignored = ignored
            for told in self._told:
                told()


class WatchedLedger(_View):
    """The ConfigMap at the API server. While that is out of reach the last state stands: the queues refuse what it has become
    too old for.
    """

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        super().__init__()
        name = ledger_name(group)
        path, what = f"/api/v1/namespaces/{segments(namespace)}/configmaps", f"the ledger {namespace}/{name}"
        self._followed = FollowedObjects(api, path, what, self._see_all, fieldSelector=f"metadata.name={name}")
        self._followed.start()

    def close(self) -> None:
        super().close()
        self._followed.close()

    def _see_all(self, maps: Sequence[Mapping[str, Any]]) -> None:
        self._see(maps[0].get("data") or {} if maps else {})


class MountedLedger(_View):
    """A directory with one file per key, as a mounted ConfigMap is; for development without an API server. Looked at ten times
    a second.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._unreadable = False
        self.look()
        threading.Thread(target=self._run, name="baton-ledger", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.wait(0.1):
            self.look()

    def look(self) -> None:
        """Look now. While the directory cannot be read, its last state stands."""
        try:
            files = self._files()
        except (OSError, UnicodeDecodeError) as error:
            if not self._unreadable:
                log.warning("the ledger in %s cannot be read, its last state stands: %s", self._path, error)
            self._unreadable = True
        else:
            self._unreadable = False
            self._see(files)

    def _files(self) -> Mapping[str, str]:
        for _ in range(3):  # the directory may be swapped while it is read
            try:
                return {
                    file.name: file.read_text(encoding="utf-8") for file in self._path.iterdir() if not file.name.startswith("..")
                }
            except FileNotFoundError:
                time.sleep(0.01)
        return self._data
