"""Our reader without ownership: its driver's side knows no ledger, no epoch and no loan, and records nothing at the queue.

What is done it removes, as every consumer of a queue has to.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from baton.queues.redis.keys import ANY_PARTITION, partition_keys
from tests.bench.spark.streams import Streams

GROUP = "unowned"


class Unowned:
    """`dev.baton.spark.Decisions` for one queue, read from its first entry on. Every range is read by plain XRANGE, anywhere."""

    def __init__(self, streams: Streams, queue: str, partitions: int, limit: int) -> None:
        self._streams, self._queue, self._partitions = streams, queue, partitions
        self._each = -(-limit // partitions)
        self._removing = ThreadPoolExecutor(1)
        host, _, port = streams.url.rpartition("/")[0].rpartition("//")[2].rpartition(":")
        self._server = {"mode": "single", "nodes": [f"{host}:{port}"], "db": 0, "tls": None, "unix": None, "timeoutSeconds": 5}

    def open(self, options: str, query: str) -> str:
        return json.dumps({"stream": f"{GROUP}-{self._queue}"})

    def initialOffset(self, stream: str) -> str:  # noqa: N802 - the interface's names
        bounds = self._streams.bounds(self._queue, self._partitions)
        return self._offset({number: first for number, (first, _) in bounds.items()})

    def latestOffset(self, stream: str, start: str) -> str:  # noqa: N802
        bounds, begun = self._streams.bounds(self._queue, self._partitions), self._positions(start)
        return self._offset({number: min(last, begun[number] + self._each) for number, (_, last) in bounds.items()})

    def plan(self, stream: str, start: str, end: str, batch: str) -> str:
        begun, ended = self._positions(start), self._positions(end)
        ranges = [self._range(number, begun[number], last) for number, last in ended.items() if last > begun[number]]
        keys = partition_keys(f"bench/{self._queue}", ANY_PARTITION)
        queue: dict[str, Any] = {"kind": "redis", "server": self._server, "keys": keys, "stream": keys.stream}
        queue["query"] = 0  # nothing is checked
        return json.dumps({"ranges": ranges, "queues": {self._queue: queue}})

    def commit(self, stream: str, end: str) -> str:
        self._removing.submit(self._remove, self._positions(end))  # beside the next batch, as ours does
        return "{}"

    def metrics(self, stream: str, consumed: str) -> str:
        return "{}"

    def prepareAvailableNow(self, stream: str) -> str:  # noqa: N802
        return "{}"

    def stop(self, stream: str) -> str:
        self._removing.shutdown()
        return "{}"

    def batch(self, options: str) -> str:
        return json.dumps({"error": "the benchmark reads streams"})

    def _remove(self, done: dict[int, int]) -> None:
        with self._streams.client.pipeline(transaction=False) as pipe:
            for number, end in done.items():
                pipe.xtrim(partition_keys(f"bench/{self._queue}", number).stream, minid=f"{end + 1}-0", approximate=False)
            pipe.execute()

    def _offset(self, positions: dict[int, int]) -> str:
        return json.dumps({self._queue: {str(number): position for number, position in positions.items()}})

    def _positions(self, offset: str) -> dict[int, int]:
        return {int(number): position for number, position in json.loads(offset)[self._queue].items()}

    def _range(self, number: int, start: int, end: int) -> dict[str, Any]:
        return {
            "queue": self._queue,
            "partition": number,
            "start": start,
            "end": end,
            "uid": "",
            "epoch": 0,
            "executor": "",
            "location": "",
            "redeliveredTo": 0,
        }

    class Java:
        """Read by py4j."""

        implements = ("dev.baton.spark.Decisions",)
