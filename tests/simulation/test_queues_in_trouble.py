"""What a queue's trouble does to the group that uses it, and what it does not: the real controller, in virtual time."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from baton.controller.group_loop import QUEUES_WITHIN
from baton.controller.queue_effects import LONGEST_BACKOFF
from baton.kube.api import core_path
from baton.kube.objects import QueueView, groups_path, queues_path
from baton.model.ids import Epoch, Uid
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueUnreachable
from tests.simulation import one_replica
from tests.simulation.one_replica import OneReplica
from tests.unit.controller.memory_queue import MemoryQueue

DELAY = 1
BEAT = 40.0
"""Seconds within which a group is looked at again, whatever happens."""


class Shop(OneReplica):
    """Its group `orders` has some queues."""

    def __init__(self) -> None:
        self.claimants: list[Claimant] = []
        super().__init__()

    async def _open(self, view: QueueView, claimant: Claimant) -> QueueAdapter:
        self.claimants.append(claimant)
        return await super()._open(view, claimant)

    async def until(self, look: Callable[[], object], wanted: object = True, seconds: float = 60.0) -> float:
        def looked() -> object:
            labels = {"namespace": "shop", "group": "orders"}
            assert (self.metric("baton_reconcile_age_seconds", **labels) or 0.0) < BEAT
            return look()

        return await super().until(looked, wanted, seconds)

    def orders(self, *queues: str, partitions: int = 4) -> None:
        """The group, and its queues: none but the one of its name."""
        for name in queues or ("orders",):
            self.queues[name] = MemoryQueue()
            self.queue(name, partitions, maxHandoffSeconds=3)
        self.group("orders", *queues)

    async def served(self) -> None:
        """One pod owns all of the group."""
        self.orders()
        self.pod("a")
        await self.spread("orders", 4)
        await self.told("Ready")

    def names(self, *queues: str) -> None:
        self.change_group("orders", queues=[{"name": name} for name in queues])

    async def spread(self, queue: str, *shares: int, seconds: float = 10) -> float:
        return await self.until(partial(self.counts, queue=queue), sorted(shares), seconds)

    async def gone(self, seconds: float) -> float:
        took = await self.until_gone(groups_path("shop", "orders"), seconds)
        await asyncio.sleep(1)  # its last events are posted behind it
        return took

    async def told(self, reason: str, seconds: float = 30) -> str:
        await self.until_told(reason, seconds=seconds)
        return self.ready()[1]


in_virtual_time = partial(one_replica.in_virtual_time, make=Shop)


@in_virtual_time
async def test_a_hung_queue_that_is_removed_delays_no_other(shop: Shop) -> None:
    shop.orders("good", "hung")
    shop.pod("a")
    await shop.spread("good", 4)
    await shop.spread("hung", 4)
    shop.queues["hung"].hangs = True
    shop.names("good")
    await asyncio.sleep(30)  # its partitions are waited for, and every attempt runs into a time-out
    shop.pod("b")
    took = await shop.spread("good", 2, 2)
    assert took < DELAY + 1, "nothing was outstanding"
    assert "does not answer" in await shop.told("QueueUnreachable")
    shop.queues["hung"].hangs = False

    def released() -> bool:
        return shop.queues["hung"].released

    await shop.until(released, True, 30)
    await shop.told("Ready")


@in_virtual_time
async def test_removing_a_queue_that_never_answered_delays_no_hand_off(shop: Shop) -> None:
    shop.orders("good", "hung")
    shop.queues["hung"].hangs = True
    shop.pod("a")
    await shop.spread("good", 4)
    await shop.told("QueueUnreachable")
    shop.pod("b")
    shop.names("good")
    assert await shop.spread("good", 2, 2) < DELAY + 1, "nothing was outstanding"
    await shop.told("Ready")


@in_virtual_time
async def test_a_group_with_twenty_hung_queues_is_deleted_in_time(shop: Shop) -> None:
    names = [f"queue-{number}" for number in range(20)]
    shop.orders(*names)
    shop.pod("a")
    for name in names:
        await shop.spread(name, 4)
    for queue in shop.queues.values():
        queue.hangs = True
    await asyncio.sleep(20)
    shop.delete_group("orders")
    assert await shop.gone(QUEUES_WITHIN + 4 * ANSWERS_WITHIN) >= QUEUES_WITHIN
    notes = shop.notes("NotReleased")
    assert notes and "stays as it is" in notes[0] and "baton.dev/take-over" in notes[0]


@pytest.mark.parametrize("refused", [("pause", "grant"), ("release",), ("grant", "release")])
@in_virtual_time
async def test_a_group_whose_queue_is_read_only_is_deleted_in_time(shop: Shop, refused: tuple[str, ...]) -> None:
    """As a server that has no room, or whose user may no more write."""
    await shop.served()
    shop.queues["orders"].refuses = frozenset(refused)
    shop.delete_group("orders")
    assert await shop.gone(QUEUES_WITHIN + 4 * ANSWERS_WITHIN) >= QUEUES_WITHIN
    assert "stays as it is" in shop.notes("NotReleased")[0]


@in_virtual_time
async def test_a_read_only_queue_is_unreachable_until_a_write_succeeds(shop: Shop) -> None:
    """The group does not turn Ready for a moment at each check: that would send two events each time and reset any alert."""
    await shop.served()
    shop.queues["orders"].refuses = frozenset({"grant"})
    shop.pod("b")
    await shop.told("QueueUnreachable")
    before = len(shop.notes("Recovered"))
    loop = asyncio.get_running_loop()
    until = loop.time() + 100
    while loop.time() < until:
        assert shop.ready()[0] == "QueueUnreachable"
        await asyncio.sleep(0.1)
    assert (len(shop.notes("QueueUnreachable")), len(shop.notes("Recovered"))) == (1, before)
    shop.queues["orders"].refuses = frozenset()
    await shop.told("Ready", LONGEST_BACKOFF + 1)
    assert shop.counts() == [2, 2]


@in_virtual_time
async def test_a_deleted_group_waits_while_its_queue_makes_progress(shop: Shop) -> None:
    shop.orders(partitions=20)
    shop.pod("a")
    await shop.spread("orders", 20)
    queue = shop.queues["orders"]
    grant, done = queue.grant, set[int]()

    async def one_each_time(partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """By connection."""
        if (connection := len(shop.claimants)) in done:
            await asyncio.sleep(ANSWERS_WITHIN - 1)
            raise QueueUnreachable("the queue has too much to do")
        done.add(connection)
        return await grant(partition, uid, epoch)

    queue.grant = one_each_time  # type: ignore[method-assign]
    shop.delete_group("orders")
    assert await shop.gone(10 * QUEUES_WITHIN) > QUEUES_WITHIN + 4 * ANSWERS_WITHIN
    assert queue.released
    assert shop.notes("NotReleased") == []


@in_virtual_time
async def test_a_group_whose_queues_never_answered_is_deleted_at_once(shop: Shop) -> None:
    names = [f"queue-{number}" for number in range(20)]
    shop.orders(*names)
    for queue in shop.queues.values():
        queue.hangs = True
    await shop.told("QueueUnreachable")
    shop.delete_group("orders")
    assert await shop.gone(3 * ANSWERS_WITHIN) <= 2 * ANSWERS_WITHIN + 1, "they are tried once, all at the same time"


@in_virtual_time
async def test_slow_looks_at_a_queue_delay_no_hand_off(shop: Shop) -> None:
    await shop.served()
    shop.queues["orders"].takes |= dict.fromkeys(("ensure", "check"), ANSWERS_WITHIN - 0.1)
    await asyncio.sleep(20)
    shop.pod("b")
    assert await shop.spread("orders", 2, 2) < DELAY + 1
    assert shop.ready()[0] == "Ready"


@in_virtual_time
async def test_a_queue_that_is_down_is_retried_with_growing_pauses(shop: Shop) -> None:
    await shop.served()
    shop.claimants.clear()
    shop.queues["orders"].down = True
    await asyncio.sleep(100)
    assert 100 / LONGEST_BACKOFF - 2 <= len(shop.claimants) <= 100 / LONGEST_BACKOFF + 10
    shop.queues["orders"].down = False
    await shop.told("Ready", LONGEST_BACKOFF + 1)


@in_virtual_time
async def test_an_event_reports_a_new_cause_of_a_queue_outage(shop: Shop) -> None:
    await shop.served()
    queue = shop.queues["orders"]
    queue.down = True
    await shop.told("QueueUnreachable")
    queue.down, queue.hangs = False, True
    await asyncio.sleep(60)
    told = shop.notes("QueueUnreachable")
    assert len(told) == 2
    assert any("start it" in note for note in told) and any("does not answer within" in note for note in told)


@in_virtual_time
async def test_a_group_without_owners_is_not_ready_while_its_pods_stop(shop: Shop) -> None:
    shop.orders()
    for name in ("a", "b"):
        shop.pod(name, node="node")
    await shop.spread("orders", 2, 2)
    await shop.told("Ready")
    for name in ("a", "b"):
        shop.delete(core_path("shop", "pods", name), gracePeriodSeconds=30)

    await shop.until(lambda: shop.counts() == [], seconds=20)
    assert "a, b are stopping and get no more" in await shop.told("NoMembers", 1)

    def told_as_event() -> bool:
        return "no hand-offs in progress; 4 partitions have no owner" in shop.notes("Ready")

    await shop.until(told_as_event, True, 20)


@in_virtual_time
async def test_a_queue_that_stops_answering_is_soon_unreachable(shop: Shop) -> None:
    await shop.served()
    shop.queues["orders"].takes["check"] = 3600.0
    began = asyncio.get_running_loop().time()
    await shop.told("QueueUnreachable", 20)
    assert asyncio.get_running_loop().time() - began < 3 * ANSWERS_WITHIN


@in_virtual_time
async def test_a_deleted_group_leaves_a_taken_over_queue_alone(shop: Shop) -> None:
    await shop.served()
    queue = shop.queues["orders"]
    queue.conflict = "the queue belongs to another group: take it over"
    assert "belongs to another" in await shop.told("Conflict")
    theirs = {number: Ownership(Uid("theirs"), Epoch(9)) for number in range(4)}
    queue.records = dict(theirs)
    shop.delete_group("orders")
    assert await shop.gone(20) < 3 * ANSWERS_WITHIN
    assert queue.records == theirs


@in_virtual_time
async def test_a_hung_queue_is_used_at_its_new_address(shop: Shop) -> None:
    await shop.served()
    shop.queues["orders"].hangs = True
    await shop.told("QueueUnreachable")
    await asyncio.sleep(60)  # the pauses between attempts are at their longest
    shop.queues["orders"] = elsewhere = MemoryQueue()
    elsewhere.run = "run-elsewhere"
    shop.change(queues_path("shop", "orders"), {"spec": {"source": {"redis": {"url": "redis://elsewhere"}}}})

    assert await shop.until(lambda: len(elsewhere.records) == 4, seconds=5) < 1


@in_virtual_time
async def test_an_unexpected_error_is_reported_in_the_condition(shop: Shop) -> None:
    shop.orders()
    shop.queues["orders"].fails = RuntimeError("the server said\n\x1b[2J" + "x" * 5000)
    message = await shop.told("QueueUnreachable")
    assert "queue orders: unexpected failure (RuntimeError: 'the server said" in message
    assert "\x1b" not in message and len(message) < 500
    shop.queues["orders"].fails = None
    shop.pod("a")
    await shop.spread("orders", 4, seconds=20)
    await shop.told("Ready")


@in_virtual_time
async def test_a_group_claims_a_queue_with_its_uid_and_take_overs(shop: Shop) -> None:
    await shop.served()
    found = shop.get(groups_path("shop", "orders"))
    assert shop.claimants[-1] == Claimant("shop/orders", found["metadata"]["uid"])
    shop.queues["orders"].conflict = "the queue belongs to another group"
    await shop.told("Conflict")
    annotations = {"baton.dev/take-over": " old-uid , older-uid,"}
    shop.change(groups_path("shop", "orders"), {"metadata": {"annotations": annotations}})

    await shop.until(lambda: shop.claimants[-1].takes_over == {"old-uid", "older-uid"}, seconds=2 * ANSWERS_WITHIN)
