"""Queues at servers that are no Redis, or a hostile one: reported with the cure, while the others are served."""

import asyncio
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant, Ownership, QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from baton.queues.redis.keys import queue_key
from tests.bench.scale.fleet import Extent
from tests.bench.scale.place import Report, place
from tests.clustered_redis import clustered_redis
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import KEEPS, SHOP, Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually
from tests.watched_redis import watched_redis

MEBIBYTES = 60
"""More than before, for all of these queues."""
INFO = b"run_id:%s\r\nredis_version:%s\r\nrole:master\r\naof_enabled:%s\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


ENDLESS = {
    "bulk": (b"$9000000000\r\n", b"x" * 65536),
    "array": (b"*1000000000\r\n", b":1\r\n" * 10_000),
    "arrays": (b"*1000000000\r\n", b"*0\r\n" * 10_000),
    "line": (b"+", b"x" * 65536),
    "nested": (b"", b"*1\r\n" * 10_000),
}
ODD = {
    "no-info": bulk(b"hello:1\r\n"),
    "no-version": bulk(INFO % (b"abc", b"9" * 5000 + b".1", b"1")),
    "no-number": bulk(INFO % (b"abc", b"7.2.0", b"abc")),
    "no-text": b"*3\r\n$1\r\na\r\n*1\r\n:5\r\n$-1\r\n",
    "number": b":1\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@contextmanager
def answering(begins: bytes, then: bytes = b"") -> Iterator[str]:
    """The URL of a server that answers each command so; or with `then` for ever."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while asked := self.request.recv(1 << 20):
                    self.request.sendall(begins * asked.count(b"*"))
                    while then:
                        self.request.sendall(then)
            except OSError:
                pass  # it was left

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        made = {name: stack.enter_context(answering(*what)) for name, what in ENDLESS.items()}
        yield made | {name: stack.enter_context(answering(what)) for name, what in ODD.items()}


async def test_queues_at_servers_that_are_no_redis_are_named_and_affect_no_other(
    empty: World, start: Callable[..., Operator], urls: dict[str, str]
) -> None:
    operator = await start(empty).leads()
    before = operator.peak_memory
    for name, url in urls.items():
        await empty.redis(name, url)
        await empty.group(name)
    for name in urls:
        said = await empty.told(name, "QueueUnreachable")
        assert "does not answer like Redis (" in said and f"Correct the URL of {empty.namespace}/{name}" in said, (name, said)
    await empty.fleet("good")
    log = operator.log.read_text()
    assert "Traceback" not in log and "unexpected failure" not in log
    assert operator.peak_memory < before + MEBIBYTES, (before, operator.peak_memory)


# -- A Redis without room: consumers that come back as other pods get their partitions, and what has piled up is worked off.


PARTITIONS, ENTRIES = 4, 400


async def test_returning_consumers_drain_a_full_redis(api: Cluster, start: Callable[..., Operator]) -> None:
    """Under an operator that begins only then, too."""
    world = await namespace(api, "full")
    operator = await start(world, "first").leads()
    with RedisServer(fsync="always") as server:
        await world.fleet("full", url=server.url, partitions=PARTITIONS)
        with RedisProducer(server.url, f"{world.namespace}/full", patience=0.2) as producer:
            producer.send_many((f"key-{number}", "x" * 1000) for number in range(ENTRIES))
            with server.client() as raw:
                raw.config_set("maxmemory-policy", "noeviction")
                raw.config_set("maxmemory", 1)
            with pytest.raises(QueueUnreachable, match="is full"):
                producer.send("key", "one more")
            former = (await world.owned("full"))["full-a"]
            operator.kill()
            await start(world, "second").leads()
            await world.delete_pod("full-a")
            uid = await world.pod("full-a", "full")
            grants = await granted(world, uid, former)
            assert drained(server, world, uid, grants) == ENTRIES
            await world.told("full", "Ready")
            with server.client() as raw:
                raw.config_set("maxmemory", 0)
            producer.send("key", "one more")


async def granted(world: World, uid: Uid, former: dict[int, Epoch]) -> dict[int, Epoch]:
    """What the new pod has, once it has all of it, above what the pod before it had."""

    async def so() -> dict[int, Epoch]:
        entry = (await world.entries("full")).get("full-a")
        owned = {} if entry is None or entry.uid != uid else (await world.owned("full"))["full-a"]
        return owned if len(owned) == PARTITIONS and all(owned[number] > former[number] for number in owned) else {}

    return await eventually(so, "the new pod is granted everything", shown=lambda: world.ledger_data("full"))


def drained(server: RedisServer, world: World, uid: Uid, grants: dict[int, Epoch]) -> int:
    """How many entries the owner reads and acknowledges, until there are none."""
    done = 0
    with RedisReader(server.url, f"{world.namespace}/full", uid) as reader:
        for number, epoch in grants.items():
            while entries := reader.read(number, epoch):
                reader.ack(number, epoch, [entry.offset for entry in entries])
                done += len(entries)
    return done


# -- The operator finds a queue's primary by its Sentinels, with the URL from a Secret.


async def goes_on(world: World, name: str, queue: RedisQueue, owner: Uid, before: Mapping[int, Ownership]) -> None:
    """The group of this name grants its four partitions to their owner again, above the former epochs, and half of them to a
    second pod."""

    async def asserted() -> bool:
        try:
            after = (await queue.check()).owners
        except QueueUnreachable:
            return False
        return all(one.uid == owner and one.epoch > before[partition].epoch for partition, one in after.items())

    await eventually(asserted, "all partitions are granted again, above the former epochs", shown=queue.check)
    await world.told(name, "Ready")
    await world.pod(f"{name}-b", name)
    await world.spread(name, 2, 2)
    await world.told(name, "Ready")


async def test_owners_are_granted_again_at_the_primary_that_sentinels_promote(shop: World) -> None:
    with watched_redis() as watched:
        await shop.secret("promoted-redis", watched.url())
        await shop.queue("promoted", {"type": "Redis", "redis": {"urlSecretRef": {"name": "promoted-redis"}}}, 4)
        await shop.group("promoted")
        a = await shop.pod("promoted-a", "promoted")
        await shop.spread("promoted", 4)
        queue = RedisQueue(watched.url(), f"{SHOP}/promoted", Claimant(f"{SHOP}/promoted", "a test"))
        before = (await queue.check()).owners
        await asyncio.to_thread(watched.fail_over, crash=True)
        await goes_on(shop, "promoted", queue, a, before)
        await queue.close()


# -- The operator on a Redis Cluster: a queue whose slot moves to another node, and announcements that are on another one.


async def test_owners_are_granted_again_at_the_node_that_a_queue_moves_to(shop: World) -> None:
    with clustered_redis() as cluster:
        (a,) = await shop.fleet("clustered", url=cluster.url(), partitions=4)
        queue = RedisQueue(cluster.url(), f"{SHOP}/clustered", Claimant(f"{SHOP}/clustered", "a test"))
        before = (await queue.check()).owners
        key = queue_key(f"{SHOP}/clustered")
        with cluster.moving(key, cluster.other(key), lambda keys: keys[::2]):
            await shop.told("clustered", "QueueUnreachable")
        await goes_on(shop, "clustered", queue, a, before)
        await queue.close()


# -- Many groups whose queues are at one Redis, beside some at a Redis that hangs: counts, which a busy machine changes little.


GROUPS, CONNECTIONS = 40, 16


async def test_forty_groups_on_one_redis_share_sixteen_connections() -> None:
    with RedisServer() as server, server.client() as raw:
        source = {"type": "Redis", "redis": {"url": server.url}}
        before = _connected(raw)
        async with place(Report(GROUPS, 0, 1200), Extent(GROUPS, pods=2, heartbeat=1200), source) as here:
            async with here.operator(options=KEEPS) as operator:
                await here.converged(operator)
                assert here.fleet.unsettled == 0
                assert await here.fleet.wrong() == {}
                assert _connected(raw) - before <= CONNECTIONS
            assert here.fleet.epochs.broken == []


def _connected(raw: Any) -> int:
    """Connections that were made, until now."""
    return int(raw.info("stats")["total_connections_received"])
