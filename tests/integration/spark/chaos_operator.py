"""The operator's part of a chaotic fleet: grants at a real queue and ledgers in folders, less gently than Baton's operator."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baton.dev.server import DevServer
from baton.model import Epoch, MemberId, QueueName, Uid
from baton.model.lease import holder_of
from baton.model.ledger import MemberEntry
from baton.model.names import EXECUTORS_ANNOTATION, RELEASES_ANNOTATION, SPARK_APP_ANNOTATION
from baton.model.session import parse_releases
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisQueue

_TURN = 0.1
_ANSWER = 5.0


@dataclass
class Grant:
    member: MemberId
    uid: Uid
    epoch: Epoch
    taken_back: float | None = None
    """The deadline for the owner's release (monotonic)."""


@dataclass
class Ledgers:
    """A folder per driver. A driver whose folder is frozen sees its earlier content."""

    folders: Mapping[str, Path]
    frozen: set[str] = field(default_factory=set)

    def publish(self, entries: list[MemberEntry]) -> None:
        for driver, folder in self.folders.items():
            if driver in self.frozen:
                continue
            for entry in entries:
                fresh = folder / f"..{entry.member}"
                fresh.write_text(entry.to_json())
                fresh.rename(folder / entry.member)


class Operator:
    """Runs until `stop`. Grants partitions that no live executor owns, and revoked ones that are released or overdue."""

    def __init__(self, url: str, queue: str, partitions: int, server: DevServer, ledgers: Ledgers) -> None:
        self.url, self.queue = url, queue
        self.partitions = partitions
        """The intended number of partitions. Tests change it."""
        self._name = QueueName(queue.rpartition("/")[2])
        self._server, self._ledgers = server, ledgers
        self._grants: dict[int, Grant] = {}
        self._uids: dict[MemberId, Uid] = {}
        self._generation, self._epoch = 0, 0
        self._lag: Mapping[int, int] = {}
        self._wanted: list[tuple[int, float]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="operator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_ANSWER)

    def take_back(self, partition: int, within: float) -> None:
        """Move a partition to another executor, after these seconds even if it is not released."""
        self._wanted.append((partition, within))

    def granted(self) -> int:
        """The number of partitions with an owner."""
        return len(self._grants)

    def lag(self) -> int:
        """Unfinished entries, as last seen."""
        return sum(self._lag.values()) if self._lag else 1

    async def _run(self) -> None:
        adapter = RedisQueue(self.url, self.queue, Claimant("default/group", "a test"))
        while not self._stopping.is_set():
            with suppress(QueueUnreachable, asyncio.TimeoutError):
                await asyncio.wait_for(self._turn(adapter), _ANSWER)
            await asyncio.sleep(_TURN)
        await adapter.close()

    async def _turn(self, queue: RedisQueue) -> None:
        await queue.ensure(self.partitions)
        self._lag = (await queue.check()).lag
        members = self._members()
        self._grants = {number: grant for number, grant in self._grants.items() if number in self._lag}
        for number, within in self._wanted:
            grant = self._grants.get(number)
            if grant is not None and grant.taken_back is None:
                await queue.pause(number, grant.epoch)
                grant.taken_back = time.monotonic() + within
        self._wanted.clear()
        self._publish(members)
        for number in self._lag:
            if members and self._is_free(number, members):
                await self._give(queue, number, members)
        self._publish(members)

    def _is_free(self, number: int, members: Mapping[MemberId, Uid]) -> bool:
        grant = self._grants.get(number)
        if grant is None or grant.member not in members:
            return True
        return grant.taken_back is not None and (time.monotonic() > grant.taken_back or self._released(number, grant))

    async def _give(self, queue: RedisQueue, number: int, members: Mapping[MemberId, Uid]) -> None:
        before = self._grants.get(number)
        has = {member: sum(grant.member == member for grant in self._grants.values()) for member in members}
        others = [member for member in has if before is None or member != before.member] or list(has)
        member = min(others, key=has.__getitem__)
        self._epoch += 1  # also where the answer is lost
        grant = Grant(member, members[member], Epoch(self._epoch))
        await queue.grant(number, grant.uid, grant.epoch)
        self._grants[number] = grant

    def _members(self) -> dict[MemberId, Uid]:
        """The executors in the Lease of its driver."""
        for lease in self._server.leases():
            said: Mapping[str, Any] = lease["metadata"].get("annotations") or {}
            if holder_of(lease) and said.get(EXECUTORS_ANNOTATION):
                names = [f"{said[SPARK_APP_ANNOTATION]}-exec-{one}" for one in said[EXECUTORS_ANNOTATION].split(",")]
                return {MemberId(name): Uid(f"uid-{name}") for name in names}
        return {}

    def _released(self, number: int, grant: Grant) -> bool:
        for lease in self._server.leases():
            said: Mapping[str, Any] = lease["metadata"].get("annotations") or {}
            pod = parse_releases(said.get(RELEASES_ANNOTATION) or "{}").get(grant.uid)
            if pod is not None and pod.names(self._name, number, grant.epoch):
                return True
        return False

    def _publish(self, members: Mapping[MemberId, Uid]) -> None:
        self._generation += 1
        self._uids |= members
        self._ledgers.publish([self._entry(member, uid) for member, uid in self._uids.items()])

    def _entry(self, member: MemberId, uid: Uid) -> MemberEntry:
        def mine(which: Callable[[Grant], bool]) -> dict[QueueName, dict[int, Epoch]]:
            return {self._name: {n: one.epoch for n, one in self._grants.items() if one.member == member and which(one)}}

        return MemberEntry(
            group="default/group",
            member=member,
            uid=uid,
            generation=self._generation,
            active=True,
            owned=mine(lambda grant: grant.taken_back is None),
            revoking=mine(lambda grant: grant.taken_back is not None),
        )
