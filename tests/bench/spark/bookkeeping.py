"""What the driver does for a batch beside its tasks: it asks how far to read, places and records the ranges, and finishes them.

No Spark runs: the decisions are called as the JVM calls them, and what tasks report is made up. Beside it, the least that a
driver without ownership would ask of the same queue, by pipelines of redis-py.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.redis import RedisProducer
from baton.queues.redis.keys import partition_keys
from baton.spark.decisions import Decisions
from baton.spark.executors import Executor, by_pod
from baton.spark.finishing import Finishing
from baton.spark.queues import FleetQueues
from baton.spark.statistics import RangeReport, parse_reports
from tests.bench.spark.streams import GROUP, Streams, keys_of
from tests.fleet_context import fleet_context
from tests.written_ledger import WrittenLedger

_LOOK = 0.001
_EACH = 2
"""Rows per partition in a batch."""


class _Tasks:
    """The reports of tasks that have read everything as owners."""

    def __init__(self) -> None:
        self._text = "[]"

    def read(self, plan: str) -> None:
        self._text = json.dumps(
            [
                {name: one[name] for name in ("queue", "partition", "end")} | {"how": "owner", "rows": _EACH, "bytes": 200}
                for one in json.loads(plan)["ranges"]
            ]
        )

    def reports(self, stream: str) -> list[RangeReport]:
        text, self._text = self._text, "[]"
        return parse_reports(text)


def ours(streams: Streams, partitions: int, executors: int, batches: int) -> list[float]:
    """Seconds of each batch, from the request for its end until everything is finished at the queue."""
    queue = streams.empty(partitions)
    everybody = [Executor(str(nth), f"10.0.{nth // 250}.{nth % 250}", MemberId(f"exec-{nth}")) for nth in range(executors)]
    ledger = _shared_out(streams, queue, partitions, everybody)
    tasks = _Tasks()
    with _decisions(streams.url, queue, ledger, everybody, tasks) as (decisions, finishing):
        stream = json.loads(decisions.open(json.dumps({"group": "bookkeeping"}), json.dumps({"id": "query", "sources": 1})))[
            "stream"
        ]
        at = decisions.latestOffset(stream, "{}")
        decisions.plan(stream, "{}", at, "0")
        found = []
        for nth in range(batches):
            _send(streams.url, queue, partitions)
            began = time.perf_counter()
            end = decisions.latestOffset(stream, at)
            plan = decisions.plan(stream, at, end, str(nth + 1))
            spent = time.perf_counter() - began
            tasks.read(plan)
            began = time.perf_counter()
            decisions.commit(stream, end)
            while not finishing.settled():
                time.sleep(_LOOK)
            found.append(spent + time.perf_counter() - began)
            assert len(json.loads(plan)["ranges"]) == partitions
            at = end
    streams.delete(queue)
    return found


def plain(streams: Streams, partitions: int, batches: int) -> list[float]:
    """Seconds of each batch with three pipelines: the last entry of each partition, a record of the range, and a trim."""
    queue = streams.empty(partitions)
    keys = [partition_keys(f"bench/{queue}", number) for number in range(partitions)]
    found = []
    for _ in range(batches):
        _send(streams.url, queue, partitions)
        began = time.perf_counter()
        with streams.client.pipeline(transaction=False) as pipe:
            for one in keys:
                pipe.xrevrange(one.stream, count=1)
            ends = [entries[0][0] for entries in pipe.execute()]
            for one, end in zip(keys, ends, strict=True):
                pipe.hset(one.progress, "noted", end)
            pipe.execute()
            for one, end in zip(keys, ends, strict=True):
                pipe.xtrim(one.stream, minid=end)
            pipe.execute()
        found.append(time.perf_counter() - began)
    streams.delete(queue)
    return found


@contextmanager
def _decisions(
    url: str, queue: str, ledger: WrittenLedger, executors: Sequence[Executor], tasks: _Tasks
) -> Iterator[tuple[Decisions, Finishing]]:
    queues, ready = FleetQueues({QueueName(queue): url}, "bench", "group"), by_pod(executors)
    context = fleet_context(queues, ledger, lambda: ready, reports=tasks.reports, group="bookkeeping", repeat_wait=0)
    context.finishing.start()
    try:
        yield Decisions(context, frozenset, lambda: None), context.finishing
    finally:
        context.finishing.close(5)
        queues.close()


def _shared_out(streams: Streams, queue: str, partitions: int, executors: Sequence[Executor]) -> WrittenLedger:
    entries = []
    for nth, executor in enumerate(executors):
        uid, owned = Uid(f"uid-{executor.pod}"), range(nth, partitions, len(executors))
        streams.grant(queue, owned, uid)
        grants = {QueueName(queue): dict.fromkeys(owned, Epoch(1))}
        entries.append(MemberEntry(GROUP, executor.pod, uid, 1, True, grants, {}))
    ledger = WrittenLedger()
    ledger.write(*entries)
    return ledger


def _send(url: str, queue: str, partitions: int) -> None:
    keys = keys_of(partitions)
    with RedisProducer(url, f"bench/{queue}") as producer:
        for begin in range(0, len(keys), 1000):
            producer.send_many((key, b"." * 100) for key in keys[begin : begin + 1000] for _ in range(_EACH))
