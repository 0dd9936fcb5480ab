"""A new leader on a machine whose clock is wrong: what runs by the ledger ends when it should."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from baton.kube.api import core_path
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import groups_path, queues_path
from tests.simulation.replicas import Lone, played
from tests.simulation.seeds import manifests

TERM = 60
"""Seconds of everything here that ends by itself."""

LATE = 3
"""Seconds by which it may end earlier or later: the API server tells whole ones."""

wrong = pytest.mark.parametrize("ahead", [3600, -3600], ids=["an hour ahead", "an hour behind"])


@dataclass
class Story:
    """Two pods have two partitions each. Something begins, its leader dies, and one with a wrong clock takes over."""

    lone: Lone
    ahead: float
    began: float = 0.0

    async def group(self, delay: int = 0, handoff: int = 0, static: int = 0) -> None:
        source = {"type": "External", "external": {"onDeadline": "Force"}}
        rebalance = {"delaySeconds": delay, "maxHandoffSeconds": handoff}
        membership = {"session": "Optional"}
        if static:
            membership |= {"identityLabel": manifests.IDENTITY_LABEL, "sessionTimeoutSeconds": static}  # type: ignore[dict-item]
        spec = {"source": source, "partitions": 4, "rebalance": rebalance}
        await self.lone.api.create(queues_path("shop"), manifests.queue("orders", spec))
        made = manifests.group("orders", {"queues": [{"name": "orders"}], "membership": membership})
        await self.lone.api.create(groups_path("shop"), made)
        for name in ("a", "b"):
            await self.pod(name)
        await asyncio.sleep(4 * TERM)
        assert await self.lone.owned("shop") == {"a": 2, "b": 2}

    async def pod(self, name: str) -> None:
        path = core_path("shop", "pods")
        await self.lone.api.create(path, manifests.pod(name, "orders", name, None, 0))
        await self.lone.api.merge(f"{path}/{name}/status", manifests.pod_status(True, self.lone.now()))

    async def leader_dies(self) -> None:
        self.began = self.lone.loop.time()
        await asyncio.sleep(5)
        self.lone.crash()
        lone = self.lone
        clock = ApiServerClock(lambda: lone.now() + self.ahead, lone.loop.time)
        lone.replica = lone.start("two", ["shop", "bank"], clock)
        await asyncio.sleep(Terms().duration + 5)
        assert lone.replica.elector.leading

    async def ends(self, before: dict[str, int], after: dict[str, int]) -> None:
        """The ledger says so until the term is over, and then so."""
        await self._until(TERM - LATE)
        assert await self.lone.owned("shop") == before
        await self._until(TERM + LATE)
        assert await self.lone.owned("shop") == after

    async def _until(self, seconds: float) -> None:
        await asyncio.sleep(self.began + seconds - self.lone.loop.time())


def story(ahead: float, play: Callable[[Story], Awaitable[None]]) -> None:
    played(lambda lone: play(Story(lone, ahead)))


@wrong
def test_a_holddown_lasts_as_long_as_it_should(ahead: float) -> None:
    async def play(one: Story) -> None:
        await one.group(delay=TERM)
        await one.lone.delete_pod("shop", "b")
        await one.leader_dies()
        await one.ends({"a": 2}, {"a": 4})

    story(ahead, play)


@wrong
def test_a_static_members_term_lasts_as_long_as_it_should(ahead: float) -> None:
    async def play(one: Story) -> None:
        await one.group(static=TERM)
        await one.lone.delete_pod("shop", "b")
        await one.leader_dies()
        await one.ends({"a": 2}, {"a": 4})

    story(ahead, play)


@wrong
def test_a_handoff_has_as_long_as_it_should(ahead: float) -> None:
    async def play(one: Story) -> None:
        await one.group(handoff=TERM)
        await one.pod("c")
        await one.leader_dies()
        await one.ends({"a": 2, "b": 1, "c": 0}, {"a": 2, "b": 1, "c": 1})

    story(ahead, play)
