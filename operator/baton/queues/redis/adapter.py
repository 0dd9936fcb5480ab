"""The operator's adapter of a partitioned queue on Redis streams."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from re import fullmatch
from secrets import token_hex
from typing import TypeVar

from baton.model.ids import Epoch, Uid
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import Claimant, Ownership, QueueCheck, QueueConflict, QueueUnreachable, Resizing
from baton.queues.redis import backlog, records, scripts
from baton.queues.redis.announcements import Announcer
from baton.queues.redis.batches import ScriptRun
from baton.queues.redis.explanations import claimed_by_other
from baton.queues.redis.keys import ANY_PARTITION, PartitionKeys, partition_keys, queue_key
from baton.queues.redis.kind import KIND
from baton.queues.redis.records import ResizeRecord
from baton.queues.redis.resizer import Resizer
from baton.queues.redis.routing import SLOTS, RoutingTable
from baton.queues.redis.transport import Connections, Transport
from baton.queues.redis.url import dev_queue, read
from baton.queues.redis.url_files import TlsFiles

_LINE = r"([0-9]{1,4}) ([0-9]{1,16})(?: ([0-9]{1,4}|moved))?"


@dataclass
class KnownSlots:
    """The records that partitions keep of their slots: a routing table can be restored from them."""

    accepted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Slot -> (version, partition) of the latest record that accepts the slot."""
    moving: dict[int, int] = field(default_factory=dict)
    """Slot -> the partition that its entries wait for."""
    left: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Slot -> (version, partition) of the latest record that the slot left."""
    highest: int = 0
    """The highest version of all records."""
    partitions: int = 0
    """Number of partitions up to the last one with a record."""

    def add(self, partition: int, lines: str, highest: int) -> None:
        self.highest = max(self.highest, highest)
        self.partitions = partition + 1 if highest else self.partitions
        for line in lines.split(","):
            found = fullmatch(_LINE, line)
            if found is None or int(found[1]) >= SLOTS:
                continue
            slot, version = int(found[1]), int(found[2])
            if found[3] == "moved":
                self.left[slot] = max(self.left.get(slot, (0, 0)), (version, partition))
            elif version > self.accepted.get(slot, (0, 0))[0]:
                self.accepted[slot] = (version, partition)
                self.moving.pop(slot, None)
                if found[3] is not None:
                    self.moving[slot] = int(found[3])

    def record(self, even: RoutingTable) -> Sequence[object]:
        """Return the arguments of the script recall. A slot without a record goes where the even table puts it. So does a slot
        that was sealed and never opened; there its entries wait for those of the partition that it left."""
        homes = [self.accepted.get(slot, (0, home))[1] for slot, home in enumerate(even.partitions)]
        waits = dict(self.moving)
        elsewhere = next((homes[slot] for slot in self.moving), None)
        for slot, (version, source) in self.left.items():
            if version > self.accepted.get(slot, (0, 0))[0]:
                home = even.partitions[slot]
                # A partition does not take back a slot at the version at which other slots are moving.
                homes[slot] = elsewhere if home == source and elsewhere is not None else home
                waits[slot] = source
        waits = {slot: source for slot, source in waits.items() if homes[slot] != source}
        table = RoutingTable(self.highest + (not self.moving), tuple(homes))
        former = tuple(waits.get(slot, home) for slot, home in enumerate(homes))
        there = max(*homes, *former) + 1
        under_way = (replace(table, partitions=former).to_text(), max(homes) + 1) if waits else ()
        return (table.version, table.to_text(), there, max(there, self.partitions), *under_way)


async def known_slots(transport: Transport, keys: Callable[[int], PartitionKeys], count: int) -> KnownSlots | None:
    """Read the slot records of `count` partitions, and of those after them up to one without any. None: no partition has any."""
    found, asked = KnownSlots(), range(count)
    while asked:
        requests = [ScriptRun(scripts.SLOTS, keys(partition), (), weight=_SLOTS_TEXT) for partition in asked]
        answers = await transport.all(transport.asking, requests, records.scalars(2))
        for partition, (text, version) in zip(asked, answers, strict=True):
            highest = records.recorded(version, "version")
            found.add(partition, (records.text(text) or b"").decode(errors="replace"), highest)
        asked = range(asked.stop, min(asked.stop + 1, SLOTS) if highest else asked.stop)
    return found if found.highest else None


def _read(run_id: str, looked: Sequence[Sequence[bytes | None]]) -> tuple[Sequence[backlog.PartitionCheck], QueueCheck]:
    """Parse the answers of the script check. Raises OddAnswerError and ForeignRecord."""
    born, count, *_ = looked[0]
    seen = [one for *_, told in looked for one in backlog.read_checks(told)]
    return seen, QueueCheck(
        None if born is None else f"{records.word(run_id, 'run_id')}/{records.word(born, 'born')}",
        None if count is None else records.count(count),
        {partition: one.owner for partition, one in enumerate(seen) if one.owner is not None},
        lag={partition: one.backlog.lag for partition, one in enumerate(seen)},
        finished=sum(one.backlog.finished for one in seen),
        stale_refused={partition: one.refused for partition, one in enumerate(seen)},
        dead_letters={partition: one.dead for partition, one in enumerate(seen)},
        letters=sum(one.letters for one in seen),
    )


@lru_cache(maxsize=64)
def _even(count: int) -> str:
    """The text of the first routing table of a queue with `count` partitions."""
    return RoutingTable.even(1, count).to_text()


T = TypeVar("T")

_LOOKED_AT, _OFFSETS_AT_ONCE = 256, 64
"""Partitions per script check and offsets, so that the server is blocked for only a few milliseconds."""
_LONGEST_REST, _REST_FOR_EACH = 10.0, 0.01
"""Seconds between two checks of a queue: at most, and for each queue at the same server. A check takes about 0.5 ms."""
_TABLES, _SLOTS_TEXT = 24, 16
"""KiB of answers: three tables of 1024 partitions; the records of 1024 slots."""
_BEGINNING = (-1, 0)
_NOT_SET: Mapping[bytes | None, str] = {
    b"GRANTED": "was granted to another pod meanwhile",
    b"OUTSIDE": "has no such entry (any more)",
}


class RedisQueue:
    """`QueueAdapter` (baton.queues.protocol) of one queue and one group, and `SetsOffsets` (baton.queues.offsets).

    `queue` is namespace/name. Methods raise QueueUnreachable, with a sentence for the user, while the server is down, rejects the
    password or is too old; the next call tries again. The constructor raises it for an invalid Redis URL.
    """

    fenced = KIND.fenced
    answers_within = KIND.answers_within

    def __init__(
        self,
        url: str,
        queue: str,
        claimant: Claimant,
        *,
        max_delivered_unacked: int = 10_000,
        max_redeliveries: int = 0,
        stands_in: str = "the URL",
        tls_folder: Path | None = None,
        shared: bool = False,
    ) -> None:
        """`stands_in`: where the URL is written, for messages. `tls_folder`: see TlsFiles.folder. `shared`: share connections
        with all queues of this event loop that have the same URL.

        The limits come from the queue's spec; `ensure` writes them to all partitions, where readers apply them.
        `max_redeliveries` 0: no limit.
        """
        self._queue = queue
        self._limits = (max_delivered_unacked, max_redeliveries)
        self._claimant = claimant
        self._url = read(url, asker="`baton dev`" if dev_queue() else "The operator", stands_in=stands_in)
        self._announcing = Announcer(self._url, queue, claimant.group)
        files = TlsFiles(tls_folder, queue.partition("/")[0])
        # In a cluster each queue may be on another node, so connections are not shared.
        connections = Connections.shared(self._url, files) if shared and self._url.cluster is None else None
        self._transport = Transport(self._url, queue, self._announcing, files, connections)
        self._resizer = Resizer(self._transport, queue)
        self._made: tuple[str, int] | None = None
        """The server's history, and the number of partitions that are known to exist in it."""
        self._vanished = backlog.VanishedEntries(self._url.place, queue)
        self._looked: tuple[object, Sequence[backlog.PartitionCheck], QueueCheck] = (None, (), QueueCheck())
        """The raw answers of the last check, and their parsed values."""
        self._claimed: tuple[list[bytes | None], RoutingTable, ResizeRecord | None] | None = None
        """The raw answer of the last claim, and its parsed values."""
        self._finished: Mapping[int, int] = {}
        """By partition, the number of finished entries at the last check."""

    async def check(self) -> QueueCheck:
        """See QueueAdapter. The incarnation is the server's run id and the queue's birth mark, so a restart, a failover and a
        flushed database all change it."""
        server = await self._transport.discover()
        looked = server.run_id, await self._look()
        if looked != self._looked[0]:
            with self._transport.explained():
                self._looked = (looked, *_read(*looked))
        _, seen, checked = self._looked
        waiting: Mapping[int, backlog.WaitingEntries] = {}
        finished = {partition: one.backlog.finished for partition, one in enumerate(seen)}
        idle = {partition for partition, count in finished.items() if self._finished.get(partition, count) == count}
        all_idle, self._finished = len(idle) == len(finished), finished
        if asked := [
            partition for partition, one in enumerate(seen) if one.backlog.gone or (one.backlog.lag and partition in idle)
        ]:
            waiting = await self._ask_offsets(asked, backlog.read_waiting)
        vanished = {n: one.lost + (waiting[n].vanished if n in waiting else 0) for n, one in enumerate(seen)}
        checked = checked._replace(
            oldest=max((one.age for one in waiting.values() if one.age is not None), default=None) if all_idle else None,
            vanished=sum(vanished.values()),
            unfinished={partition: (one.oldest, one.times) for partition, one in waiting.items() if one.times > 1},
            warnings=(*server.warnings(self._url.place), *self._vanished.warnings(vanished)),
            rest=min(_LONGEST_REST, self._transport.connections.queues * _REST_FOR_EACH),
        )
        if not all(one.whole for one in seen):
            self._made = None  # some keys were deleted: `ensure` creates them again
        for partition, owner in checked.owners.items():
            self._announcing.set_owner(partition, owner.uid)
        return checked

    async def ensure(self, count: int | None) -> Resizing | None:
        """See QueueAdapter. Takes one round trip once the queue exists. Raises QueueConflict."""
        if self._transport.server is None:
            await self._transport.discover()
        expected = await self._count() if count is None else count
        if expected is None:
            return None
        key = queue_key(self._queue)
        us = self._claimant
        arguments = (us.group, us.uid, expected, 1, _even(expected), token_hex(4), *sorted(us.takes_over))
        run = ScriptRun(scripts.CLAIM, [key], arguments, later=self._made is None, weight=_TABLES)
        claimed = await self._transport.batched(self._transport.asking, records.fields(12), run)
        group, uid, found, version, text, ready, *others, replication = claimed
        limits, under_way = others[:2], others[2:]
        if uid != us.uid.encode():
            raise QueueConflict(claimed_by_other(self._queue, us, group, uid or b""))
        with self._transport.explained():
            there, history = records.count(found), records.word(replication, "master_replid")
            if self._claimed is None or self._claimed[0] != claimed:
                self._claimed = claimed, records.table(version, text, there), records.change(version, text, *under_way)
            _, table, change = self._claimed
            if ready is None and table.version == 1 and (known := await known_slots(self._transport, self._keys, there)):
                await self._transport.run(scripts.RECALL, [key], (history, *known.record(table)), records.number)
                return await self.ensure(count)
            limits_written = limits == [b"%d" % limit for limit in self._limits]
            if not (ready and limits_written and self._made == (history, there)):
                await self._create(history, table, range(there), change)
                self._resizer.forget()
                # READY comes last, so that an interrupted creation is repeated as a whole.
                self._check_history(await self._transport.run(scripts.READY, [key], (history, *self._limits), records.number))
                self._made = (history, there)
            if change is None and count is not None and there != count:
                change = ResizeRecord(table, table.resized(count), count, published=False)
                if count > there:
                    await self._create(history, table, range(there, count))
                if not await self._resizer.begin(us.uid, change, there, history):
                    return Resizing(there, count, ())  # perhaps another operator was faster
            return None if change is None else await self._resizer.advance(change, history)

    async def pause(self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None) -> int:
        arguments = epoch, "" if within is None else round(within * 1000)
        run = ScriptRun(scripts.PAUSE, self._keys(partition), arguments, self._announcing.hints(partition))
        return await self._transport.batched(self._transport.durably, records.number, run)

    async def outstanding(self, partition: int) -> int:
        return await self._transport.run(scripts.OUTSTANDING, self._keys(partition), (), records.number)

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        run = ScriptRun(scripts.GRANT, self._keys(partition), (uid or "", epoch), self._announcing.hints(partition, uid))
        answer = await self._transport.batched(self._transport.durably, records.scalars(3), run)
        with self._transport.explained():
            owner = records.owner(answer)
        self._announcing.set_owner(partition, owner.uid)
        return owner

    async def release(self) -> bool:
        await self._transport.run(scripts.RELEASE, [queue_key(self._queue)], (self._claimant.uid,), records.number)
        return True

    async def offsets(self) -> Mapping[int, PartitionOffsets]:
        found = await self._ask_offsets(range(await self._count() or 0), backlog.read_offsets)
        return {partition: one for partition, one in found.items() if one is not None}

    async def reach(self, partition: int, end: int, since: int | None = None) -> Reached:
        behind, entries = _BEGINNING, 0
        while True:
            arguments = ("" if behind == _BEGINNING else "{}-{}".format(*behind), end, "" if since is None else since)
            answer = await self._transport.run(scripts.REACH, self._keys(partition), arguments, records.scalars(3))
            with self._transport.explained():
                entries += records.recorded(answer[1], "entries")
                if not answer[2]:
                    return Reached(records.recorded(answer[0], "offset"), entries)
                before, behind = behind, backlog.read_entry(answer[2])
                if behind <= before:
                    raise records.OddAnswerError("an entry that is not after the previous one")

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        """See SetsOffsets. Offsets only move forward, because finished entries are deleted."""
        group, uid = await self._transport.fields(queue_key(self._queue), "group", "uid")
        if uid != self._claimant.uid.encode():
            raise QueueConflict(claimed_by_other(self._queue, self._claimant, group, uid or b""))
        answer: bytes | None = b"MORE"
        while answer == b"MORE":
            run = ScriptRun(scripts.SKIP, self._keys(partition), (epoch, offset))
            answer = await self._transport.batched(self._transport.durably, records.text, run)
        if answer != b"OK":
            raise QueueConflict(f"{self._queue}/{partition} {_NOT_SET.get(answer, 'is no partition of this queue')}")

    async def close(self) -> None:
        await self._transport.close()

    async def _create(self, history: str, table: RoutingTable, partitions: range, change: ResizeRecord | None = None) -> None:
        """Create these partitions, or missing keys of them. Entries of slots that a change has moved by this table wait there.
        `history`: the server's when it had the table."""
        slots: list[list[int | str]] = [[*each] for each in table.by_partition(partitions.stop)]
        for (source, target), moving in change.ways.items() if change is not None and change.published else ():
            slots[target] = [slot for slot in slots[target] if slot not in moving] + [f"{slot} {source}" for slot in moving]
        requests = [
            ScriptRun(scripts.CREATE, self._keys(partition), (history, *self._limits, table.version, *slots[partition]))
            for partition in partitions
        ]
        self._check_history(*await self._transport.all(self._transport.asking, requests, records.number))

    def _check_history(self, *answers: int) -> None:
        """Raises QueueUnreachable if a script was not run because the server is in another history now."""
        if not all(answers):
            what = f"failed over or was restarted while Baton created {self._queue}. Baton tries again"
            raise QueueUnreachable(f"{self._url.place} {what}.")

    async def _count(self) -> int | None:
        (count,) = await self._transport.fields(queue_key(self._queue), "partitions")
        with self._transport.explained():
            return None if count is None else records.count(count)

    async def _look(self) -> list[list[bytes | None]]:
        """Return the answers of the script check: one for each 256 partitions, including former ones."""
        keys, found = [queue_key(self._queue), *partition_keys(self._queue, ANY_PARTITION)], []
        known = len(self._looked[1]) or (self._made[1] if self._made else _LOOKED_AT)
        for first in range(0, SLOTS, _LOOKED_AT):
            run = ScriptRun(scripts.CHECK, keys, (first, _LOOKED_AT), weight=min(known, _LOOKED_AT))
            found.append(await self._transport.batched(self._transport.asking, records.fields(4), run))
            with self._transport.explained():
                if max(records.recorded(count, "partitions") for count in found[-1][1:3]) <= first + _LOOKED_AT:
                    break
        return found

    async def _ask_offsets(self, partitions: Iterable[int], read: Callable[[object], T]) -> dict[int, T]:
        """Run the script offsets once for each 64 partitions. A script that has looked at much data stops early, and the rest is
        asked again."""
        keys = partition_keys(self._queue, ANY_PARTITION)
        left, found = list(partitions), dict[int, T]()
        while left:
            parts = [left[begin : begin + _OFFSETS_AT_ONCE] for begin in range(0, len(left), _OFFSETS_AT_ONCE)]
            runs = [ScriptRun(scripts.OFFSETS, keys, part, weight=len(part)) for part in parts]
            answered = await self._transport.all(self._transport.asking, runs, records.some(read))
            for part, answers in zip(parts, answered, strict=True):
                found |= zip(part, answers, strict=False)
            left = [partition for partition in left if partition not in found]
        return found

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)
