"""The ledger as the driver sees it: who owns what, the size that the fleet should have, and what of it is in use.

The driver does not own partitions, so nothing makes the kubelet refresh a mounted map for it: it watches the ConfigMap at the
API server.
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

# -- who owns what


class PartitionGrant(NamedTuple):
    """One partition in one member's hands since `epoch`."""

    partition: Partition
    epoch: Epoch
    member: MemberId
    uid: Uid

    @property
    def queue(self) -> QueueName:
        return self.partition.queue

    def released(self) -> Release:
        """What a session says once it has let go of this."""
        return Release(self.uid, *self.partition, self.epoch)


@dataclass(frozen=True)
class LedgerGrants:
    """The whole ledger, turned around: grants instead of members."""

    owned: frozenset[PartitionGrant] = frozenset()
    revoking: frozenset[PartitionGrant] = frozenset()

    @cached_property
    def owners(self) -> Mapping[Partition, PartitionGrant]:
        """The owned grants, by partition. While a member that is gone is named beside the next owner, the later grant counts."""
        return {one.partition: one for one in sorted(self.owned, key=lambda one: one.epoch)}

    @cached_property
    def partitions(self) -> frozenset[Partition]:
        """Partitions that any executor owns or has to release."""
        return frozenset(one.partition for one in self.owned | self.revoking)


def ledger_grants(entries: Iterable[MemberEntry]) -> LedgerGrants:
    """The grants that the members' keys of the ledger record."""
    known = tuple(entries)
    return LedgerGrants(
        owned=frozenset(grant for entry in known for grant in _grants(entry, entry.owned)),
        revoking=frozenset(grant for entry in known for grant in _grants(entry, entry.revoking)),
    )


def _grants(entry: MemberEntry, queues: Mapping[QueueName, Grants]) -> Iterable[PartitionGrant]:
    for partition, epoch in flat(queues):
        yield PartitionGrant(partition, epoch, entry.member, entry.uid)


# -- the size of the fleet


@dataclass(frozen=True, slots=True)
class RequestedScale:
    """What the ledger's `group` key asks for: so many executors, and these are to go."""

    replicas: int
    victims: frozenset[MemberId] = frozenset()


def parse_scale(text: str | None) -> RequestedScale | None:
    """From the text of the ledger's `group` key; None: no size was asked for. Raises LedgerError for what cannot be one."""
    wanted = read_object(text).get("scale") if text else None
    match wanted:
        case None:
            return None
        case {"replicas": int(replicas), **more} if 0 <= replicas < 2**31:  # more is none of Spark's numbers
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
    def ownership(self) -> LedgerGrants:
        """The grants that it records."""
        return ledger_grants(self.entries.values())

    @property
    def generation(self) -> int:
        """The newest of its keys; 0: it has none."""
        return max((entry.generation for entry in self.entries.values()), default=0)


def parse(data: Mapping[str, str]) -> tuple[LedgerSnapshot, Mapping[str, str]]:
    """What the data of the ConfigMap say; and by key, what is ignored and why: its member owns nothing."""
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
    return LedgerSnapshot(entries, scale), ignored


class LedgerView:
    """The newest state of the ledger that the driver has seen. Any thread may read."""

    def __init__(self) -> None:
        self._data: Mapping[str, str] = {}
        self._ledger = LedgerSnapshot()
        self._ignored: Mapping[str, str] = {}
        """What was told of: once, until the key reads again or is gone."""
        self._told: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def read(self) -> LedgerSnapshot:
        """The newest state."""
        return self._ledger

    def trouble(self) -> str:
        """What is wrong with it, for people; empty: nothing is known."""
        return ""

    def on_change(self, told: Callable[[], None]) -> None:
        """Call `told` (from any thread) after each new state."""
        self._told.append(told)

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
        for told in self._told:
            told()


class WatchedLedger(LedgerView):
    """The ConfigMap at the API server. While that is out of reach the last state stands: the queues refuse what it has become
    too old for.
    """

    def __init__(self, api: ApiConnection, namespace: str, group: str) -> None:
        super().__init__()
        name = ledger_name(group)
        self._group, self._there, self._trouble = group, False, ""
        path, what = f"/api/v1/namespaces/{segments(namespace)}/configmaps", f"the ledger {namespace}/{name}"
        self._followed = FollowedObjects(api, path, what, self._see_all, fieldSelector=f"metadata.name={name}")
        self._followed.start()

    def close(self) -> None:
        self._followed.close()

    def trouble(self) -> str:
        return self._trouble

    def _see_all(self, maps: Sequence[Mapping[str, Any]]) -> None:
        if self._there and not maps:
            self._trouble = (
                f"the ledger {ledger_name(self._group)} is gone, and no executor owns a partition: apply the ConsumerGroup "
                f"{self._group} again if it was deleted; else the operator writes the ledger again within a minute"
            )
            log.error("%s", self._trouble)
        elif maps:
            self._trouble = ""
        self._there = bool(maps)
        self._see(maps[0].get("data") or {} if maps else {})


class MountedLedger(LedgerView):
    """A directory with one file per key, as a mounted ConfigMap is; for development without an API server. Looked at ten times
    a second.
    """

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


# -- grants in use


class GrantsInUse:
    """Grants that batches work on, and those that the driver has let go of.

    A partition that the ledger revokes is released at once if no batch has it, and otherwise when its part of the batch is
    finished. The next batch may take a grant before the one before has put it back, so grants are counted. Taking and releasing
    exclude each other: what has been released is never taken again. Thread-safe: the batch takes and puts back, the ledger's
    watch and the session's renewals ask.
    """

    def __init__(self, ledger: LedgerView, tell: Callable[[frozenset[Release]], None]) -> None:
        self._ledger = ledger
        self._tell = tell
        self._lock = threading.RLock()
        self._taken: Counter[PartitionGrant] = Counter()
        self._released: frozenset[Release] = frozenset()
        ledger.on_change(self.review)

    def take(self, choose: Callable[[LedgerGrants], Iterable[PartitionGrant]]) -> list[PartitionGrant]:
        """Take what `choose` picks from the newest ledger; nothing of it is released until it is put back."""
        with self._lock:
            chosen = list(choose(self._ledger.read().ownership))
            self._taken.update(chosen)
            return chosen

    def put_back(self, grants: Iterable[PartitionGrant]) -> None:
        """The batch is done with these; what the ledger revokes of them is released."""
        if not (back := list(grants)):
            return
        with self._lock:
            self._taken.subtract(back)
            self._taken = +self._taken
            self.review()

    def review(self) -> None:
        """Look what is to be released now, and tell when that has changed."""
        with self._lock:
            released = frozenset(grant.released() for grant in self._ledger.read().ownership.revoking - self._taken.keys())
            if released == self._released:
                return
            self._released = released
            self._tell(released)

    def taken(self) -> frozenset[PartitionGrant]:
        """What the batches that run work on."""
        with self._lock:
            return frozenset(self._taken)

    def busy(self) -> frozenset[MemberId]:
        """Members with something in the batch that runs."""
        return frozenset(grant.member for grant in self.taken())

    def missed(self) -> frozenset[MemberId]:
        """Members whose part of the running batch has been granted to another: a deadline was missed."""
        owners = self._ledger.read().ownership.owners
        return frozenset(grant.member for grant in self.taken() if owners.get(grant.partition, grant).uid != grant.uid)
