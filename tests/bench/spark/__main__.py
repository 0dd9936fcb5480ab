"""Run the benchmarks, and print tables and a last line of JSON."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click
from pyspark.sql import SparkSession

from tests.bench.comparison import Case, compared, report, tell
from tests.bench.spark import bookkeeping, measuring
from tests.bench.spark.kafka import KafkaBench, KafkaExtent, connector_jars
from tests.bench.spark.scale_out import MEMBERS, Pace, ScaleOut
from tests.bench.spark.session import Processes, session
from tests.bench.spark.sides import MOST, Ours, PythonSource, Rate, Side, Unowned
from tests.bench.spark.streams import Streams
from tests.bench.spark.topics import Topics
from tests.kafka_broker import KafkaBroker
from tests.local_spark import SOON
from tests.redis_server import RedisServer


@dataclass(frozen=True)
class Extent:
    """The sizes of the measurements."""

    rounds: dict[int, int]
    """Partitions of the measured queues."""
    batches: dict[int, int]
    """Number of measured batches after the first, by rows per batch."""
    drained: int
    """Rows read with AvailableNow, from the queue with the fewest partitions."""
    drains: int
    """Rounds of AvailableNow, and of delays."""
    in_python: int
    """Most partitions for the source in Python: with more, it takes a minute per batch."""
    per_second: int
    """Rows per second while delays are measured."""
    seconds: float
    """Seconds of the measurements of delays, and at rest."""
    settle: float
    bookkeeping: tuple[int, int, int]
    """Partitions, executors and batches for bookkeeping."""
    kafka: KafkaExtent
    scale_out: Pace


WHOLE = Extent(
    {8: 3, 64: 1, 512: 1},
    {20_000: 4, 250_000: 2},
    1_000_000,
    1,
    64,
    1000,
    10.0,
    3.0,
    (1000, 100, 15),
    KafkaExtent(8, 3, {20_000: 8, 250_000: 4}, 2_000_000),
    Pace(3, 5.0, 4.0),
)
QUICK = Extent({2: 1}, {200: 1}, 600, 1, 2, 200, 1.0, 0.5, (20, 4, 2), KafkaExtent(2, 1, {200: 1}, 600), Pace(1, 1.0, 1.0))

Measured = dict[str, list[float]]
"""A figure of each round, by side."""


class Bench:
    """All compared sources, on one Spark and one Redis."""

    def __init__(self, streams: Streams, processes: Processes, folder: Path, sides: Sequence[Side], extent: Extent) -> None:
        """The first of `sides` is ours, and the last reads no queue."""
        self._streams, self._processes, self._folder, self._extent = streams, processes, folder, extent
        self._sides, self._readers = sides, sides[:-1]

    def cases(self) -> Iterator[Case]:
        for partitions, rounds in self._extent.rounds.items():
            rows = max(limit * (batches + 2) for limit, batches in self._extent.batches.items())
            least = partitions == min(self._extent.rounds)
            queue = self._streams.filled(partitions, max(rows, self._extent.drained) if least else rows)
            if least:
                self._warm_up(queue, partitions)
            for limit, batches in self._extent.batches.items():
                yield from self._throughput(queue, partitions, limit, batches, rounds)
            if least:
                yield from self._drained(queue, partitions)
            self._streams.delete(queue)
        yield from self._bookkeeping()
        yield from self._delays(min(self._extent.rounds))
        yield from self._at_rest(min(self._extent.rounds))
        if isinstance(ours := self._sides[0], Ours):
            share = ours.read_on_owner / ours.planned
            yield compared("ranges that were read on their owner, of all; beside all", "share", [share], [1.0])

    def _warm_up(self, queue: str, partitions: int) -> None:
        """Warm up, because the first source would pay for everything that loads once."""
        limit, batches = min(self._extent.batches.items())
        for side in self._sides:
            tell(f"warming up: {side.name}")
            with self._streams.copy(queue) as copied, side.reading(copied, partitions, limit) as frame:
                measuring.throughput(frame, batches, self._folder)

    def _throughput(self, queue: str, partitions: int, limit: int, batches: int, rounds: int) -> Iterator[Case]:
        rates: Measured = defaultdict(list)
        times: Measured = defaultdict(list)
        what = f"{limit:,} rows a batch, {partitions} partitions"
        sides = [side for side in self._sides if partitions <= self._extent.in_python or not isinstance(side, PythonSource)]
        for nth in range(rounds):
            tell(f"{what}: round {nth + 1} of {rounds}")
            for side in sides:
                with self._streams.copy(queue) as copied, side.reading(copied, partitions, limit) as frame:
                    found = measuring.throughput(frame, batches, self._folder)
                rates[side.name].append(found.per_second)
                times[side.name].append(found.batch_seconds)
        yield from self._compared(what, "rows/s", rates)
        yield from self._compared(f"time of a batch, {what}", "s", times)

    def _drained(self, queue: str, partitions: int) -> Iterator[Case]:
        rates: Measured = defaultdict(list)
        watched = {"executors": self._processes.executors, "Redis": self._streams.worked}
        worked: dict[str, Measured] = {name: defaultdict(list) for name in watched}
        rows = self._rows(queue, partitions)
        what = f"{rows:,} rows by AvailableNow, {partitions} partitions"
        for nth in range(self._extent.drains):
            tell(f"{what}: round {nth + 1} of {self._extent.drains}")
            for side in self._readers:
                with self._streams.copy(queue) as copied, side.reading(copied, partitions, MOST) as frame:
                    found = measuring.drained(frame, rows, watched.values(), self._folder)
                rates[side.name].append(found.per_second)
                for name, seconds in zip(watched, found.worked, strict=True):
                    worked[name][side.name].append(seconds)
        yield from self._compared(what, "rows/s", rates)
        for name, figures in worked.items():
            yield from self._compared(f"processor time of {name}, {what}", "s/million rows", figures)

    def _bookkeeping(self) -> Iterator[Case]:
        partitions, executors, batches = self._extent.bookkeeping
        what = f"bookkeeping of a batch, {partitions:,} partitions, {executors} executors"
        tell(what)
        found: Measured = {
            "ours": [1000 * seconds for seconds in bookkeeping.ours(self._streams, partitions, executors, batches)],
            "plain pipelines": [1000 * seconds for seconds in bookkeeping.plain(self._streams, partitions, batches)],
        }
        yield from self._compared(what, "ms", found)

    def _delays(self, partitions: int) -> Iterator[Case]:
        found: dict[str, Measured] = {"p50": defaultdict(list), "p95": defaultdict(list)}
        for nth in range(self._extent.drains):
            tell(f"send to process: round {nth + 1} of {self._extent.drains}")
            for side in self._readers:
                queue = self._streams.empty(partitions)
                with (
                    side.reading(queue, partitions, MOST) as frame,
                    self._streams.sending(queue, partitions, self._extent.per_second),
                ):
                    delays = measuring.delays(frame, self._extent.seconds, self._extent.settle, self._folder)
                found["p50"][side.name].append(delays[len(delays) // 2])
                found["p95"][side.name].append(delays[len(delays) * 95 // 100])
        for which, figures in found.items():
            yield from self._compared(f"send to process at {self._extent.per_second:,} rows/s, {which}", "ms", figures)

    def _at_rest(self, partitions: int) -> Iterator[Case]:
        tell("at rest")
        watched = {"driver": self._processes.driver, "executors": self._processes.executors, "Redis": self._streams.worked}
        found: dict[str, Measured] = {name: defaultdict(list) for name in watched}
        for side in self._readers:
            queue = self._streams.empty(partitions)
            with side.reading(queue, partitions, MOST) as frame:
                worked = measuring.at_rest(frame, watched.values(), self._extent.seconds, self._extent.settle, self._folder)
            for name, figure in zip(watched, worked, strict=True):
                found[name][side.name].append(figure)
        for name, figures in found.items():
            yield from self._compared(f"processor time at rest, {name}", "s/minute", figures)

    def _rows(self, queue: str, partitions: int) -> int:
        return sum(last - first for first, last in self._streams.bounds(queue, partitions).values())

    def _compared(self, name: str, unit: str, measured: Measured) -> Iterator[Case]:
        """Compare our source with each of the others."""
        (_, ours), *others = measured.items()
        for peer, figures in others:
            yield compared(f"{name}; beside {peer}", unit, ours, figures)


@click.command()
@click.option("--quick", is_flag=True, help="A few rows only, to see that it works: the figures say nothing.")
@click.option("--kafka", "only_kafka", is_flag=True, help="Only the topic, beside Spark's own source of Kafka.")
@click.option("--scale-out", "only_scale_out", is_flag=True, help="Only a busy query to which an executor comes.")
def main(quick: bool, only_kafka: bool, only_scale_out: bool) -> None:
    """Print a table, then one line of JSON."""
    extent, java = (QUICK, SOON) if quick else (WHOLE, "")
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as made:
        folder = Path(made)
        reading = () if only_scale_out else _reading(folder, extent, java, only_kafka=only_kafka)
        report(chain(reading, () if only_kafka else _scaled_out(folder, extent, java)), 100)


def _reading(folder: Path, extent: Extent, java: str, *, only_kafka: bool) -> Iterator[Case]:
    with session(folder, connector_jars(), java) as spark:
        processes = Processes(spark)
        if not only_kafka:
            yield from _over_redis(spark, processes, folder, extent)
        yield from _over_kafka(spark, processes, folder, extent)


def _over_redis(spark: SparkSession, processes: Processes, folder: Path, extent: Extent) -> Iterator[Case]:
    with RedisServer() as server:
        streams = Streams(server.url)
        sides: list[Side] = [side(spark, streams, folder) for side in (Ours, Unowned, PythonSource, Rate)]
        yield from Bench(streams, processes, folder, sides, extent).cases()


def _over_kafka(spark: SparkSession, processes: Processes, folder: Path, extent: Extent) -> Iterator[Case]:
    with KafkaBroker(measured=True) as broker:
        yield from KafkaBench(spark, Topics(broker), processes.executors, folder, extent.kafka).cases()


def _scaled_out(folder: Path, extent: Extent, java: str) -> Iterator[Case]:
    with session(folder, (), java, MEMBERS + 1) as spark, RedisServer() as server:
        yield from ScaleOut(spark, server.url, folder, extent.scale_out).cases()


if __name__ == "__main__":
    main()
