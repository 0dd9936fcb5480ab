"""The source over a topic, compared with Spark's own Kafka source; both read the same topic in turn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tests.bench.comparison import Case, compared, tell
from tests.bench.spark import measuring
from tests.bench.spark.sides import MOST, Ours
from tests.bench.spark.topics import Topics
from tests.made_once import fetch_jars, made_once

T = TypeVar("T")

_POM = Path(__file__).parent / "connector" / "pom.xml"


class KafkaExtent(NamedTuple):
    """The sizes of the measurements."""

    partitions: int
    rounds: int
    batches: Mapping[int, int]
    """Number of measured batches after the first, by rows per batch."""
    drained: int
    """Rows read with AvailableNow."""


class Reader(Protocol):
    """One way to read a topic."""

    name: str

    def reading(self, queue: str, partitions: int, limit: int) -> AbstractContextManager[DataFrame]:
        """The topic's rows from the first on, with at most `limit` per batch."""


class Connector:
    """Spark's own source. It has no owners, and commits no offsets."""

    name = "Spark's Kafka source"

    def __init__(self, spark: SparkSession, topics: Topics) -> None:
        self._spark, self._topics = spark, topics

    @contextmanager
    def reading(self, queue: str, partitions: int, limit: int) -> Iterator[DataFrame]:
        reader = self._spark.readStream.format("kafka").options(subscribe=queue, startingOffsets="earliest")
        reader = reader.option("kafka.bootstrap.servers", self._topics.servers).option("kafka.isolation.level", "read_committed")
        yield reader.option("includeHeaders", value=True).option("maxOffsetsPerTrigger", limit).load()


def connector_jars() -> list[Path]:
    """The jars of Spark's Kafka source, which pyspark does not ship. Raises RuntimeError if Maven cannot fetch them."""
    return sorted((made_once("connector", (_POM,), lambda work: fetch_jars(_POM, work / "lib")) / "lib").glob("*.jar"))


class KafkaBench:
    """Both sources, on one Spark and one broker."""

    def __init__(
        self, spark: SparkSession, topics: Topics, executors: Callable[[], float], folder: Path, extent: KafkaExtent
    ) -> None:
        """`executors`: returns the CPU seconds of the executors."""
        self._topics, self._executors, self._folder, self._extent = topics, executors, folder, extent
        self._readers: tuple[Reader, Reader] = (Ours(spark, topics, folder), Connector(spark, topics))

    def cases(self) -> Iterator[Case]:
        extent = self._extent
        rows = max(extent.drained, *(limit * (batches + 2) for limit, batches in extent.batches.items()))
        topic = self._topics.filled(extent.partitions, rows)
        least = min(extent.batches)
        for reader in self._readers:
            tell(f"warming up: {reader.name}")
            self._read(reader, topic, least)
        for limit in extent.batches:
            yield from self._throughput(topic, limit)
        yield from self._drained(topic, rows)

    def _throughput(self, topic: str, limit: int) -> Iterator[Case]:
        what = f"Kafka, {limit:,} rows a batch, {self._extent.partitions} partitions"
        found = self._by_turns(what, lambda reader: self._read(reader, topic, limit))
        yield self._compared(what, "rows/s", found, lambda one: one.per_second)
        yield self._compared(f"time of a batch, {what}", "s", found, lambda one: one.batch_seconds)

    def _drained(self, topic: str, rows: int) -> Iterator[Case]:
        def read(reader: Reader) -> measuring.Drained:
            self._topics.begin()
            with reader.reading(topic, self._extent.partitions, MOST) as frame:
                return measuring.drained(frame, rows, (self._executors,), self._folder)

        what = f"Kafka, {rows:,} rows by AvailableNow, {self._extent.partitions} partitions"
        found = self._by_turns(what, read)
        yield self._compared(what, "rows/s", found, lambda one: one.per_second)
        yield self._compared(f"processor time of executors, {what}", "s/million rows", found, lambda one: one.worked[0])

    def _read(self, reader: Reader, topic: str, limit: int) -> measuring.Throughput:
        self._topics.begin()
        with reader.reading(topic, self._extent.partitions, limit) as frame:
            return measuring.throughput(frame, self._extent.batches[limit], self._folder)

    def _by_turns(self, what: str, read: Callable[[Reader], T]) -> list[tuple[T, T]]:
        found = []
        for nth in range(self._extent.rounds):
            tell(f"{what}: round {nth + 1} of {self._extent.rounds}")
            ours, theirs = map(read, self._readers)
            found.append((ours, theirs))
        return found

    def _compared(self, what: str, unit: str, found: Sequence[tuple[T, T]], figure: Callable[[T], float]) -> Case:
        ours, theirs = ([figure(one[side]) for one in found] for side in (0, 1))
        return compared(f"{what}; beside {self._readers[1].name}", unit, ours, theirs)
