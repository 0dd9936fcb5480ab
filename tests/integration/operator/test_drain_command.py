"""`baton drain` of a real group: before and after a restart of the operator, taken back, and refused."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.model.names import SUBSCRIBED_ANNOTATION
from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import KEEPS, SHOP, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def drain(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("drain", "--kubeconfig", kubeconfig, *arguments)


async def test_a_drained_pod_owns_nothing_over_a_restart_until_that_is_taken_back(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer
) -> None:
    first = await start(empty, "first", *KEEPS).leads()
    here = f"{empty.namespace}/tired"
    await empty.redis("tired", redis_server.url, partitions=4, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 1})
    await empty.group("tired")
    await empty.pod("tired-a", "tired")
    alone = await drain(kubeconfig, here, "tired-a")
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1) and "could take what tired-a has" in alone.stderr
    await empty.pod("tired-b", "tired")
    await empty.spread("tired", 2, 2)
    done = await drain(kubeconfig, here, "tired-a")
    assert (done.returncode, done.stderr) == (0, "") and "--undo" in done.stdout
    assert "drains already" in (await drain(kubeconfig, here, "tired-a")).stdout

    async def all_of_it() -> bool:
        return {name: count for name, count in (await empty.counts("tired")).items() if count} == {"tired-b": 4}

    await eventually(all_of_it, "the other has all of it", shown=lambda: empty.counts("tired"))
    assert first.stop() == 0
    await start(empty, "second", *KEEPS).leads()
    await empty.pod("tired-c", "tired")

    async def shared() -> bool:
        return {name: count for name, count in (await empty.counts("tired")).items() if count} == {"tired-b": 2, "tired-c": 2}

    await eventually(shared, "it gets nothing from another operator either", shown=lambda: empty.counts("tired"))
    assert (await drain(kubeconfig, here, "tired-a", "--undo")).returncode == 0
    await empty.spread("tired", 1, 1, 2)


async def test_the_last_that_could_take_its_partitions_is_drained_only_by_force(empty: World, kubeconfig: Path) -> None:
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
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1) and "what fussy-a has of fussy; --yes" in alone.stderr
    driver = await drain(kubeconfig, here, "fussy-driver", "--yes")
    assert (driver.returncode, driver.stdout) == (1, "") and "drain an executor" in driver.stderr
    assert "takes no part now" in (await drain(kubeconfig, here, "fussy-silent")).stdout
    assert "when the group goes on" in (await drain(kubeconfig, here, "fussy-other")).stdout
    assert "of fussy, other; --yes" in (await drain(kubeconfig, here, "fussy-a")).stderr
    assert (await drain(kubeconfig, here, "fussy-a", "--yes")).returncode == 0


@pytest.mark.parametrize("member", ["nobody", "../group", "", "\x1b[31m", "a" * 300])
async def test_a_member_that_is_none_is_one_line(shop: World, kubeconfig: Path, member: str) -> None:
    if await shop.get_group("drainless") is None:
        await shop.external("drainless", partitions=1)
        await shop.group("drainless")
    done = await drain(kubeconfig, f"{SHOP}/drainless", member)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and "\x1b" not in done.stderr
