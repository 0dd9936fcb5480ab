"""A source that a user might write with Spark's Python data sources and redis-py: a queue's streams, in Arrow batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import redis
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

NAME = "plain-python"
_PAGE = 5000


class PlainPython(DataSource):
    """Options: url, queue (namespace/name), partitions, maxRows."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "partition int, offset bigint, key binary, value binary, timestamp timestamp"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _Reader(self.options)


@dataclass
class _Range(InputPartition):
    number: int
    start: int
    end: int


class _Reader(DataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self._url, self._queue = options["url"], options["queue"]
        self._partitions = int(options["partitions"])
        self._most = int(options.get("maxRows", 0))

    def _stream(self, number: int) -> str:
        return f"pq:{{{self._queue}}}:{number}:stream:0"

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most) if self._most else ReadAllAvailable()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        with redis.Redis.from_url(self._url) as client, client.pipeline(transaction=False) as pipe:
            for number in range(self._partitions):
                pipe.xrange(self._stream(number), count=1)
            return {str(number): _number(found[0][0]) - 1 if found else 0 for number, found in enumerate(pipe.execute())}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        with redis.Redis.from_url(self._url) as client, client.pipeline(transaction=False) as pipe:
            for number in range(self._partitions):
                pipe.xrevrange(self._stream(number), count=1)
            last = {str(number): _number(found[0][0]) if found else 0 for number, found in enumerate(pipe.execute())}
        if isinstance(limit, ReadMaxRows):
            each = -(-limit.max_rows // self._partitions)
            last = {
                number: min(end, start[number] + each) if start[number] else end  # entries of one run have no gaps
                for number, end in last.items()
            }
        return last

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Range(int(number), start[number], end[number]) for number in end if end[number] > start[number]]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        with redis.Redis.from_url(self._url) as client:
            after = partition.start
            while after < partition.end:
                page: Any = client.xrange(self._stream(partition.number), f"({after}-0", f"{partition.end}-0", count=_PAGE)
                if not page:
                    return
                after = _number(page[-1][0])
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([partition.number] * len(page), pa.int32()),
                        pa.array([_number(entry) for entry, _ in page], pa.int64()),
                        pa.array([fields[b"k"] for _, fields in page], pa.binary()),
                        pa.array([fields[b"v"] for _, fields in page], pa.binary()),
                        pa.array([1000 * int(fields[b"t"]) for _, fields in page], pa.timestamp("us", "UTC")),
                    ],
                    names=["partition", "offset", "key", "value", "timestamp"],
                )


def _number(entry: bytes) -> int:
    return int(entry.partition(b"-")[0])
