"""All keys of a queue on Redis, in their documented format."""

from collections import Counter
from contextlib import closing
from typing import Any

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Ownership
from tests.formats import same
from tests.integration.redis.conftest import make_queue
from tests.integration.redis.logged import ahead, logged, ranges_of
from tests.redis_server import RedisServer

ONE, TWO = Epoch(1), Epoch(2)
VOLATILE = {
    r"\b[0-9a-f]{40}\b": "run of the server",
    r"\b[0-9a-f]{12}-\d+-\d+\b": "process",
    r"\b[0-9a-f]{12}\b": "producer",
    r"\b\d{16}\b": "number {}",
    r"\b\d{13}\b": "ms",
    r"\b\d{10}\b": "s",
    r"(?<=\"born\": \")[0-9a-f]{8}": "random",
}


async def test_the_keys_of_a_queue_have_their_documented_format() -> None:
    """Two partitions become three. One is paused with entries in hand; the other has a logged range."""
    with RedisServer() as server, server.client() as raw:
        queue = await make_queue(server.url, name="shop/orders")
        with closing(ranges_of(queue)) as ranges:
            await queue.limited(most=100, redeliveries=3)
            queue.send("done", "rejected", "failed")
            queue.producer.send(queue.key(0), "in hand", {"trace": "7"})
            queue.send("a", "b", partition=1)
            owner = await queue.granted("pod-a", 1)
            done, rejected, failed, _ = owner.read(0, ONE)
            owner.ack(0, ONE, [done.offset])
            assert owner.retry(0, ONE, failed.offset, "it failed")
            owner.set_aside(0, ONE, rejected.offset, "it is no number")
            await queue.granted("pod-b", 1, 1)
            query, start = ranges.begin(), ranges.positions()[1].committed
            logged(ranges, query, start, ahead(ranges, query, ("pod-b", 1), start, most=1, partition=1).end, partition=1)
            await queue.operator.pause(0, ONE, 30.0, Ownership(Uid("pod-b"), TWO))
            await queue.operator.ensure(3)
            queue.send("waits")
            same("redis.json", {text(key): content(raw, key) for key in sorted(raw.keys())}, VOLATILE)
        await queue.close()


def content(raw: Any, key: bytes) -> Any:
    if raw.type(key) == b"hash":
        fields = {name.decode(): value.decode() for name, value in sorted(raw.hgetall(key).items())}
        return {"slots by value": dict(sorted(Counter(fields.values()).items()))} if key.endswith(b":slots") else fields
    assert raw.type(key) == b"stream"
    groups = raw.xinfo_groups(key)
    shown = [{name: text(one[name]) for name in ("name", "consumers", "pending", "last-delivered-id")} for one in groups]
    entries = [{"id": text(at)} | {text(name): text(value) for name, value in fields.items()} for at, fields in raw.xrange(key)]
    return {"entries": entries, "groups": shown}


def text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
