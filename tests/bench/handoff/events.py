"""The changes of a fleet, one after the other, while all of it works."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.handoff.records import Record
from tests.bench.handoff.systems import System


@dataclass(frozen=True)
class Extent:
    """How much is measured. Times in seconds."""

    members: int = 8
    partitions: int = 64
    rate: int = 2000
    """Messages per second."""
    steps: tuple[int, ...] = (2, 4, 8)
    """Members after each step up."""
    flaps: int = 2
    """How often one comes and goes,"""
    flap: float = 4.0
    """and between any two of these."""
    replaced_every: float = 2.0
    """In a rolling restart."""
    before: float = 5.0
    """For which the load has come before anything is changed: a second after the first messages of a new topic, a broker that has
    several large ones was seen to take no other for more than a second."""


QUICK = Extent(members=3, partitions=8, rate=200, steps=(2, 3), flaps=1, flap=1.5, replaced_every=1.5, before=0.0)

STEADY = 1.0
"""Seconds for which a fleet has its balance before it counts as settled."""
_SURGE = 0.3
"""Seconds between a new pod's Ready and the end of the one that it replaces."""
_WITHIN = 15.0
_KILLED_WITHIN = 75.0
"""A session of Kafka's takes 45 s to end; then there is a rebalance."""
_LOOK_EVERY = 0.05


class Window(NamedTuple):
    """A change that was made. Times are monotonic."""

    event: str
    begun: float
    acted: float
    """When the last of its parts was done: from here on the fleet may come to rest."""
    ended: float
    settled: bool


class Fleet:
    """The members of one system, and what they have handled so far."""

    def __init__(self, system: System, output: Path, extent: Extent, tell: Callable[[str], None]) -> None:
        output.touch()
        self.record = Record(extent.partitions)
        self.windows: list[Window] = []
        self._system, self._extent, self._tell = system, extent, tell
        self._lines = output.open()
        self._rest = ""
        self._names = (f"m-{number}" for number in itertools.count(1))
        self._members: list[str] = []

    async def live(self) -> None:
        """All of it."""
        extent = self._extent
        await self._add()
        await self._settled(time.monotonic(), 60.0)
        await asyncio.sleep(extent.before)
        await self._change(f"scale 1 -> {extent.members}", self._scale)
        await self._change("add one", self._add)
        await self._change("remove one", self._remove)
        await self._change("rolling restart", self._restart)
        await self._change("flapping", self._flap)
        await self._change("SIGKILL", self._kill, _KILLED_WITHIN)

    def look(self) -> None:
        """Take in what was handled since."""
        text = self._rest + self._lines.read()
        *lines, self._rest = text.split("\n")
        self.record.take_in(lines)

    async def _change(self, event: str, make: Callable[[], object], within: float = _WITHIN) -> None:
        self._tell(event)
        begun = time.monotonic()
        acted = await make()  # type: ignore[misc]
        settled = await self._settled(acted, within)
        self.windows.append(Window(event, begun, acted, time.monotonic(), settled))

    async def _settled(self, since: float, within: float) -> bool:
        """False: not in time."""
        steady: float | None = None
        while (now := time.monotonic()) < since + within:
            self.look()
            if not self.record.spread_over(self._members, max(since, now - STEADY)):
                steady = None
            elif steady is None:
                steady = now
            elif now - steady >= STEADY:
                return True
            await asyncio.sleep(_LOOK_EVERY)
        return False

    async def _add(self) -> float:
        self._members.append(next(self._names))
        await self._system.start(self._members[-1])
        return time.monotonic()

    async def _remove(self) -> float:
        await self._system.stop(self._members.pop(0))
        return time.monotonic()

    async def _scale(self) -> float:
        acted = time.monotonic()
        for count in self._extent.steps:
            while len(self._members) < count:
                acted = await self._add()
            if count < self._extent.members:
                await self._settled(acted, _WITHIN)
        return acted

    async def _restart(self) -> float:
        """With a surge of one: a new pod, and an old one goes when it is Ready."""
        acted = time.monotonic()
        for _ in range(self._extent.members):
            due = time.monotonic() + self._extent.replaced_every
            await self._add()
            await asyncio.sleep(_SURGE)
            acted = await self._remove()
            await asyncio.sleep(due - time.monotonic())
        return acted

    async def _flap(self) -> float:
        """The autoscaler adds one, takes it away, adds one …"""
        acted = time.monotonic()
        for _ in range(self._extent.flaps):
            await self._add()
            await asyncio.sleep(self._extent.flap)
            await self._system.stop(self._members.pop())
            acted = time.monotonic()
            await asyncio.sleep(self._extent.flap)
        return acted

    async def _kill(self) -> float:
        await self._system.kill(self._members.pop(0))
        return time.monotonic()
