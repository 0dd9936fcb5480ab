"""The driver's view of the ledger: the owners, the requested size of the fleet, and the grants in use.

The driver is no member, so nothing makes the kubelet refresh a mounted ledger in its pod. It watches the ConfigMap at the API
server instead.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from baton.consumer.api_server import ApiConnection, segments
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry, flat, read_object
from baton.model.names import LEDGER_GROUP_KEY, ledger_name
from baton.model.ranges import Grants
from baton.model.session import Release
from baton.spark.followed_objects import FollowedObjects

log = logging.getLogger("baton.spark")

# -- grants


class PartitionGrant(NamedTuple):
    """The grant of one partition to one member."""

    partition: Partition
    epoch: Epoch
    member: MemberId
    uid: Uid

    @property
    def queue(self) -> QueueName:
        return self.partition.queue

    def released(self) -> Release:
        """The session's report that the member has released the partition."""
        return Release(self.uid, *self.partition, self.epoch)


# -- the size of the fleet


@dataclass(frozen=True, slots=True)
class RequestedScale:
    """The number of executors that the ledger's `group` key requests, and the executors to remove."""

    replicas: int
    victims: frozenset[MemberId] = frozenset()


def parse_scale(text: str | None) -> RequestedScale | None:
    """Parse the ledger's `group` key; None if it requests no size. Raises LedgerError if the size is malformed."""
    match read_object(text).get("scale") if text else None:
        case None:
            return None
        case {"replicas": int(replicas), **more} if 0 <= replicas < 2**31:  # Spark's number is a Java int
            victims = more.get("victims", [])
            if isinstance(victims, list) and all(isinstance(name, str) for name in victims):
                return RequestedScale(replicas, frozenset(map(MemberId, victims)))
    raise LedgerError("scale: expected a number of replicas, and victims by the names of their pods")


# -- the ConfigMap


@dataclass(frozen=True)
class LedgerSnapshot:
    """One state of the ledger."""

    entries: Mapping[MemberId, MemberEntry] = field(default_factory=dict)
    scale: RequestedScale | None = None

    @cached_property
    def owned(self) -> frozenset[PartitionGrant]:
        return frozenset(grant for entry in self.entries.values() for grant in _grants(entry, entry.owned))

    @cached_property
    def revoking(self) -> frozenset[PartitionGrant]:
        return frozenset(grant for entry in self.entries.values() for grant in _grants(entry, entry.revoking))

    @cached_property
    def owners(self) -> Mapping[Partition, PartitionGrant]:
        """The owned grants by partition. If a former owner's key still exists beside the next owner's, the later grant counts."""
        return {one.partition: one for one in sorted(self.owned, key=lambda one: one.epoch)}

    @cached_property
    def partitions(self) -> frozenset[Partition]:
        """Partitions that an executor owns or has to release."""
        return frozenset(one.partition for one in self.owned | self.revoking)

    @property
    def generation(self) -> int:
        """The newest generation of the keys; 0 without keys."""
        return max((entry.generation for entry in self.entries.values()), default=0)


def _grants(entry: MemberEntry, queues: Mapping[QueueName, Grants]) -> Iterable[PartitionGrant]:
    return (PartitionGrant(partition, epoch, entry.member, entry.uid) for partition, epoch in flat(queues))


def parse(data: Mapping[str, str]) -> tuple[LedgerSnapshot, Mapping[str, str]]:
    """Parse the data of the ConfigMap. Also returns, by key, why a key is ignored; its member then owns nothing."""
    entries: dict[MemberId, MemberEntry] = {}
    ignored: dict[str, str] = {}
    for name, text in data.items():
        if name == LEDGER_GROUP_KEY:
            continue
        try:
            entries[MemberId(name)] = MemberEntry.from_json(text)
        except LedgerError as error:
            ignored[name] = f"ignoring the malformed key {name} of the ledger: {error}"
    try:
        scale = parse_scale(data.get(LEDGER_GROUP_KEY))
    except LedgerError as error:
        ignored[LEDGER_GROUP_KEY] = f"ignoring the size of the fleet in the ledger: {error}"
        scale = None
    return LedgerSnapshot(entries, scale), ignored


class LedgerView:
    """The newest state of the ledger that the driver has seen. Any thread may read it."""

    def __init__(self) -> None:
        self._data: Mapping[str, str] = {}
        self._ledger = LedgerSnapshot()
        self._ignored: Mapping[str, str] = {}
        """Problems that were logged, once each until the key is well-formed or gone."""
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def read(self) -> LedgerSnapshot:
        return self._ledger

    def trouble(self) -> str:
        """Describe the problem with the ledger; empty if none is known."""
        return ""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` (from any thread) after each new state."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Stop following the ledger."""

    def _see(self, data: Mapping[str, str]) -> None:
        with self._lock:
            if data == self._data:
                return
            self._data = dict(data)
            found, ignored = parse(data)
            for key in sorted(ignored.keys() - self._ignored.keys()):
                log.warning("%s", ignored[key])
            self._ignored = ignored
            self._become(found)

    def _become(self, ledger: LedgerSnapshot) -> None:
        self._ledger = ledger
        for listener in self._listeners:
            listener()


class WatchedLedger(LedgerView):
    """The ConfigMap at the API server. While the API server is unreachable the last state is kept; the queues reject reads by
    former owners.
    """

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        super().__init__()
        name = ledger_name(group)
        self._group, self._exists, self._trouble = group, False, ""
        path, what = f"/api/v1/namespaces/{segments(namespace)}/configmaps", f"the ledger {namespace}/{name}"
        self._followed = FollowedObjects(api, path, what, self._see_all, fieldSelector=f"metadata.name={name}")

    def close(self) -> None:
        self._followed.close()

    def trouble(self) -> str:
        return self._trouble

    def _see_all(self, maps: Sequence[Mapping[str, Any]]) -> None:
        if self._exists and not maps:
            self._trouble = (
                f"the ledger {ledger_name(self._group)} was deleted, so no executor owns a partition: apply the ConsumerGroup "
                f"{self._group} again if it was deleted too; otherwise the operator rewrites the ledger within a minute"
            )
            log.error("%s", self._trouble)
        elif maps:
            self._trouble = ""
        self._exists = bool(maps)
        self._see(maps[0].get("data") or {} if maps else {})


class MountedLedger(LedgerView):
    """A directory with one file per key, like a mounted ConfigMap, for development without an API server. Read every 0.1 s."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._unreadable = False
        self._closed = threading.Event()
        self.look()
        threading.Thread(target=self._run, name="baton-ledger", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(0.1):
            self.look()

    def look(self) -> None:
        """Read the directory. If that fails, the last state is kept."""
        try:
            files = self._files()
        except (OSError, UnicodeDecodeError) as error:
            if not self._unreadable:
                log.warning("cannot read the ledger in %s, keeping its last state: %s", self._path, error)
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


# -- grants in use


class GrantsInUse:
    """Counts the batches that use each grant, and releases revoked grants.

    A partition that the ledger revokes is released at once if no batch uses its grant, otherwise when its range is finished.
    Grants are counted because the next batch may take a grant before the previous batch puts it back. Taking and releasing
    exclude each other, so a released grant is never taken. Thread-safe: used by batches, the ledger's watch and the fleet's loop.
    """

    def __init__(self, ledger: LedgerView, report: Callable[[frozenset[Release]], None]) -> None:
        """`report`: called with all releases when they have changed."""
        self._ledger = ledger
        self._report = report
        self._lock = threading.RLock()
        self._taken: Counter[PartitionGrant] = Counter()
        self._released: frozenset[Release] = frozenset()
        ledger.on_change(self.review)

    def take(self, choose: Callable[[LedgerSnapshot], Iterable[PartitionGrant]]) -> list[PartitionGrant]:
        """Take the grants that `choose` picks from the newest ledger. They are not released until they are put back."""
        with self._lock:
            chosen = list(choose(self._ledger.read()))
            self._taken.update(chosen)
            return chosen

    def put_back(self, grants: Iterable[PartitionGrant]) -> None:
        """Put back a batch's grants, and release those that the ledger revokes."""
        if not (back := list(grants)):
            return
        with self._lock:
            self._taken.subtract(back)
            self._taken = +self._taken
            self.review()

    def review(self) -> None:
        """Update the releases, and report them if they have changed."""
        with self._lock:
            released = frozenset(grant.released() for grant in self._ledger.read().revoking - self._taken.keys())
            if released == self._released:
                return
            self._released = released
            self._report(released)

    def taken(self) -> frozenset[PartitionGrant]:
        """Grants that running batches use."""
        with self._lock:
            return frozenset(self._taken)

    def busy(self) -> frozenset[MemberId]:
        """Members with a partition in a running batch."""
        return frozenset(grant.member for grant in self.taken())

    def missed(self) -> frozenset[MemberId]:
        """Members that missed a deadline: a partition in a running batch was granted to another member."""
        owners = self._ledger.read().owners
        return frozenset(grant.member for grant in self.taken() if owners.get(grant.partition, grant).uid != grant.uid)
