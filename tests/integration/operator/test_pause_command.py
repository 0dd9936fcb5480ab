"""`baton pause` and `baton resume` against a real group."""

import subprocess
from pathlib import Path

from tests.integration.operator import baton_command
from tests.integration.operator.world import SHOP, World
from tests.redis_server import RedisServer


async def baton(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton_command.baton(*arguments, "--kubeconfig", kubeconfig, "-n", SHOP)


async def test_while_a_group_is_paused_nothing_moves(shop: World, kubeconfig: Path, redis_server: RedisServer) -> None:
    await shop.redis("halted", redis_server.url, partitions=4, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 0})
    await shop.group("halted")
    await shop.pod("halted-a", "halted")
    await shop.spread("halted", 4)
    assert "no new hand-offs begin" in (await baton(kubeconfig, "pause", "halted")).stdout
    await shop.seen("halted")
    await shop.pod("halted-b", "halted")
    await shop.counted("halted", members=2)
    assert (await shop.status("halted"))["state"] == "Paused"
    assert max((await shop.counts("halted")).values()) == 4
    assert "is already paused" in (await baton(kubeconfig, "pause", "halted")).stdout
    assert "hand-offs may begin" in (await baton(kubeconfig, "resume", "halted")).stdout
    await shop.spread("halted", 2, 2)


async def test_a_group_that_does_not_exist_is_said(shop: World, kubeconfig: Path) -> None:
    done = await baton(kubeconfig, "pause", "nothing")
    assert done.returncode == 1
    assert '"nothing" not found' in done.stderr
