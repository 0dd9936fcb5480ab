"""`baton drain` of a real group: before and after a restart of the operator, taken back, and refused."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.model.names import SUBSCRIBED_ANNOTATION
from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator import baton_command
from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import KEEPS, SHOP, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def drain(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("drain", "--kubeconfig", kubeconfig, *arguments)


async def test_a_drained_pod_owns_nothing_across_a_restart_until_undone(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer
) -> None:
    first = await start(empty, "first", *KEEPS).leads()
    here = f"{empty.namespace}/tired"
    await empty.redis("tired", redis_server.url, partitions=4, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 1})
    await empty.group("tired")
    await empty.pod("tired-a", "tired")
    alone = await drain(kubeconfig, here, "tired-a")
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1) and "could take the partitions of" in alone.stderr
    await empty.pod("tired-b", "tired")
    await empty.spread("tired", 2, 2)
    done = await drain(kubeconfig, here, "tired-a")
    assert (done.returncode, done.stderr) == (0, "") and "--undo" in done.stdout
    assert "is already drained" in (await drain(kubeconfig, here, "tired-a")).stdout

    async def own(**wanted: int) -> bool:
        return {name[-1]: count for name, count in (await empty.counts("tired")).items() if count} == wanted

    await eventually(lambda: own(b=4), "the other has all of it", shown=lambda: empty.counts("tired"))
    assert first.stop() == 0
    await start(empty, "second", *KEEPS).leads()
    await empty.pod("tired-c", "tired")
    await eventually(lambda: own(b=2, c=2), "it gets nothing from another operator either", shown=lambda: empty.counts("tired"))
    assert (await drain(kubeconfig, here, "tired-a", "--undo")).returncode == 0
    await empty.spread("tired", 1, 1, 2)


async def test_the_last_possible_owner_is_drained_only_by_force(empty: World, kubeconfig: Path) -> None:
    here = f"{empty.namespace}/fussy"
    await empty.external("fussy", partitions=2)
    await empty.external("other", partitions=2)
    await empty.group("fussy", ["fussy", "other"], membership={"session": "Required"}, paused=True)
    await empty.pod("fussy-a", "fussy", session=True)
    await empty.pod("fussy-silent", "fussy")
    await empty.pod("fussy-unready", "fussy", ready=False, session=True)
    await empty.pod("fussy-stray", "fussy", labels={"spark-role": "executor", "spark-exec-id": "1"})
    await empty.pod("fussy-driver", "fussy", labels={"spark-role": "driver"})
    await empty.pod("fussy-other", "fussy", session=True, annotations={SUBSCRIBED_ANNOTATION: "other"})
    alone = await drain(kubeconfig, here, "fussy-a")
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1)
    assert "the partitions of fussy from fussy-a; --yes" in alone.stderr
    driver = await drain(kubeconfig, here, "fussy-driver", "--yes")
    assert (driver.returncode, driver.stdout) == (1, "") and "drain an executor" in driver.stderr
    assert "is not a member now" in (await drain(kubeconfig, here, "fussy-silent")).stdout
    assert "when the group is resumed" in (await drain(kubeconfig, here, "fussy-other")).stdout
    assert "of fussy, other from fussy-a; --yes" in (await drain(kubeconfig, here, "fussy-a")).stderr
    assert (await drain(kubeconfig, here, "fussy-a", "--yes")).returncode == 0


@pytest.mark.parametrize("member", ["nobody", "../group", "", "\x1b[31m", "a" * 300])
async def test_an_unknown_member_is_refused_in_one_line(shop: World, kubeconfig: Path, member: str) -> None:
    if await shop.get_group("drainless") is None:
        await shop.external("drainless", partitions=1)
        await shop.group("drainless")
    done = await drain(kubeconfig, f"{SHOP}/drainless", member)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and "\x1b" not in done.stderr


# -- `baton status` and `baton doctor` show drained pods and dead letters of a real group, as long as there are some.


async def printed(kubeconfig: Path, *arguments: str) -> str:
    return (await baton_command.baton(*arguments, "--kubeconfig", kubeconfig, "-n", SHOP)).stdout


async def test_dead_letters_are_shown_until_they_are_dropped(shop: World, kubeconfig: Path, redis_server: RedisServer) -> None:
    (uid,) = await shop.fleet("poisoned", url=redis_server.url, partitions=1)
    epoch = (await shop.owned("poisoned"))["poisoned-a"][0]
    with (
        RedisProducer(redis_server.url, f"{SHOP}/poisoned") as producer,
        RedisReader(redis_server.url, f"{SHOP}/poisoned", uid) as reader,
    ):
        producer.send("key", "bad")
        (entry,) = reader.read(0, epoch)
        reader.set_aside(0, epoch, entry.offset, "ValueError: no")

    async def status() -> str:
        return await printed(kubeconfig, "status", "poisoned")

    async def seen() -> bool:
        return f"1 dead letter of poisoned: `baton dead-letters list poisoned -n {SHOP}`" in await status()

    await eventually(seen, "the operator has counted it", shown=status)
    found = json.loads(await printed(kubeconfig, "doctor", "-o", "json"))
    (warning,) = [one for one in found if one["about"] == f"queue {SHOP}/poisoned" and "dead letter" in one["says"]]
    assert (warning["verdict"], warning["says"]) == ("Warning", "1 dead letter waits")
    assert "1 dead letter deleted" in await printed(kubeconfig, "dead-letters", "drop", "poisoned", "--all", "--yes")

    async def gone() -> bool:
        return not await seen()

    await eventually(gone, "the operator has counted again", shown=status)


async def test_a_drained_pod_is_shown_until_undone(shop: World, kubeconfig: Path) -> None:
    await shop.fleet("weary", "weary-a", "weary-b", partitions=2)
    assert "Drained" not in await printed(kubeconfig, "status", "weary")
    await printed(kubeconfig, "drain", "weary", "weary-a")
    assert f"Drained: weary-a, until `baton drain weary weary-a -n {SHOP} --undo`" in await printed(kubeconfig, "status", "weary")
    found = json.loads(await printed(kubeconfig, "doctor", "-o", "json"))
    assert [one["says"] for one in found if one["about"] == f"pods of {SHOP}/weary"] == ["weary-a is drained: no partitions"]
    await printed(kubeconfig, "drain", "weary", "weary-a", "--undo")
    assert "Drained" not in await printed(kubeconfig, "status", "weary")
