"""A ledger at its limit: what is in flight comes to its end, and only new plans wait."""

import asyncio
from functools import partial

import pytest

from baton.controller.group_loop import FITS_AFTER
from baton.engine.step import size
from baton.kube.objects import groups_path
from baton.model.ids import QueueName
from tests.simulation.one_replica import OneReplica, lives

PARTITIONS = 60
MANY = 240


async def held_up(world: OneReplica, partitions: int = PARTITIONS) -> None:
    """Half the partitions are on their way from one pod to the other, and wait for entries that are not acknowledged."""
    world.queue("orders", partitions, maxHandoffSeconds=20)
    world.group("orders")
    world.pod("a")
    await world.until(world.counts, [partitions])
    world.queues["orders"].left = dict.fromkeys(range(partitions), 1)
    world.pod("b")

    def revoking() -> bool:
        return any(entry.revoking for entry in world.entries().values())

    await world.until(revoking, True)


def bytes_of(world: OneReplica) -> int:
    return size(world.ledger())


def sizes(partitions: int = PARTITIONS, pods: int = 12) -> list[int]:
    """Bytes of the ledger: while one pod hands over to another, with two pods, and with all."""
    seen: list[int] = []

    async def story(world: OneReplica) -> None:
        await held_up(world, partitions)
        seen.append(bytes_of(world))
        world.queues["orders"].left.clear()
        await world.until_told("Ready")
        await world.until(world.counts, [partitions // 2] * 2)
        seen.append(bytes_of(world))
        for number in range(pods - 2):
            world.pod(f"more-{number}")
        await world.until(world.counts, [partitions // pods] * pods)
        seen.append(bytes_of(world))

    lives(story)
    return seen


def limit() -> int:
    """Where two pods have room, also while one hands over to the other, and twelve have none."""
    *two, twelve = sizes()
    assert twelve > max(two) + 100
    return max(two) + 100


@pytest.mark.parametrize("released", [True, False], ids=["acknowledged", "at the deadline"])
def test_a_full_ledger_finishes_hand_offs_and_delays_the_next_plan(released: bool) -> None:
    async def story(world: OneReplica) -> None:
        await held_up(world)
        for number in range(10):
            world.pod(f"more-{number}")
        await world.until_told("SizeLimit")
        assert world.counts() != [PARTITIONS // 2] * 2
        if released:
            world.queues["orders"].left.clear()
        took = await world.until(world.counts, [PARTITIONS // 2] * 2, 30)
        assert (took < 3) is released
        assert world.ready()[0] == "SizeLimit"
        message = world.ready()[1]
        assert "no plan is made until it fits" in message and "Use fewer partitions or members" in message
        owners = {record.uid for record in world.queues["orders"].records.values()}
        assert owners == {entry.uid for name, entry in world.entries().items()}
        for number in range(10):
            world.delete_pod(f"more-{number}")
        await world.until_told("Ready", seconds=FITS_AFTER + 5)
        world.delete_pod("b")
        world.pod("c")
        await world.until(world.counts, [PARTITIONS // 2] * 2)

    lives(story, partial(OneReplica, limit()))


def test_a_plan_that_does_not_fit_is_carried_out_in_parts() -> None:
    told: set[str] = set()
    at_once: list[int] = []

    async def story(world: OneReplica) -> None:
        await held_up(world, MANY)
        world.queues["orders"].left.clear()
        await world.until(world.counts, [MANY // 2] * 2)
        world.queues["orders"].left = dict.fromkeys(range(MANY), 1)  # so each part lasts until its deadline
        for number in range(38):
            world.pod(f"more-{number}")

        def counts() -> list[int]:
            told.add(world.ready()[0])
            entries = world.entries().values()
            at_once.append(sum(len(grants) for entry in entries for grants in entry.revoking.values()))
            return world.counts()

        await world.until(counts, [MANY // 40] * 40, 300)
        await world.until_told("Ready")

    lives(story, partial(OneReplica, sizes(MANY, 40)[-1] + 300))
    assert 0 < max(at_once) < MANY - 2 * (MANY // 40)
    assert "SizeLimit" not in told


def test_a_lost_pod_is_replaced_without_room_for_a_plan() -> None:
    async def story(world: OneReplica) -> None:
        await held_up(world)
        world.queues["orders"].left.clear()
        await world.until(world.counts, [PARTITIONS // 2] * 2)
        world.pod("c")
        await world.until_told("SizeLimit")
        world.delete_pod("b")

        def owners() -> dict[str, int]:
            return {name: len(entry.owned[QueueName("orders")]) for name, entry in world.entries().items() if entry.owned}

        await world.until(owners, {"a": PARTITIONS // 2, "c": PARTITIONS // 2})
        await world.until_told("Ready", seconds=FITS_AFTER + 5)

    lives(story, partial(OneReplica, limit() - 90))


def test_a_group_with_a_full_ledger_can_be_deleted() -> None:
    async def story(world: OneReplica) -> None:
        await held_up(world)
        for number in range(10):
            world.pod(f"more-{number}")
        await world.until_told("SizeLimit")
        world.queues["orders"].left.clear()
        world.delete_group("orders")

        assert await world.until_gone(groups_path("shop", "orders")) < 10
        assert world.queues["orders"].released

    lives(story, partial(OneReplica, limit()))


def test_a_group_that_never_fits_is_retried_seldom() -> None:
    async def story(world: OneReplica) -> None:
        world.queue("orders")
        world.group("orders")
        world.pod("a")
        await world.until_told("SizeLimit")
        await asyncio.sleep(2 * FITS_AFTER)
        before = world.looks
        await asyncio.sleep(10 * FITS_AFTER)
        assert world.looks - before < 5_000

    lives(story, partial(OneReplica, 10))
