"""Carries out a change of the number of partitions at the server (`ResizeRecord`), in steps that can all be repeated.

The steps: seal the moving slots at their old partitions, open them at the new ones, publish the new table to producers, and move
the entries that arrived meanwhile to the new streams once all earlier entries are finished. A step is valid only in the server
history in which the record of the change was read and the previous step was confirmed, as a failover in between may have undone
them.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from re import fullmatch

from baton.queues.protocol import Resizing
from baton.queues.redis import records, scripts
from baton.queues.redis.batches import Batches, ScriptRun
from baton.queues.redis.keys import partition_keys, queue_key
from baton.queues.redis.records import ResizeRecord, Way
from baton.queues.redis.transport import Transport

_PAIRS = 1000
"""Producers' sequences per request to a target partition."""
_SOURCES, _PAGES = 8, 8
"""Source partitions, and pages of sequences of each, that are read before writing to targets, so that pages share requests."""
_PAGE = 32
"""KiB of a page: the sequences of some 300 producers."""
_WAYS = 4
"""Ways that are unblocked in one round trip, which the server executes without a break."""
_FOR = 1.0
"""Seconds of copying sequences, or of unblocking, before `advance` returns."""
_LINE = rb"([0-9]+:.+) ([0-9]+ [0-9]+)"


class Resizer:
    """Changes the number of partitions of one queue."""

    def __init__(self, transport: Transport, queue: str) -> None:
        self._transport = transport
        self._queue = queue_key(queue)
        self._keys = partial(partition_keys, queue)
        self._done: tuple[tuple[str, int], set[Way]] = (("", 0), set())
        """Server history and version of the change, and the ways that are unblocked."""
        self._uncopied: tuple[tuple[str, int], dict[int, str]] = (("", 0), {})
        """Server history and version of the change, and by partition the cursor at which copying its sequences continues."""

    async def begin(self, group_uid: str, change: ResizeRecord, partitions: int, history: str) -> bool:
        """Record a change from `partitions` partitions. `history`: the server's when it had the table before the change. False:
        another change is in progress, or was completed meanwhile, or the server has failed over."""
        arguments = (
            *(history, group_uid, change.before.version, max(partitions, change.partitions)),
            *(change.partitions, change.after.to_text()),
        )
        return bool(await self._transport.run(scripts.RESIZE, [self._queue], arguments, records.number))

    async def advance(self, change: ResizeRecord, history: str) -> Resizing | None:
        """Take the steps that are possible now. `history`: the server's when it had the record of the change. Returns what the
        change waits for; None: it is complete."""
        if not change.published and not await self._move(change, history):
            return _resizing(change, (), more=True)
        drained = await self._drained(change, history)
        left = await self._unblock(change, history, drained)
        arguments = history, change.version
        if not left and await self._transport.run(scripts.RESIZED, [self._queue], arguments, records.number) != 0:
            return None
        return _resizing(change, {source for source, _ in left}, more=any(source in drained for source, _ in left))

    def forget(self) -> None:
        """Partitions were created again, so their completed steps may be undone."""
        self._done = (("", 0), set())

    async def _move(self, change: ResizeRecord, history: str) -> bool:
        """Move the acceptance of slots to their new partitions and publish the new table. False: call again."""
        seals = [
            ScriptRun(scripts.SEAL, self._keys(source), (history, change.version, *slots))
            for source, slots in change.leaving.items()
        ]
        if not all(await self._transport.all(self._transport.durably, seals, records.number)):
            return False
        if not await self._copy_sequences(change, history):
            return False
        opened = await self._all(scripts.OPEN, change, history, change.ways, self._transport.durably)
        if not all(opened):
            return False
        return bool(await self._transport.run(scripts.PUBLISH, [self._queue], (history, change.version), records.number))

    async def _copy_sequences(self, change: ResizeRecord, history: str) -> bool:
        """Copy producers' sequences of the moving slots, so that a retry after a lost answer is recognized at the new partition.

        False: the next call continues. Sequences of a sealed slot do not change meanwhile.
        """
        if self._uncopied[0] != (history, change.version):
            self._uncopied = ((history, change.version), dict.fromkeys(change.leaving, "0"))
        uncopied = self._uncopied[1]
        until = time.monotonic() + _FOR
        while uncopied:
            cursors = dict(islice(uncopied.items(), _SOURCES))
            known: dict[int, list[bytes]] = defaultdict(list)
            for _ in range(_PAGES):
                cursors.update(await self._pages(change, cursors, known))
            if not await self._remember(known, history):
                return False
            uncopied.update(cursors)
            for source in [source for source, cursor in cursors.items() if not cursor]:
                del uncopied[source]
            if time.monotonic() > until:
                break
        return not uncopied

    async def _pages(self, change: ResizeRecord, cursors: Mapping[int, str], known: Mapping[int, list[bytes]]) -> dict[int, str]:
        """Add the next page of each source partition to `known`, by target. Returns the next cursors, "" at the end."""
        sources = [source for source, cursor in cursors.items() if cursor]
        asked = [
            ScriptRun(scripts.SEQUENCES, self._keys(one), (cursors[one], *change.leaving[one]), weight=_PAGE) for one in sources
        ]
        found: dict[int, str] = {}
        pages = await self._transport.all(self._transport.asking, asked, records.fields(2))
        for source, page in zip(sources, pages, strict=True):
            for line in (page[1] or b"").split(b"\n"):
                if (told := fullmatch(_LINE, line)) is not None:
                    slot = int(told[1].partition(b":")[0])
                    known[change.after.partitions[slot]] += (told[1], told[2])
            cursor = records.word(page[0], "cursor")
            found[source] = "" if cursor == "0" else cursor
        return found

    async def _remember(self, known: Mapping[int, Sequence[bytes]], history: str) -> bool:
        requests = [
            ScriptRun(scripts.REMEMBER, self._keys(target), (history, *pairs[start : start + 2 * _PAIRS]))
            for target, pairs in known.items()
            for start in range(0, len(pairs), 2 * _PAIRS)
        ]
        return all(await self._transport.all(self._transport.asking, requests, records.number))

    async def _drained(self, change: ResizeRecord, history: str) -> set[int]:
        """Return the source partitions that have finished all entries added before the seal."""
        if self._done[0] != (history, change.version):
            self._done = ((history, change.version), set())
        sources = {source for source, _ in change.ways.keys() - self._done[1]}
        asked = [ScriptRun(scripts.DRAINED, self._keys(source), (history, change.version)) for source in sources]
        found = await self._transport.all(self._transport.asking, asked, records.number)
        return {source for source, done in zip(sources, found, strict=True) if done}

    async def _unblock(self, change: ResizeRecord, history: str, drained: set[int]) -> set[Way]:
        """Move waiting entries to the new streams, from drained partitions. Returns the ways on which some still wait."""
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

    async def _all(
        self, script: scripts.Script, change: ResizeRecord, history: str, ways: Iterable[Way], batches: Batches
    ) -> list[int]:
        """Run one step for several ways, each at its target partition."""
        requests = [
            ScriptRun(script, self._keys(target), (history, change.version, source, *change.ways[source, target]))
            for source, target in ways
        ]
        return await self._transport.all(batches, requests, records.number)


def _resizing(change: ResizeRecord, waits_for: Iterable[int], *, more: bool) -> Resizing:
    return Resizing(max(change.before.partitions) + 1, change.partitions, tuple(sorted(waits_for)), more)
