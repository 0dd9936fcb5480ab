"""`baton status` and `baton doctor` show drained pods and dead letters of a real group, as long as there are some."""

import json
from pathlib import Path

from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator import baton_command
from tests.integration.operator.world import SHOP, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def baton(kubeconfig: Path, *arguments: str) -> str:
    return (await baton_command.baton(*arguments, "--kubeconfig", kubeconfig, "-n", SHOP)).stdout


async def test_dead_letters_are_seen_until_somebody_has_dealt_with_them(
    shop: World, kubeconfig: Path, redis_server: RedisServer
) -> None:
    await shop.redis("poisoned", redis_server.url, partitions=1, rebalance={"delaySeconds": 0})
    await shop.group("poisoned")
    uid = await shop.pod("poisoned-a", "poisoned")
    await shop.spread("poisoned", 1)
    epoch = (await shop.owned("poisoned"))["poisoned-a"][0]
    with (
        RedisProducer(redis_server.url, f"{SHOP}/poisoned") as producer,
        RedisReader(redis_server.url, f"{SHOP}/poisoned", uid) as reader,
    ):
        producer.send("key", "bad")
        (entry,) = reader.read(0, epoch)
        reader.set_aside(0, epoch, entry.offset, "ValueError: no")

    async def status() -> str:
        return await baton(kubeconfig, "status", "poisoned")

    async def seen() -> bool:
        return f"1 dead letter of poisoned: `baton dead-letters list poisoned -n {SHOP}`" in await status()

    await eventually(seen, "the operator has counted it", shown=status)
    found = json.loads(await baton(kubeconfig, "doctor", "-o", "json"))
    (warning,) = [one for one in found if one["about"] == f"queue {SHOP}/poisoned" and "dead letter" in one["says"]]
    assert (warning["verdict"], warning["says"]) == ("Warning", "1 dead letter waits")
    assert "1 dead letter deleted" in await baton(kubeconfig, "dead-letters", "drop", "poisoned", "--all", "--yes")

    async def gone() -> bool:
        return not await seen()

    await eventually(gone, "the operator has counted again", shown=status)


async def test_a_drained_pod_is_seen_until_that_is_taken_back(shop: World, kubeconfig: Path, redis_server: RedisServer) -> None:
    await shop.redis("weary", redis_server.url, partitions=2, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 0})
    await shop.group("weary")
    await shop.pod("weary-a", "weary")
    await shop.pod("weary-b", "weary")
    await shop.spread("weary", 1, 1)
    assert "Drained" not in await baton(kubeconfig, "status", "weary")
    await baton(kubeconfig, "drain", "weary", "weary-a")
    assert f"Drained: weary-a, until `baton drain weary weary-a -n {SHOP} --undo`" in await baton(kubeconfig, "status", "weary")
    found = json.loads(await baton(kubeconfig, "doctor", "-o", "json"))
    assert [one["says"] for one in found if one["about"] == f"pods of {SHOP}/weary"] == [
        "no partitions for weary-a: it is drained"
    ]
    await baton(kubeconfig, "drain", "weary", "weary-a", "--undo")
    assert "Drained" not in await baton(kubeconfig, "status", "weary")
