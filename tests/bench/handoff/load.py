"""The load: numbers, round the partitions, at a steady rate.

`python -m tests.bench.handoff.load redis|kafka URL QUEUE PARTITIONS RATE`
sends until its standard input ends, and then says how many each partition has got."""

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaProducer

from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.redis import RedisProducer
from baton.queues.redis.routing import RoutingTable
from tests.waiting import PATIENCE

_EVERY = 0.016
"""Seconds between two sends: a quarter of that had the broker and all members at work for each message alone, and two processors
with nothing left for what is measured."""

Send = Callable[[Sequence[tuple[int, int]]], object]
"""Given partitions, and the number of the message in each."""


def keys(partitions: int) -> Sequence[bytes]:
    """One for each partition of a queue on Redis, where the key says which it is."""
    table = RoutingTable.even(1, partitions)
    found: dict[int, bytes] = {}
    number = 0
    while len(found) < partitions:
        key = b"key-%d" % number
        found.setdefault(table.partition_of(key), key)
        number += 1
    return [found[partition] for partition in range(partitions)]


def to_redis(url: str, queue: str, partitions: int) -> tuple[Send, Callable[[], object]]:
    producer = RedisProducer(url, queue, patience=PATIENCE)
    by_partition = keys(partitions)

    def send(messages: Sequence[tuple[int, int]]) -> None:
        for partition, number in messages:
            producer.produce(by_partition[partition], b"%d" % number)

    return send, producer.close


def to_kafka(servers: str, topic: str) -> tuple[Send, Callable[[], object]]:
    """By a producer that sends what it has for several partitions in one request, as Java's does. librdkafka has a request for
    each: with 2,000 in a second the messages waited for the broker for longer than consumers did, as soon as anything else was
    asked of it."""
    loop = EventLoopThread().user()

    async def connected() -> AIOKafkaProducer:
        made = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await made.start()
        return made

    producer = loop.run(connected(), PATIENCE)

    async def put(messages: Sequence[tuple[int, int]]) -> None:
        for partition, number in messages:
            await producer.send(topic, b"%d" % number, partition=partition)

    def close() -> None:
        loop.run(producer.stop(), PATIENCE)
        loop.close()

    return lambda messages: loop.run(put(messages), PATIENCE), close


def main() -> None:
    kind, url, queue, partitions, rate = sys.argv[1:]
    count = int(partitions)
    send, close = to_redis(url, queue, count) if kind == "redis" else to_kafka(url, queue)
    over = threading.Event()

    def end_with_input() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=end_with_input, daemon=True).start()
    began, sent = time.monotonic(), 0
    while not over.wait(_EVERY):
        due = int((time.monotonic() - began) * int(rate))
        send([(nth % count, nth // count) for nth in range(sent, due)])
        sent = due
    close()
    print(json.dumps([sent // count + (partition < sent % count) for partition in range(count)]), flush=True)


if __name__ == "__main__":
    main()
