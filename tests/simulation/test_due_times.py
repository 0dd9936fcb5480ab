"""A time that comes while a group's loop does something else is not missed."""

import asyncio
from functools import partial

import pytest

from baton.controller.group_observation import SESSION_WITHIN
from baton.controller.retrying import RoundPacing
from baton.kube.leases import leases_path
from baton.model.ids import MemberId
from baton.model.names import GROUP_LABEL, session_lease_name
from tests.simulation.one_replica import OneReplica, in_virtual_time

GROUPS = [f"orders-{number}" for number in range(20)]
SPREAD = 1.0 / len(GROUPS)
"""Seconds from one group's due time to the next one's: together they meet every phase of a resync, which comes each second."""


def session(world: OneReplica, pod: str, group: str) -> str:
    """Returns its path."""
    uid = world.get(f"/api/v1/namespaces/shop/pods/{pod}")["metadata"]["uid"]
    name = session_lease_name(MemberId(pod))
    body = {
        "metadata": {"name": name, "labels": {GROUP_LABEL: group}},
        "spec": {"holderIdentity": uid, "leaseDurationSeconds": 3600},
    }
    world.make(leases_path("shop"), body)
    return leases_path("shop", name)


@pytest.fixture
def slow_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay each round, as a thousand groups do, or a small share of a core."""
    turn = RoundPacing.turn

    async def slowly(self: RoundPacing) -> None:
        await turn(self)
        await asyncio.sleep(0.2)

    monkeypatch.setattr(RoundPacing, "turn", slowly)


@pytest.mark.usefixtures("slow_turns")
@in_virtual_time
async def test_a_session_that_ends_during_a_resync_is_seen_to_have_ended(world: OneReplica) -> None:
    leases = {}
    for group in GROUPS:
        world.queue(group, delaySeconds=0)
        world.group(group, rebalance={"resyncSeconds": 1}, membership={"session": "Required"})
        for pod in (f"{group}-a", f"{group}-b"):
            world.pod(pod, group)
            leases[pod] = session(world, pod, group)
    for group in GROUPS:
        await world.until(partial(world.counts, group), [2, 2])
    for group in GROUPS:
        world.delete(leases[f"{group}-b"])
        await asyncio.sleep(SPREAD)
    for group in GROUPS:
        await world.until_told("NoSession", group, seconds=SESSION_WITHIN + 10)
