"""Owner records that somebody deletes at a queue: the operator grants again above what the ledger has, which wakes who waits."""

import pytest
from redis import Redis

from baton.queues.redis import RedisProducer, RedisReader, wakeup
from baton.queues.redis.keys import partition_keys
from tests.integration.operator.world import SHOP, World
from tests.integration.redis.test_waiting import Waiting
from tests.redis_server import RedisServer
from tests.waiting import HOUR, eventually, until


async def test_who_waits_is_woken_though_the_record_and_what_wakes_were_deleted(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "_LONGEST_BLOCK", HOUR)
    with RedisServer() as server, RedisProducer(server.url, f"{SHOP}/records-deleted", patience=60) as producer:
        await shop.redis("records-deleted", server.url, partitions=1, maxRedeliveries=3, maxDeliveredUnacked=7)
        await shop.group("records-deleted")
        uid = await shop.pod("records-deleted-a", "records-deleted")
        await shop.spread("records-deleted", 1)
        (epochs,) = (await shop.owned("records-deleted")).values()
        keys = partition_keys(f"{SHOP}/records-deleted", 0)
        with (
            RedisReader(server.url, f"{SHOP}/records-deleted", uid) as reader,
            Redis.from_url(server.url, decode_responses=True) as raw,
        ):
            assert reader.read(0, epochs[0]) == []
            waiting = Waiting(reader, 0)
            until(lambda: raw.info("clients")["blocked_clients"], "the wait blocks")
            raw.delete(keys.owner)
            raw.xtrim(keys.wake, maxlen=0, approximate=False)
            producer.send("key", "value")
            assert waiting.result() == {0}

            async def granted_again() -> bool:
                epochs.update(*(await shop.owned("records-deleted")).values())
                found = raw.hmget(keys.owner, "uid", "epoch", "maxRedeliveries", "maxDeliveredUnacked")
                return bool(found == [uid, str(epochs[0]), "3", "7"])

            before = epochs[0]
            await eventually(
                granted_again, "record and limits are there again", shown=lambda: shop.ledger_data("records-deleted")
            )
            assert epochs[0] > before
            assert [entry.value for entry in reader.read(0, epochs[0])] == [b"value"]
