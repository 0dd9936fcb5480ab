"""`make bench-consumer`: our consumer and producer beside redis-py alone (XREADGROUP, XACK, XADD) on the same work.

Both have their own streams on one Redis that is started here, consumers that are processes of their own, and their turns one
after the other, so that what else the machine does is felt by both. A table for people, and a last line of JSON.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import click

from tests.bench.comparison import Case, compared, report, tell
from tests.bench.readers import READ
from tests.bench.sides import Bare, Ours, Reading, Side
from tests.redis_server import RedisServer


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rounds: int
    drained: int
    """Entries that are consumed in a round."""
    full: tuple[int, ...]
    """Partitions of queues that are consumed,"""
    idle: tuple[int, ...]
    """and of those whose consumer waits for each entry."""
    sends: int
    """In a round."""
    turns: int
    """Of the two idle consumers,"""
    turn: int
    """of so many entries each."""
    rest: float
    """Seconds for which idle consumers are watched."""


WHOLE = Extent(5, 20_000, (1, 12, 100), (1, 12, 100, 500), 1000, 20, 15, 10.0)
TINY = Extent(1, 300, (1, 3), (1, 3), 30, 2, 3, 0.2)
_GAP = 0.015
"""Seconds between two entries, for a consumer to be idle again."""
_SETTLE = 1.0
_SHORT = 4
"""So many turns has a round of sends."""


class Bench:
    """One Redis, and sides of it that are closed in the end."""

    def __init__(self, server: RedisServer, folder: Path, extent: Extent, stack: ExitStack) -> None:
        self._server, self._folder, self._extent, self._stack = server, folder, extent, stack
        self._raw = stack.enter_context(server.client())
        self._names = count()

    def cases(self) -> Iterator[Case]:
        for partitions in self._extent.full:
            yield from self._consume(partitions)
        yield from self._send()
        for partitions in self._extent.idle:
            yield from self._wait(partitions)

    def _sides(self, partitions: int) -> list[Side]:
        """A new queue of each kind, on an empty server."""
        self._raw.flushall()
        sides: list[Side] = []
        for kind in (Ours, Bare):
            name = f"{kind.name}-{next(self._names)}"
            folder = self._folder / name
            folder.mkdir()
            sides.append(kind(self._server.url, f"bench/{name}", partitions, folder))
            self._stack.callback(sides[-1].close)
        return sides

    def _consume(self, partitions: int) -> Iterator[Case]:
        """What waits in a queue is read, handled by a function that does nothing, and acknowledged."""
        what, entries = f"{_partitions(partitions)}", self._extent.drained
        found: list[list[tuple[float, ...]]] = [[], []]
        for nth in range(self._extent.rounds):
            tell(f"consume and ack, {what}: round {nth + 1} of {self._extent.rounds}")
            for side, results in zip(self._sides(partitions), found, strict=True):
                side.fill_evenly(entries)
                with side.reading(entries) as reading:
                    before = self._server_did()
                    reading.begin()
                    took = json.loads(reading.answer())
                    after = self._server_did()
                if (left := side.unfinished()) > READ:
                    raise RuntimeError(f"{side.name}: {left} entries were handled and not acknowledged")
                asked = (round(later - earlier) / entries for earlier, later in zip(before, after, strict=True))
                results.append((entries / took["seconds"], 1e6 * took["worked"] / entries, *asked))
        units = (
            ("consume and ack", "messages/s"),
            ("processor time to consume and ack", "µs/message"),
            ("Redis commands (scripts' too) to consume and ack", "/message"),
            ("round trips to consume and ack", "/message"),
        )
        for place, (name, unit) in enumerate(units):
            yield compared(f"{name}, {what}", unit, *([result[place] for result in results] for results in found))

    def _send(self) -> Iterator[Case]:
        tell("sends, one by one and 200 at a time")
        sides = self._sides(12)
        for side in sides:
            side.send(0)
        single, many = max(1, self._extent.sends // _SHORT), max(1, self._extent.sends // _SHORT // 40)
        for name, sends, per_send in (
            ("single sends", single, 1),
            ("sends of 200 at a time", many, 200),
            ("lingering sends, beside a pipeline of 200", 1000 * many, 0),
        ):
            rates: list[list[float]] = [[], []]
            for _ in range(self._extent.rounds * _SHORT):  # each takes a moment only
                for side, found in zip(sides, rates, strict=True):
                    numbers = [number % 12 for number in range(per_send)]
                    began = time.monotonic()
                    for nth in range(sends):
                        if per_send == 0:
                            side.linger(nth % 12)
                        elif per_send == 1:
                            side.send(nth % 12)
                        else:
                            side.fill(numbers)
                    if not per_send:
                        side.flush()
                    found.append(sends * max(1, per_send) / (time.monotonic() - began))
            yield compared(name, "messages/s", *rates)

    def _wait(self, partitions: int) -> Iterator[Case]:
        """Both consumers wait, and get entries one by one, in turns."""
        what, extent = _partitions(partitions), self._extent
        tell(f"an idle consumer, {what}")
        sides = self._sides(partitions)
        with ExitStack() as stack:
            readings = [stack.enter_context(side.reading()) for side in sides]
            delays: list[list[float]] = [[], []]
            asked: list[list[tuple[float, ...]]] = [[], []]
            for reading in readings:
                reading.begin()
            for nth in range(extent.turns + 1):
                for which, (side, reading) in enumerate(zip(sides, readings, strict=True)):
                    before = self._server_did()
                    turn = [self._delay(side, reading, place) for place in range(extent.turn)]
                    after = self._server_did()
                    if nth:  # the first turn is for warming up
                        delays[which] += turn
                        asked[which].append(
                            tuple((later - earlier) / extent.turn for earlier, later in zip(before, after, strict=True))
                        )
            time.sleep(min(_SETTLE, extent.rest))
            worked = [reading.worked() for reading in readings]
            time.sleep(extent.rest)
            rested = [[60 * (reading.worked() - before) / extent.rest] for reading, before in zip(readings, worked, strict=True)]
        yield compared(f"idle consumer, from send to handler, p50, {what}", "ms", *delays)
        late = [[sorted(some)[-1 - len(some) // 100]] for some in delays]
        yield compared(f"idle consumer, from send to handler, p99, {what}", "ms", *late)
        for place, name in enumerate(
            ("Redis commands to send, wake, handle and ack one", "round trips to send, wake, handle and ack one")
        ):
            yield compared(f"{name}, {what}", "/message", *([one[place] for one in some] for some in asked))
        yield compared(f"processor time of an idle consumer, {what}", "s/minute", *rested)

    def _delay(self, side: Side, reading: Reading, nth: int) -> float:
        time.sleep(_GAP)
        side.send(nth * 7 % side.partitions)
        return int(reading.answer()) / 1e6

    def _server_did(self) -> tuple[int, int]:
        """Commands, those of scripts included, and reads from connections: up to now."""
        stats: dict[str, int] = self._raw.info("stats")
        return stats["total_commands_processed"], stats["total_reads_processed"]


def _partitions(number: int) -> str:
    return f"{number} partition{'s' if number > 1 else ''}"


@click.command()
@click.option("--tiny", is_flag=True, help="A few entries only, to see that it works: the figures say nothing.")
def main(tiny: bool) -> None:
    """Print a table, then one line of JSON."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-bench-")))
        server = stack.enter_context(RedisServer())
        report(Bench(server, folder, TINY if tiny else WHOLE, stack).cases(), 76, "redis-py")


if __name__ == "__main__":
    main()
