"""An unexpected exception is reported on its group with a cure, and retried with growing pauses; other groups go on."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from baton import assignors
from baton.assignors import Answer, Assignor, Request
from baton.controller.group_loops import RESTART_AFTER
from baton.controller.retrying import LONGEST_PAUSE_UNEXPECTED
from baton.kube.api import core_path
from baton.model.names import ledger_name
from tests.simulation.api_server import Fault
from tests.simulation.one_replica import OneReplica, in_virtual_time

LEDGER = core_path("shop", "configmaps", ledger_name("orders"))


def broken(verb: str, path: str) -> Fault | None:
    if path == LEDGER and verb == "update":
        raise TypeError("a secret is 'hunter2'")
    return None


@pytest.mark.parametrize("from_the_beginning", [True, False])
@in_virtual_time
async def test_an_unexpected_error_is_reported_on_its_group_until_it_is_over(world: OneReplica, from_the_beginning: bool) -> None:
    if from_the_beginning:
        world.trouble = broken
    for name in ("orders", "returns"):
        world.queue(name)
        world.group(name)
        world.pod(f"{name}-a", name)

    if not from_the_beginning:
        await world.until(world.counts, [4])
    await world.until(partial(world.counts, "returns"), [4])
    world.trouble = broken
    world.pod("orders-b")
    await world.until_told("UnexpectedError")
    message = world.ready()[1]
    assert "TypeError" in message and "Undo the last change" in message and "hunter2" not in message
    world.asked.clear()
    await asyncio.sleep(300)
    tried = sum(asked == ("update", LEDGER) for asked in world.asked)
    assert 300 / LONGEST_PAUSE_UNEXPECTED - 1 <= tried <= 300 / LONGEST_PAUSE_UNEXPECTED + 8
    assert world.replica.stuck() is None
    assert world.events().count("UnexpectedError") == 1
    assert world.metric("baton_group_ready", namespace="shop", group="orders", reason="UnexpectedError") == 0
    world.pod("returns-b", "returns")
    await world.until(partial(world.counts, "returns"), [2, 2])
    assert world.ready("returns")[0] == "Ready"
    world.trouble = lambda verb, path: None
    await world.until(world.counts, [2, 2], LONGEST_PAUSE_UNEXPECTED + 10)
    await world.until_told("Ready")


def age(world: OneReplica) -> float:
    found = world.metric("baton_reconcile_age_seconds", namespace="shop", group="orders")
    assert found is not None
    return found


@in_virtual_time
async def test_a_resync_while_rounds_fail_does_not_count(world: OneReplica) -> None:
    await world.serve("orders-a")
    await asyncio.sleep(60)
    before = age(world)
    assert before < 25
    world.trouble = broken
    world.pod("orders-b")
    await asyncio.sleep(60)
    assert age(world) == pytest.approx(before + 60)
    world.trouble = lambda verb, path: None
    await world.until(world.counts, [2, 2], LONGEST_PAUSE_UNEXPECTED + 10)
    assert age(world) < 1


@in_virtual_time
async def test_a_loop_that_keeps_ending_is_restarted_with_pauses(world: OneReplica) -> None:
    await world.serve("orders-a")
    began, ended = world.now(), set()
    while world.now() < began + 60:
        for task in asyncio.all_tasks():
            if task.get_name() == "group":
                task.cancel()
                ended.add(task)
        await asyncio.sleep(0.1)
        assert len(ended) <= (world.now() - began) / RESTART_AFTER + 1
    assert len(ended) >= 10
    world.pod("orders-b")
    await world.until(world.counts, [2, 2])


ENDS = (SystemExit, KeyboardInterrupt, asyncio.CancelledError, RecursionError, MemoryError, GeneratorExit)


@pytest.fixture
def own_assignors() -> Iterator[None]:
    def ending(kind: type[BaseException]) -> Assignor:
        def assignor(request: Request) -> Answer:
            raise kind("no")

        return assignor

    assignors.install(lambda: {f"example.com/{kind.__name__.lower()}": partial(ending, kind) for kind in ENDS})
    yield
    assignors.install(dict)


@pytest.mark.usefixtures("own_assignors")
@pytest.mark.parametrize("kind", ENDS)
@in_virtual_time
async def test_a_custom_assignor_that_raises_stops_no_other_group(world: OneReplica, kind: type[BaseException]) -> None:
    world.queue("orders")
    world.group("orders", assignors=[f"example.com/{kind.__name__.lower()}"])
    world.pod("orders-a")
    world.queue("returns")
    world.group("returns")
    world.pod("returns-a", "returns")
    await world.until(partial(world.counts, "returns"), [4])
    await world.until_told("UnexpectedError" if kind is KeyboardInterrupt else "InvalidAssignment")
    assert kind is KeyboardInterrupt or kind.__name__ in world.ready()[1]
    world.change_group("orders", assignors=["solace"])
    await world.until(world.counts, [4])
