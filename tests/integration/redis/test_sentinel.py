"""A primary, a replica and three Sentinels: clients follow failovers, also during hand-offs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from baton.cli.main import main
from baton.model.ids import Epoch
from baton.queues.fence import StaleOwner
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader
from tests.integration.redis.conftest import GROUP, make_queue
from tests.integration.redis.counted import Load, Seen, handled, in_time, processed
from tests.integration.redis.pods import Pod, acknowledged, operating
from tests.redis_server import RedisSentinel
from tests.watched_redis import PASSWORD, SERVICE, Watched, watched_redis

PARTITIONS = 4


@pytest.fixture
def watched() -> Iterator[Watched]:
    with watched_redis() as made:
        yield made


async def test_nothing_is_lost_in_failovers_during_hand_offs_under_load(watched: Watched, tmp_path: Path) -> None:
    """No confirmed entry is missing, keys stay in order, redeliveries are marked, and former owners are refused."""
    queue = await make_queue(watched.url(), PARTITIONS)
    seen: Seen = []
    async with operating(queue, tmp_path) as operator:
        pods = [
            operator.pod(uid, handler=lambda entry: seen.append((entry.key, int(entry.value), entry.redelivered))) for uid in "ab"
        ]
        epochs = dict.fromkeys(range(PARTITIONS), 0)
        owners: dict[int, Pod] = {}

        async def give(partition: int, pod: Pod) -> None:
            epochs[partition] += 1
            granted = await in_time(lambda: queue.operator.grant(partition, pod.uid, Epoch(epochs[partition])))
            assert granted == (pod.uid, epochs[partition], False)
            owners[partition] = pod
            for each in pods:
                each.ledger({number: epochs[number] for number, owner in owners.items() if owner is each})

        for partition in range(PARTITIONS):
            await give(partition, pods[partition % 2])
        load = Load(queue)
        try:
            for crash in (True, False):
                await processed(seen, 500)
                incarnation = (await queue.operator.check()).incarnation
                former = owners[0]
                await in_time(lambda: queue.operator.pause(0, Epoch(epochs[0])))
                await asyncio.to_thread(watched.fail_over, crash=crash)
                await give(0, pods[former is pods[0]])
                with RedisReader(queue.url, queue.name, former.uid) as zombie:
                    await in_time(lambda zombie=zombie: asyncio.to_thread(refused, zombie, epochs[0] - 1))  # type: ignore[misc]
                assert (await in_time(queue.operator.check)).incarnation != incarnation
                for partition in range(1, PARTITIONS):  # as the operator does for a new incarnation
                    await give(partition, owners[partition])
                if crash:
                    (dead,) = (server for server in watched.servers if server is not watched.primary())
                    await asyncio.to_thread(dead.start)
                    await asyncio.to_thread(watched.settled)
            await processed(seen, 500)
        finally:
            load.end()
        await acknowledged(queue)
    assert handled(seen) == load.sent
    assert not any((await queue.dead_letters()).values())
    await queue.close()


def refused(zombie: RedisReader, epoch: int) -> None:
    with pytest.raises(StaleOwner):
        zombie.ack(0, Epoch(epoch), ["1-0"])


async def test_a_sentinel_that_is_away_or_hangs_only_costs_time(watched: Watched) -> None:
    watched.sentinels[0].stop()
    watched.sentinels[1].freeze()
    queue = await make_queue(watched.url(), 2)
    owner = await queue.granted("a", 1)
    queue.send("1")
    assert [entry.value for entry in owner.read(0, Epoch(1))] == [b"1"]
    listed = await asyncio.to_thread(
        CliRunner().invoke, main, ["dead-letters", "list", "-o", "json", "--redis-url", watched.url(), queue.name]
    )
    assert listed.exit_code == 0 and json.loads(listed.stdout)["letters"] == []
    await queue.close()


async def test_wrong_sentinel_urls_are_explained(watched: Watched) -> None:
    first = watched.sentinels[0]
    with RedisSentinel(SERVICE, watched.servers[0], password=PASSWORD) as shy:
        unknown = watched.url().replace(f"/{SERVICE}/", "/invoices/")
        closed = f"redis+sentinel://:{PASSWORD}@127.0.0.1:{shy.port}/{SERVICE}"
        for url, said in {
            unknown: "know no primary named invoices: correct the name",
            closed: f"The Sentinels at 127.0.0.1:{shy.port} require a user or a password.*add sentinel_auth=true to the URL",
            watched.url(""): "refused the user or password",
            f"redis+sentinel://127.0.0.1:1,no.invalid/{SERVICE}": "None of the Sentinels at 127.0.0.1:1, no.invalid:26379",
            f"redis://127.0.0.1:{first.port}/0": "If it is a Sentinel, write redis.sentinel://",
        }.items():
            queue = RedisQueue(url, "shop/orders", GROUP)
            with pytest.raises(QueueUnreachable, match=said):
                await queue.ensure(2)
            await queue.close()
            with RedisProducer(url, "shop/orders", patience=0.1) as producer, pytest.raises(QueueUnreachable, match=said):
                producer.send("key", "value")
        trusting = RedisQueue(f"{closed}?sentinel_auth=true", "shop/orders", GROUP)
        await trusting.ensure(2)
        await trusting.close()
