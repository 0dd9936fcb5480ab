"""What a server keeps of a change of owner: its disk is not waited for."""

import logging

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import QueueUnreachable
from tests.integration.redis.conftest import make_queue
from tests.redis_server import RedisServer
from tests.waiting import eventually


@pytest.mark.parametrize("valkey", [False, True])
@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
async def test_a_change_of_owner_waits_for_no_disk(caplog: pytest.LogCaptureFixture, fsync: str, *, valkey: bool) -> None:
    """To wait for it took a second, and where the server leaves that to its machine it was in vain."""
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
async def test_an_answered_change_of_owner_outlives_a_crash_where_the_disk_comes_first(*, valkey: bool) -> None:
    with RedisServer(fsync="always", valkey=valkey) as server:
        queue = await make_queue(server.url)
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
        await queue.close()
