"""What the pods of `test_plain_pods` run: a consumer that tells a Redis list, for each message, that it has processed it.

The list is fenced as the sink of an at-least-once consumer should be: it takes nothing of an epoch that is over, as far as it has
seen itself, and, where the queue is in Redis, by the owner record.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from uuid import uuid4

import redis

from baton.consumer import Consumer
from baton.model.ids import Partition
from baton.queues.entry import Entry

SINK = """
if redis.call('HGET', KEYS[4], ARGV[3]) == ARGV[4] then return end
redis.call('HSET', KEYS[4], ARGV[3], ARGV[4])
local known = math.max(tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0'), tonumber(redis.call('GET', KEYS[5]) or '0'))
local late = known > tonumber(ARGV[1])
if not late then redis.call('SET', KEYS[5], ARGV[1]) end
for _, list in ipairs({KEYS[2], KEYS[3]}) do redis.call('RPUSH', list, (late and '1' or '0') .. ARGV[2]) end
"""


def results(queue: str, partition: int) -> str:
    """The list of a partition; `queue` is namespace/name."""
    return f"processed:{{{queue}}}:{partition}"


def main() -> None:
    """Works until the pod is asked to stop."""
    record = Record(redis.Redis.from_url(os.environ["SINK_URL"]))
    Consumer.from_environment(on_assigned=record.assigned).run(record.handle)


class Record:
    """Tells the list of the partition, `processed:{namespace/queue}:partition`, and that of the whole queue, for keys may go from
    one partition to another: `processed:{namespace/queue}`. Once, though the server goes away meanwhile: what is counted twice
    was processed twice."""

    def __init__(self, server: redis.Redis) -> None:
        self._sink = server.register_script(SINK)
        self._root = f"{os.environ['POD_NAMESPACE']}/{os.environ['QUEUE']}"
        self._process = str(uuid4())
        """A container that starts again in place has the pod and the process id of the one before."""
        self._assigned: Counter[int] = Counter()
        self._told = 0
        self._work = float(os.environ.get("WORK_SECONDS", "0"))

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """A run begins: what was lost without an acknowledgement comes again, also where the ledger that took the partition away
        was put right at the same epoch."""
        self._assigned.update(partition.number for partition in partitions)

    def handle(self, entry: Entry) -> None:
        place = f"{{{self._root}}}:{entry.partition}"
        run = f"{os.environ['POD_UID']}-{entry.epoch}-{self._process}-{self._assigned[entry.partition]}"
        row = [
            entry.partition, entry.offset, entry.timestamp, entry.key.decode(), int(entry.value), entry.epoch, entry.redelivered,
            os.environ["POD_NAME"], 0, run,
        ]  # fmt: skip
        time.sleep(self._work)
        self._told += 1
        keys = [
            f"pq:{place}:owner",
            results(self._root, entry.partition),
            f"processed:{{{self._root}}}",
            f"told:{{{self._root}}}",
            f"epoch:{place}",
        ]
        while True:
            try:
                self._sink(keys, [entry.epoch, json.dumps(row), self._process, self._told])
                return
            except (redis.ConnectionError, redis.TimeoutError):
                time.sleep(0.05)


if __name__ == "__main__":
    main()
