"""A wait ends when it is asked to, also where the server that it blocks at is not the queue's any more, and does not answer."""

import pytest

from baton.model.ids import Epoch
from baton.queues.redis import wakeup
from baton.queues.redis.keys import queue_key
from tests.clustered_redis import clustered_redis
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.test_waiting import Waiting
from tests.redis_server import RedisServer
from tests.waiting import HOUR, until
from tests.watched_redis import watched_redis

ONE = Epoch(1)


@pytest.fixture(autouse=True)
def _no_block_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "_LONGEST_BLOCK", HOUR)


async def blocked(queue: Queue, server: RedisServer) -> Waiting:
    owner = await queue.granted("a", ONE)
    assert owner.read(0, ONE) == []
    waiting = Waiting(owner, 0)
    with server.client() as raw:
        until(lambda: raw.info("clients")["blocked_clients"], "the wait blocks")
    return waiting


async def test_a_wait_at_a_primary_that_hangs_ends_with_sentinels() -> None:
    with watched_redis() as watched:
        queue = await make_queue(watched.url())
        primary = watched.primary()
        waiting = await blocked(queue, primary)
        primary.freeze()
        try:
            until(lambda: watched.primary() is not primary, "the Sentinels have another primary")
            waiting.reader.interrupt()
            assert waiting.result() == set()
        finally:
            primary.thaw()
            await queue.close()


async def test_a_wait_at_a_master_that_hangs_ends_in_a_cluster() -> None:
    with clustered_redis() as cluster:
        queue = await make_queue(cluster.url())
        key = queue_key(queue.name)
        master = cluster.master(key)
        waiting = await blocked(queue, master)
        replica = cluster.replica(master)
        master.freeze()
        try:
            with replica.client() as raw:
                until(lambda: raw.execute_command("ROLE")[0] == b"master", "the replica takes over")
            waiting.reader.interrupt()
            assert waiting.result() == set()
        finally:
            master.thaw()
            await queue.close()


async def test_a_wait_at_a_server_that_hangs_ends() -> None:
    with RedisServer() as server:
        queue = await make_queue(server.url)
        waiting = await blocked(queue, server)
        server.freeze()
        try:
            waiting.reader.interrupt()
            assert waiting.result() == set()
        finally:
            server.thaw()
            await queue.close()
