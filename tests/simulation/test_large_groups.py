"""What a large group costs, and that nobody else has to wait for it: the operator's own loop, in real time."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.simulation.one_replica import OneReplica

from baton.controller.collector import Collector
from baton.kube.objects import GROUP_VERSION, QueueView, group_path
from baton.queues.external import ExternalQueue
from baton.queues.protocol import Claimant, QueueAdapter

LONGEST_TURN = 0.25
"""Seconds of processor time in which nothing else runs."""
Work = Coroutine[Any, Any, None]


class Turns(asyncio.SelectorEventLoop):
    """Keeps what the longest turn cost: seconds of processor time of this thread, so that a busy machine counts less."""

    longest = 0.0

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, time.thread_time() - began)


class Large(OneReplica):
    """One External queue. Its consumers say nothing: at the deadline a hand-off goes on without their word."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.partitions = partitions
        self._pods = 0
        source = {"type": "External", "external": {"onDeadline": "Force"}}
        rebalance = {"delaySeconds": 0, "maxHandoffSeconds": 1}
        spec = {"source": source, "partitions": partitions, "rebalance": rebalance}
        self.make(group_path(GROUP_VERSION, "shop", "partitionedqueues"), {"metadata": {"name": "orders"}, "spec": spec})
        self.group("orders", assignors=["contiguous"])

    async def _open(self, view: QueueView, claimant: Claimant) -> QueueAdapter:
        return ExternalQueue()

    def join(self, pods: int) -> None:
        """So many more."""
        for number in range(self._pods, self._pods + pods):
            self.pod(f"orders-{number}")
        self._pods += pods

    async def settles(self, moves: int) -> None:
        """Wait until everything is granted and nothing moves, after so many moves at least."""
        labels = {"namespace": "shop", "group": "orders"}

        async def settled() -> bool:
            granted = self.metric("baton_partitions", **labels, queue="orders", state="Ready") == self.partitions
            return granted and (self.metric("baton_moves_total", **labels) or 0) >= moves

        await self.until(settled, True, seconds=200)


async def grants(partitions: int) -> None:
    await _lives(partitions, lambda world: world.settles(0))


async def hands_over(partitions: int) -> None:
    """Everything is granted; then the fleet doubles, and most of it changes hands."""

    async def story(world: Large) -> None:
        await world.settles(0)
        world.join(50)
        await world.settles(partitions // 2)

    await _lives(partitions, story)


async def _lives(partitions: int, story: Callable[[Large], Work]) -> None:
    world = Large(partitions)
    world.join(50)
    try:
        await story(world)
    finally:
        await world.stop()


def timed(work: Work) -> tuple[float, float]:
    """Run it; seconds of processor time of the whole process, and of the longest turn of the event loop."""
    loop, collector = Turns(), Collector()
    collector.begin()
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            began = time.process_time()
            runner.run(work)
            return time.process_time() - began, loop.longest
    finally:
        collector.end()
        collector.look_at_all()


def test_the_cost_of_granting_an_external_queue_grows_as_its_partitions_do() -> None:
    """Four times as many cost about four times as much: sixteen times would be the square."""
    timed(grants(2_000))  # what is done once
    few, many = timed(grants(5_000))[0], timed(grants(20_000))[0]
    assert many < 8 * few, f"5,000 partitions: {few:.2f} s, 20,000: {many:.2f} s"


@pytest.mark.parametrize("work", [grants, hands_over])
def test_a_hundred_thousand_partitions_do_not_stop_the_event_loop(work: Callable[[int], Work]) -> None:
    _, longest = timed(work(100_000))
    assert longest < LONGEST_TURN, f"a turn took {longest:.3f} s"
