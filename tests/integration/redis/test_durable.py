"""A change of owner or an entry waits for replicas, and never for a disk.

Since Redis 7.2 WAIT only covers writes of its own connection. A send or grant repeated on another connection must wait as well.
"""

import logging
import threading

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisProducer, scripts
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import make_queue, own_queue, replicated_queue
from tests.redis_server import RedisServer
from tests.waiting import eventually, until


@pytest.mark.parametrize("valkey", [False, True])
@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
async def test_a_change_of_owner_waits_for_no_disk(caplog: pytest.LogCaptureFixture, fsync: str, *, valkey: bool) -> None:
    """Waiting for the disk took a second, and was useless if the server leaves syncing to its machine."""
    caplog.set_level(logging.WARNING)
    with RedisServer(fsync=fsync, valkey=valkey) as server, server.client() as raw:
        queue = await make_queue(server.url)
        for epoch in range(1, 4):
            await queue.granted("a", epoch)
            await queue.operator.pause(0, Epoch(epoch))
        assert caplog.messages == []
        asked = raw.info("commandstats")
        assert "cmdstat_waitaof" not in asked and "cmdstat_wait" not in asked
        await queue.close()


@pytest.mark.parametrize("valkey", [False, True])
async def test_an_answered_change_of_owner_survives_a_crash_with_appendfsync_always(*, valkey: bool) -> None:
    async with own_queue(fsync="always", valkey=valkey) as (server, queue):
        for epoch in range(1, 20):
            await queue.granted("a", epoch)
        server.kill()
        server.start()

        async def owned() -> object:
            try:
                return (await queue.operator.check()).owners[0]
            except QueueUnreachable:
                return None

        assert await eventually(owned) == (Uid("a"), Epoch(19), False)


@pytest.mark.parametrize("valkey", [False, True])
async def test_an_entry_sent_again_on_a_new_connection_waits_for_replicas(*, valkey: bool) -> None:
    async with replicated_queue(valkey=valkey) as (primary, replica, queue):
        producer = RedisProducer(primary.url, queue.name, replicas=1, patience=5.0)
        producer.send(queue.key(0), "1")
        replica.freeze()
        failures: list[str] = []

        def send() -> None:
            try:
                producer.send(queue.key(0), "2")
            except QueueUnreachable as failure:
                failures.append(str(failure))

        sending = threading.Thread(target=send)
        sending.start()
        with primary.client() as raw:
            until(lambda: raw.xlen(partition_keys(queue.name, 0).stream) == 2)
            raw.client_kill_filter(_type="normal", skipme=True)
        sending.join()
        assert len(failures) == 1 and "only 0 of 1 replicas had them" in failures[0]
        replica.thaw()
        producer.close()


@pytest.mark.parametrize("valkey", [False, True])
async def test_a_grant_made_again_on_a_new_connection_waits_for_replicas(*, valkey: bool) -> None:
    """In a cluster the operator announces the grant on another connection."""
    async with replicated_queue(valkey=valkey) as (primary, replica, queue):
        replica.freeze()
        keys = partition_keys(queue.name, 0)
        for _ in range(2):
            with redis.Redis.from_url(primary.url, single_connection_client=True) as client:
                assert scripts.GRANT.run(client, keys, ("a", 1)) == [b"a", 1, 0]
                assert client.execute_command("WAIT", 1, 100) == 0
                assert scripts.GRANT.run(client, keys, ("b", 1)) == [b"a", 1, 0], "this one is not in force"
        replica.thaw()
