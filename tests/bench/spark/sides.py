"""The compared sources, each as a DataFrame that streams the rows of one queue."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from baton.model.ids import Epoch, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.spark import Directory, Fleet
from baton.spark.executors import SparkExecutors
from tests.bench.spark import unowned
from tests.bench.spark.python_source import NAME, PlainPython
from tests.bench.spark.streams import GROUP, Streams
from tests.local_spark import EXECUTORS
from tests.waiting import until

MOST = 250_000
"""Default rows per batch."""


class Owned(Protocol):
    """Queues whose partitions can be granted."""

    @property
    def url(self) -> str: ...

    def grant(self, name: str, numbers: Sequence[int], uid: Uid) -> None:
        """Grant these partitions with the first epoch."""


class Side(Protocol):
    """A compared source."""

    name: str

    def __init__(self, spark: SparkSession, streams: Streams, folder: Path) -> None: ...

    def reading(self, queue: str, partitions: int, limit: int) -> AbstractContextManager[DataFrame]:
        """The queue's rows from the first on, with at most `limit` per batch."""


class Ours:
    """The source, with the executors owning partitions in turn."""

    name = "ours"

    def __init__(self, spark: SparkSession, streams: Owned, folder: Path) -> None:
        self._spark, self._streams, self._folder = spark, streams, folder
        self._executors = SparkExecutors(spark)
        until(lambda: len(self._executors.registered()) == EXECUTORS, "the executors are registered")
        self.read_on_owner = self.planned = 0
        """Ranges of all runs."""

    @contextmanager
    def reading(self, queue: str, partitions: int, limit: int) -> Iterator[DataFrame]:
        with TemporaryDirectory(dir=self._folder) as ledger:
            self._share_out(queue, partitions, Path(ledger))
            environment = Directory(Path(ledger), namespace="bench")
            fleet = Fleet(self._spark, group="owned", queues={queue: self._streams.url}, environment=environment)
            with fleet:
                yield _frame(self._spark, "owned", limit)
            found = fleet.statistics()
            self.read_on_owner += found.ranges_read_on_owner
            self.planned += found.ranges_planned

    def _share_out(self, queue: str, partitions: int, ledger: Path) -> None:
        members = [executor.pod for executor in self._executors.registered()]
        for nth, member in enumerate(members):
            uid, owned = Uid(f"uid-{member}"), range(nth, partitions, len(members))
            self._streams.grant(queue, owned, uid)
            grants = {QueueName(queue): dict.fromkeys(owned, Epoch(1))}
            (ledger / member).write_text(MemberEntry(GROUP, member, uid, 1, True, grants, {}).to_json())


class Unowned:
    """Our reader, without ownership."""

    name = "no ownership"

    def __init__(self, spark: SparkSession, streams: Streams, folder: Path) -> None:
        self._spark, self._streams = spark, streams
        start: Any = ensure_callback_server_started  # not typed by the library
        start(spark.sparkContext._gateway)

    @contextmanager
    def reading(self, queue: str, partitions: int, limit: int) -> Iterator[DataFrame]:
        java: Any = self._spark.sparkContext._jvm
        groups = java.dev.baton.spark.Group
        groups.register(unowned.GROUP, unowned.Unowned(self._streams, queue, partitions, limit))
        try:
            yield _frame(self._spark, unowned.GROUP, limit)
        finally:
            groups.release(unowned.GROUP)


class PythonSource:
    """A source in Python, with redis-py."""

    name = "a Python source"

    def __init__(self, spark: SparkSession, streams: Streams, folder: Path) -> None:
        self._spark, self._url = spark, streams.url
        spark.dataSource.register(PlainPython)

    @contextmanager
    def reading(self, queue: str, partitions: int, limit: int) -> Iterator[DataFrame]:
        reader = self._spark.readStream.format(NAME).options(url=self._url, queue=f"bench/{queue}")
        yield reader.options(partitions=partitions, maxRows=limit).load()


class Rate:
    """Spark's source of generated rows: it reads no queue."""

    name = "the rate source"

    def __init__(self, spark: SparkSession, streams: Streams, folder: Path) -> None:
        self._spark = spark

    @contextmanager
    def reading(self, queue: str, partitions: int, limit: int) -> Iterator[DataFrame]:
        reader = self._spark.readStream.format("rate-micro-batch")
        yield reader.options(rowsPerBatch=limit, numPartitions=partitions).load()


def _frame(spark: SparkSession, group: str, limit: int) -> DataFrame:
    return spark.readStream.format("baton").options(group=group, maxRowsPerTrigger=limit).load()
