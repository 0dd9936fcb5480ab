"""A new leader on a machine whose clock is wrong: what runs by the ledger ends when it should."""

import asyncio
from dataclasses import dataclass

import pytest

from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import groups_path
from tests.simulation.replicas import Lone, played
from tests.simulation.seeds import manifests

TERM = 60
"""Seconds of everything here that ends by itself."""

LATE = 3
"""Seconds by which it may end earlier or later: the API server tells whole ones."""


@dataclass
class Story:
    """Two pods have two partitions each. Something begins, its leader dies, and one with a wrong clock takes over."""

    lone: Lone
    ahead: float
    began: float = 0.0

    async def group(self, delay: int = 0, handoff: int = 0, static: int = 0) -> None:
        membership = {"session": "Optional"}
        if static:
            membership |= {"identityLabel": "identity", "sessionTimeoutSeconds": static}  # type: ignore[dict-item]
        self.lone.external(delaySeconds=delay, maxHandoffSeconds=handoff)
        made = manifests.group("orders", {"queues": [{"name": "orders"}], "membership": membership})
        self.lone.make(groups_path("shop"), made)
        for name in ("a", "b"):
            self.pod(name)
        await asyncio.sleep(4 * TERM)
        assert self.lone.owned() == {"a": 2, "b": 2}

    def pod(self, name: str) -> None:
        self.lone.pod(name, identity=name)

    async def leader_dies(self) -> None:
        self.began = self.lone.loop.time()
        await asyncio.sleep(5)
        self.lone.crash()
        lone = self.lone
        clock = ApiServerClock(lambda: lone.unix() + self.ahead, lone.loop.time)
        lone.replica = lone.start("two", ["shop", "bank"], clock)
        await asyncio.sleep(Terms().duration + 5)
        assert lone.replica.elector.leading

    async def ends(self, before: dict[str, int], after: dict[str, int]) -> None:
        """The ledger is `before` until the term is over, and then `after`."""
        await self._until(TERM - LATE)
        assert self.lone.owned() == before
        await self._until(TERM + LATE)
        assert self.lone.owned() == after

    async def _until(self, seconds: float) -> None:
        await asyncio.sleep(self.began + seconds - self.lone.loop.time())


@pytest.mark.parametrize("ahead", [3600, -3600], ids=["an hour ahead", "an hour behind"])
@pytest.mark.parametrize("term", ["delay", "static", "handoff"])
@played
async def test_a_leader_with_a_wrong_clock_ends_terms_on_time(lone: Lone, term: str, ahead: float) -> None:
    one = Story(lone, ahead)
    await one.group(**{term: TERM})
    if term == "handoff":
        one.pod("c")
        before, after = {"a": 2, "b": 1, "c": 0}, {"a": 2, "b": 1, "c": 1}
    else:
        lone.delete_pod("b")
        before, after = {"a": 2}, {"a": 4}
    await one.leader_dies()
    await one.ends(before, after)
