"""`baton explain` of partitions in a real group: moving, at rest, paused, and of ones that are not there."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from baton.kube.api import core_path
from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import SHOP, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

LONG = {"rebalance": {"delaySeconds": 0, "maxHandoffSeconds": 600}}


async def explain(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("explain", "--kubeconfig", kubeconfig, *arguments)


async def test_explain_tells_the_former_owner_the_reason_and_what_delays_the_hand_off(shop: World, kubeconfig: Path) -> None:
    (first,) = await shop.fleet("told", partitions=2, queue=LONG)
    await shop.pod("told-b", "told", session=True)
    (release,) = await shop.revoking("told", "told-a", 1)
    _, queue, number, epoch = release
    moving = (await explain(kubeconfig, f"{SHOP}/told", f"{queue}/{number}")).stdout
    assert moving.startswith(f"{SHOP}/told, partition {number} of told: Paused\ntold-a owns it at epoch {epoch}, since ")
    assert f"partition {number} of told goes from told-a to told-b: told-b joined; " in moving and " s left" in moving
    assert "A new plan would move it from told-a to told-b." in moving
    await shop.session("told-a", first, "told", [release])
    await shop.spread("told", 1, 1)

    async def known() -> bool:
        said = json.loads((await explain(kubeconfig, f"{SHOP}/told", f"{queue}/{number}", "-o", "json")).stdout)
        return (said["owner"], said["before"], said["why"]) == ("told-b", "told-a", "told-b joined") and said["since"] is not None

    await eventually(known, "events tell who had it, and why it moved")
    await shop.change("consumergroups", "told", {"spec": {"paused": True}})
    assert (
        f"The group is paused, so no hand-offs begin: baton resume told -n {SHOP}"
        in (await explain(kubeconfig, f"{SHOP}/told", f"{queue}/{number}")).stdout
    )


async def test_a_missing_queue_or_partition_is_named(shop: World, kubeconfig: Path) -> None:
    await shop.external("few", partitions=2)
    await shop.group("few")
    await shop.told("few", "NoMembers")
    for what, code, said in (
        ("missing/0", 1, "/few has no queue missing: it has few"),
        ("few/2", 1, "/few has no partition 2 of few: it has 0 to 1"),
        ("few/9999999", 1, "has no partition 9999999 of few"),
        ("few", 2, "is an invalid partition"),
        ("few/-1", 2, "is an invalid partition"),
        ("../0", 2, "is an invalid partition"),
        ("few/\x1b[31m", 2, "is an invalid partition"),
        ("", 2, "is an invalid partition"),
    ):
        done = await explain(kubeconfig, f"{SHOP}/few", what)
        assert (done.returncode, said in done.stderr) == (code, True), done
    nobodys = (await explain(kubeconfig, f"{SHOP}/few", "few/1")).stdout
    assert "It has no owner, and never had one." in nobodys and "NoMembers" in nobodys


async def test_an_entry_that_is_handed_out_again_and_again_is_named(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer
) -> None:
    operator = await start(empty, "leader", "--metrics-address", "0.0.0.0").leads()
    here = f"{empty.namespace}/again"
    (uid,) = await empty.fleet("again", url=redis_server.url, partitions=1)
    with RedisProducer(redis_server.url, here) as producer:
        producer.send("key", "poison")
    ((epoch,),) = [owned.values() for owned in (await empty.entries("again"))["again-a"].owned.values()]
    for nth in range(3):
        with RedisReader(redis_server.url, here, uid) as reader:
            (entry,) = reader.read(0, epoch)
            assert nth == 0 or reader.begin_again(0, epoch, entry.offset, nth)

    async def named() -> bool:
        shown = await explain(kubeconfig, here, "again/0", "--operator", f"http://127.0.0.1:{operator.port}")
        return f"Entry {entry.offset} was handed out 3 times and never acknowledged." in shown.stdout

    await eventually(named, "the entry is named")


async def test_explain_shows_whether_a_hand_off_waits_for_acks_or_the_release(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer
) -> None:
    await start(empty, "leader").leads()
    here = f"{empty.namespace}/farewell"
    (uid,) = await empty.fleet("farewell", "giver", url=redis_server.url, partitions=1, queue=LONG)
    ((epoch,),) = [owned.values() for owned in (await empty.entries("farewell"))["giver"].owned.values()]
    with RedisProducer(redis_server.url, here) as producer:
        producer.send("key", "value")
    with RedisReader(redis_server.url, here, uid) as reader:
        (entry,) = reader.read(0, epoch)
        reader.keep(0, epoch)  # as a consumer with on_revoked does
        await empty.pod("receiver", "farewell")
        drains = {"metadata": {"annotations": {"baton.dev/drain": "true"}}}
        await empty.api.merge(core_path(empty.namespace, "pods", "giver"), drains)

        async def waits_for(what: str) -> bool:
            return f"; waits for {what}, " in (await explain(kubeconfig, here, "farewell/0")).stdout

        await eventually(lambda: waits_for("1 unacknowledged message"), "an entry is in hand")
        reader.ack(0, epoch, [entry.offset])
        await eventually(lambda: waits_for("giver to release it"), "on_revoked is waited for")
        reader.release({0: epoch}, within=1.0)

        async def handed_over() -> bool:
            return bool((await empty.owned("farewell")).get("receiver"))

        await eventually(handed_over, "the receiver has it")
