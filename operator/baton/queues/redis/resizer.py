"""Carries out a change of the number of partitions at the server (`ResizeRecord`), in steps that may all be repeated.

Seal the slots where they are, open them where they go, tell the producers, and let the entries that came meanwhile follow as soon
as what came before them is done. Each step counts only in the history of the server in which the step before it was seen: a
failover in between may have undone that.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from re import fullmatch

from baton.queues.protocol import Resizing
from baton.queues.redis import records, scripts
from baton.queues.redis.batches import Batches, ScriptRun
from baton.queues.redis.keys import PartitionKeys, queue_key
from baton.queues.redis.records import ResizeRecord, Way
from baton.queues.redis.routing import RoutingTable
from baton.queues.redis.transport import Transport

_PAIRS = 1000
"""What is known of so many producers travels together."""
_SOURCES, _PAGES = 8, 8
"""Of so many partitions so many pages are read before the targets are told: many pages share a request to a target."""
_PAGE = 32
"""KiB of what is known of some 300 producers."""
_WAYS = 4
"""On so many at once entries are let follow: the server carries them out in one go."""
_FOR = 1.0
"""Seconds for which sequences are taken along, or entries are let follow, before the caller hears how far it is."""
_LINE = r"([0-9]+:.+) ([0-9]+ [0-9]+)"


class Resizer:
    """Of one queue."""

    def __init__(self, transport: Transport, queue: str, keys: Callable[[int], PartitionKeys]) -> None:
        self._transport = transport
        self._queue = queue_key(queue)
        self._keys = keys
        self._done: tuple[tuple[str, int], set[Way]] = (("", 0), set())
        """History and version, and the ways on which nothing is left to do."""
        self._untaken: tuple[tuple[str, int], dict[int, str]] = (("", 0), {})
        """History and version, and by partition the cursor from which its sequences have not been taken along."""

    async def begin(self, group_uid: str, change: ResizeRecord, partitions: int) -> bool:
        """Record a change from so many partitions; False: another is under way, or has been carried out meanwhile."""
        arguments = (
            *(group_uid, change.before.version, max(partitions, change.partitions)),
            *(change.partitions, change.after.to_text()),
        )
        return bool(await self._transport.run(scripts.RESIZE, [self._queue], arguments, records.number))

    async def advance(self, change: ResizeRecord) -> Resizing | None:
        """Take the steps that can be taken now; what is waited for, or None: it is done."""
        if not change.published and not await self._move(change):
            return _resizing(change, (), more=True)
        history, drained = await self._drained(change)
        left = await self._unblock(change, history, drained)
        if not left and await self._end(change, history):
            return None
        return _resizing(change, {source for source, _ in left}, more=any(source in drained for source, _ in left))

    def forget(self) -> None:
        """Partitions were made again, so what was done there may not be."""
        self._done = (("", 0), set())

    async def _move(self, change: ResizeRecord) -> bool:
        """Slots are accepted at their new places only, and producers are told."""
        seals = [
            ScriptRun(scripts.SEAL, self._keys(source), (change.version, *slots)) for source, slots in change.leaving.items()
        ]
        histories = set(await self._transport.all(self._transport.durably, seals, _history))
        if len(histories) != 1:
            return False
        history = histories.pop()
        if not await self._take_along(change, history):
            return False
        opened = await self._all(scripts.OPEN, change, history, change.ways, self._transport.durably)
        if not all(opened):
            return False
        return bool(await self._transport.run(scripts.PUBLISH, [self._queue], (history, change.version), records.number))

    async def _take_along(self, change: ResizeRecord, history: str) -> bool:
        """What is known of producers goes along with the slots: a retry after a lost answer is no duplicate at the new place.

        False: there is more, and the next call goes on from here. Nothing of a sealed slot changes meanwhile.
        """
        if self._untaken[0] != (history, change.version):
            self._untaken = ((history, change.version), dict.fromkeys(change.leaving, "0"))
        untaken = self._untaken[1]
        until = time.monotonic() + _FOR
        while untaken:
            cursors = dict(islice(untaken.items(), _SOURCES))
            known: dict[int, list[str]] = defaultdict(list)
            for _ in range(_PAGES):
                cursors.update(await self._pages(change, cursors, known))
            await self._remember(known)
            untaken.update(cursors)
            for source in [source for source, cursor in cursors.items() if not cursor]:
                del untaken[source]
            if time.monotonic() > until:
                break
        return not untaken

    async def _pages(self, change: ResizeRecord, cursors: Mapping[int, str], known: Mapping[int, list[str]]) -> dict[int, str]:
        """Add the next page of each partition to what is known, by target; where it goes on, "" at the end."""
        sources = [source for source, cursor in cursors.items() if cursor]
        asked = [
            ScriptRun(scripts.SEQUENCES, self._keys(one), (cursors[one], *change.leaving[one]), weight=_PAGE) for one in sources
        ]
        found: dict[int, str] = {}
        pages = await self._transport.all(self._transport.asking, asked, records.fields(2))
        for source, page in zip(sources, pages, strict=True):
            for line in (page[1] or b"").decode(errors="surrogateescape").split("\n"):
                if (told := fullmatch(_LINE, line)) is not None:
                    slot = int(told[1].partition(":")[0])
                    known[change.after.partitions[slot]] += (told[1], told[2])
            cursor = records.word(page[0], "cursor")
            found[source] = "" if cursor == "0" else cursor
        return found

    async def _remember(self, known: Mapping[int, Sequence[str]]) -> None:
        requests = [
            ScriptRun(scripts.REMEMBER, self._keys(target), [_raw(text) for text in pairs[start : start + 2 * _PAIRS]])
            for target, pairs in known.items()
            for start in range(0, len(pairs), 2 * _PAIRS)
        ]
        await self._transport.all(self._transport.asking, requests, records.number)

    async def _drained(self, change: ResizeRecord) -> tuple[str, set[int]]:
        """Partitions at which all is done that was added before their slots went."""
        sources = {source for source, _ in change.ways.keys() - self._done[1]} or set(change.leaving)
        asked = [ScriptRun(scripts.DRAINED, self._keys(source), (change.version,)) for source in sources]
        found = await self._transport.all(self._transport.asking, asked, records.scalars(2))
        histories = {_history(history) for history, _ in found}
        if len(histories) != 1:
            return "", set()
        history = histories.pop()
        if self._done[0] != (history, change.version):
            self._done = ((history, change.version), set())
            if len(sources) < len(change.leaving):
                return await self._drained(change)  # what was known of the others does not count any more
        return history, {source for source, (_, done) in zip(sources, found, strict=True) if done == 1}

    async def _unblock(self, change: ResizeRecord, history: str, drained: set[int]) -> set[Way]:
        """Let the entries follow whose turn it is; the ways on which some are left."""
        done = self._done[1]
        until = time.monotonic() + _FOR
        ways = [way for way in change.ways if way[0] in drained and way not in done]
        while ways:
            some, ways = ways[:_WAYS], ways[_WAYS:]
            ended = await self._all(scripts.UNBLOCK, change, history, some, self._transport.asking)
            done.update(way for way, one in zip(some, ended, strict=True) if one)
            ways += [way for way, one in zip(some, ended, strict=True) if not one]
            if time.monotonic() > until:
                break
        return set(change.ways) - done

    async def _end(self, change: ResizeRecord, history: str) -> bool:
        return bool(await self._transport.run(scripts.RESIZED, [self._queue], (history, change.version), records.number))

    async def _all(
        self, script: scripts.Script, change: ResizeRecord, history: str, ways: Iterable[Way], batches: Batches
    ) -> list[int]:
        """One step on several ways, each at the partition where it ends."""
        requests = [
            ScriptRun(script, self._keys(target), (history, change.version, source, *change.ways[source, target]))
            for source, target in ways
        ]
        return await self._transport.all(batches, requests, records.number)


def _history(raw: object) -> str:
    return records.word(records.text(raw), "master_replid")


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _resizing(change: ResizeRecord, waits_for: Iterable[int], *, more: bool) -> Resizing:
    return Resizing(_count(change.before), change.partitions, tuple(sorted(waits_for)), more)


def _count(table: RoutingTable) -> int:
    return max(table.partitions) + 1
