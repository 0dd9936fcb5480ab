"""Namespaces that are deleted with all that is in them: Kubernetes deletes objects in any order, and creates none any more."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from baton.kube.api import core_path
from baton.kube.objects import FINALIZER
from cluster.cluster import Cluster as Machine
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

Make = Callable[[World, RedisServer, RedisServer], Awaitable[None]]


async def redis(world: World, server: RedisServer, frozen: RedisServer) -> None:
    await world.redis("orders", server.url, partitions=4)


async def frozen_redis(world: World, server: RedisServer, frozen: RedisServer) -> None:
    await world.redis("orders", frozen.url, partitions=4)


async def external(world: World, server: RedisServer, frozen: RedisServer) -> None:
    await world.external("orders", partitions=4)


async def no_queue(world: World, server: RedisServer, frozen: RedisServer) -> None:
    """The group names one that does not exist."""


async def all_of_them(world: World, server: RedisServer, frozen: RedisServer) -> None:
    await redis(world, server, frozen)
    await world.redis("two", frozen.url, partitions=4)
    await world.external("three", partitions=4)


KINDS: tuple[Make, ...] = (redis, frozen_redis, external, no_queue, all_of_them)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """Of an API server for this file only: an operator of all namespaces would serve the groups of other tests."""
    with Machine(node=False) as cluster:
        yield cluster.kubeconfig


@pytest.fixture
def frozen() -> Iterator[RedisServer]:
    """It accepts connections without answering, once a test freezes it."""
    with RedisServer() as running:
        yield running
        running.thaw()


@pytest.fixture
async def doomed(api: Cluster, redis_server: RedisServer, frozen: RedisServer) -> AsyncIterator[Callable[..., Awaitable[World]]]:
    """`doomed(name, make)`: a namespace with a group of two pods."""
    made: list[World] = []

    async def one(name: str, make: Make) -> World:
        world = await namespace(api, name)
        made.append(world)
        await make(world, redis_server, frozen)
        await world.group("orders", ["orders", *(("two", "three", "four") if make is all_of_them else ())])
        await world.pod("a", "orders")
        await world.pod("b", "orders")
        return world

    yield one
    for world in made:  # where the test has failed: let nothing stay
        if await world.get_group("orders") is not None:
            await world.change("consumergroups", "orders", {"metadata": {"finalizers": None}})


Doomed = Callable[..., Awaitable[World]]


@pytest.fixture
def operate(kubeconfig: Path, tmp_path: Path) -> Iterator[Callable[[str], Operator]]:
    """Start an operator for all namespaces, by the name of its Lease."""
    started: list[Operator] = []

    def one(lease: str) -> Operator:
        started.append(Operator(kubeconfig, None, f"{lease}-{len(started)}", tmp_path, lease=lease))
        return started[-1]

    yield one
    for operator in started:
        operator.kill()


async def look(world: World, times: int) -> None:
    """How a moment passes: many are different ones of a group's life."""
    for _ in range(times):
        await world.ledger_data("orders")


async def delete(world: World) -> None:
    await world.api.delete(core_path(None, "namespaces", world.namespace))


async def gone(world: World) -> None:
    async def shown() -> object:
        return await world.condition("orders"), await world.ledger_data("orders") is not None

    await world.api.gone(core_path(None, "namespaces", world.namespace), shown)


async def all_gone(worlds: list[World]) -> None:
    ended = await asyncio.gather(*(gone(world) for world in worlds), return_exceptions=True)
    assert [str(one) for one in ended if one is not None] == []


@pytest.mark.long
async def test_namespaces_can_be_deleted_at_any_moment(
    doomed: Doomed, operate: Callable[[str], Operator], frozen: RedisServer
) -> None:
    moments = random.Random(1)
    await operate("deleted").leads()
    worlds = [await doomed(f"deleted-{number}", KINDS[number % len(KINDS)]) for number in range(15)]
    await worlds[1].spread("orders", 2, 2)
    frozen.freeze()

    async def at_its_moment(world: World) -> None:
        await look(world, moments.randrange(100))
        await delete(world)

    await asyncio.gather(*(at_its_moment(world) for world in worlds))
    await all_gone(worlds)


@pytest.mark.long
async def test_namespaces_deleted_without_an_operator_go_once_there_is_one(
    doomed: Doomed, operate: Callable[[str], Operator], frozen: RedisServer
) -> None:
    operator = await operate("away").leads()
    worlds = [await doomed(f"away-{number}", kind) for number, kind in enumerate(KINDS)]
    await worlds[1].spread("orders", 2, 2)
    await worlds[2].spread("orders", 2, 2)
    operator.kill()
    frozen.freeze()
    for world in worlds:
        await delete(world)

    async def ledgers_gone() -> bool:
        return all([await world.ledger_data("orders") is None for world in worlds])

    await eventually(ledgers_gone, "Kubernetes has deleted the ledgers")
    for world in worlds:
        found = await world.get_group("orders")
        assert found is not None and found["metadata"]["finalizers"] == [FINALIZER]
    await operate("away").leads()
    await all_gone(worlds)
