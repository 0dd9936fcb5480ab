"""What a queue's trouble does to the group that uses it, and what it does not: the real controller, in virtual time."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from baton.controller.group_loop import QUEUES_WITHIN
from baton.controller.operator_replica import Options, Replica
from baton.controller.queue_effects import LONGEST_BACKOFF
from baton.kube.api import core_path
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import QueueView, groups_path, queues_path
from baton.model.ids import Epoch, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, ledger_name
from baton.model.times import to_text
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import Claimant, Ownership, QueueAdapter, QueueUnreachable
from baton.simulation.virtual_time import run
from tests.simulation.api_server import ApiServer, MemoryApi, WatchFeed
from tests.unit.controller.memory_queue import MemoryQueue

DELAY, HANDOFF = 1, 3
GROUP = {"membership": {"session": "Optional"}}
POD = {"nodeName": "node", "containers": [{"name": "consumer", "image": "none"}]}
BEAT = 40.0
"""Seconds within which a group is looked at again, whatever happens."""


class Shop:
    """A namespace with an operator, and queues in memory by name."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = ApiServer(random.Random(1), loop.time)
        self.api = MemoryApi(self.server)
        self.queues: dict[str, MemoryQueue] = {}
        self.claimants: list[Claimant] = []
        self.replica = Replica(
            MemoryApi(self.server),
            MemoryApi(self.server),
            ApiServerClock(wall=lambda: 1_800_000_000 + loop.time(), monotonic=loop.time),
            self._open,
            Options(identity="one", lease_namespace="default", lease_name="operator", terms=Terms()),
        )
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        for namespace in ("shop", "default"):
            self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        feed = WatchFeed(MemoryApi(self.server), self.replica.cache.event)
        for work in (feed.run(), self.replica.elector.run(), self.replica.events.run(), self.replica.group_loops.run()):
            self._tasks.append(asyncio.create_task(work))
        await feed.ready.wait()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, view: QueueView, claimant: Claimant) -> QueueAdapter:
        self.claimants.append(claimant)
        return self.queues[view.name]

    async def group(self, *queues: str, partitions: int = 4) -> None:
        for name in queues:
            self.queues[name] = MemoryQueue()
            await self._create(queues_path("shop"), "PartitionedQueue", name, queue_spec(partitions))
        await self._create(
            groups_path("shop"), "ConsumerGroup", "orders", GROUP | {"queues": [{"name": name} for name in queues]}
        )

    async def _create(self, path: str, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        meta = {"name": name, "namespace": "shop"}
        await self.api.create(path, {"apiVersion": "baton.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec})

    async def pod(self, name: str) -> None:
        metadata = {"name": name, "namespace": "shop", "labels": {GROUP_LABEL: "orders"}}
        await self.api.create(core_path("shop", "pods"), {"metadata": metadata, "spec": POD})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": to_text(self.replica.clock.now())}
        await self.api.merge(core_path("shop", "pods", name) + "/status", {"status": {"phase": "Running", "conditions": [ready]}})

    async def names(self, *queues: str) -> None:
        await self.api.merge(groups_path("shop", "orders"), {"spec": {"queues": [{"name": name} for name in queues]}})

    async def entries(self) -> dict[str, MemberEntry]:
        found = await self.api.find(core_path("shop", "configmaps", ledger_name("orders"))) or {}
        return {key: MemberEntry.from_json(text) for key, text in (found.get("data") or {}).items() if key != "group"}

    async def owned(self, queue: str) -> dict[str, Mapping[int, Epoch]]:
        return {pod: entry.owned.get(QueueName(queue), {}) for pod, entry in (await self.entries()).items()}

    async def shares(self, queue: str) -> list[int]:
        return sorted(len(grants) for grants in (await self.owned(queue)).values())

    async def ready(self) -> tuple[str, str]:
        """Reason and message of the group's condition."""
        found = await self.api.find(groups_path("shop", "orders")) or {}
        conditions = (found.get("status") or {}).get("conditions") or []
        return next(((one["reason"], one["message"]) for one in conditions if one["type"] == "Ready"), ("", ""))

    async def events(self, reason: str) -> list[str]:
        found = await self.api.get("/apis/events.k8s.io/v1/namespaces/shop/events")
        return [event["note"] for event in found["items"] if event["reason"] == reason]

    async def until(self, so: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> float:
        """How long it took. It has to come about within so many (virtual) seconds; meanwhile the group is looked at."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not await so():
            assert loop.time() < began + seconds, f"not within {seconds} s; {await self.ready()}; {await self.entries()}"
            assert self.age() < BEAT
            await asyncio.sleep(0.05)
        return loop.time() - began

    def age(self) -> float:
        """Of the last reconcile of the group; 0 without it."""
        labels = {"namespace": "shop", "group": "orders"}
        return self.replica.metrics.registry.get_sample_value("baton_reconcile_age_seconds", labels) or 0.0

    async def spread(self, queue: str, *shares: int, seconds: float = 10) -> float:
        async def so() -> bool:
            return await self.shares(queue) == sorted(shares)

        return await self.until(so, seconds)

    async def gone(self, seconds: float) -> float:
        async def so() -> bool:
            return await self.api.find(groups_path("shop", "orders")) is None

        return await self.until(so, seconds)

    async def told(self, reason: str, seconds: float = 30) -> str:
        async def so() -> bool:
            return (await self.ready())[0] == reason

        await self.until(so, seconds)
        return (await self.ready())[1]


def queue_spec(partitions: int, url: str = "redis://somewhere") -> dict[str, Any]:
    source = {"type": "Redis", "redis": {"url": url}}
    return {"source": source, "partitions": partitions, "rebalance": {"delaySeconds": DELAY, "maxHandoffSeconds": HANDOFF}}


def in_virtual_time(test: Callable[[Shop], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def lives() -> None:
        shop = Shop()
        await shop.start()
        try:
            await test(shop)
        finally:
            await shop.stop()

    def runs() -> None:
        run(lives())

    runs.__name__, runs.__doc__ = test.__name__, test.__doc__
    return runs


@in_virtual_time
async def test_a_hung_queue_that_is_let_go_of_delays_nothing_of_the_others(shop: Shop) -> None:
    await shop.group("good", "hung")
    await shop.pod("a")
    await shop.spread("good", 4)
    await shop.spread("hung", 4)
    shop.queues["hung"].hangs = True
    await shop.names("good")
    await asyncio.sleep(30)  # its partitions are waited for, and every attempt runs into a time-out
    await shop.pod("b")
    took = await shop.spread("good", 2, 2)
    assert took < DELAY + 1, "nothing was outstanding"
    assert "does not answer" in await shop.told("QueueUnreachable")
    shop.queues["hung"].hangs = False

    async def released() -> bool:
        return shop.queues["hung"].released

    await shop.until(released, 30)
    await shop.told("Ready")


@in_virtual_time
async def test_a_queue_that_never_answered_is_taken_out_without_delaying_a_hand_off(shop: Shop) -> None:
    await shop.group("good", "hung")
    shop.queues["hung"].hangs = True
    await shop.pod("a")
    await shop.spread("good", 4)
    await shop.told("QueueUnreachable")
    await shop.pod("b")
    await shop.names("good")
    assert await shop.spread("good", 2, 2) < DELAY + 1, "nothing was outstanding"
    await shop.told("Ready")


@in_virtual_time
async def test_a_group_with_twenty_hung_queues_is_deleted_in_time_and_says_what_it_left(shop: Shop) -> None:
    names = [f"queue-{number}" for number in range(20)]
    await shop.group(*names)
    await shop.pod("a")
    for name in names:
        await shop.spread(name, 4)
    for queue in shop.queues.values():
        queue.hangs = True
    await asyncio.sleep(20)
    await shop.api.delete(groups_path("shop", "orders"))
    assert await shop.gone(QUEUES_WITHIN + 4 * ANSWERS_WITHIN) >= QUEUES_WITHIN
    await asyncio.sleep(1)
    notes = await shop.events("NotReleased")
    assert notes and "stays as it is" in notes[0] and "baton.dev/take-over" in notes[0]


@pytest.mark.parametrize("refused", [("pause", "grant"), ("release",), ("grant", "release")])
def test_a_group_is_deleted_in_time_whose_queue_answers_to_looks_alone(refused: tuple[str, ...]) -> None:
    """As a server that has no room, or whose user may no more write."""

    @in_virtual_time
    async def lives(shop: Shop) -> None:
        await shop.group("orders")
        await shop.pod("a")
        await shop.spread("orders", 4)
        shop.queues["orders"].refuses = frozenset(refused)
        await shop.api.delete(groups_path("shop", "orders"))
        assert await shop.gone(QUEUES_WITHIN + 4 * ANSWERS_WITHIN) >= QUEUES_WITHIN
        assert "stays as it is" in (await shop.events("NotReleased"))[0]

    lives()


@in_virtual_time
async def test_a_queue_that_answers_to_looks_alone_is_in_trouble_until_something_is_done(shop: Shop) -> None:
    """And not Ready for a moment at each look, with two events, while an alert never sees it for long enough."""
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    await shop.told("Ready")
    shop.queues["orders"].refuses = frozenset({"grant"})
    await shop.pod("b")
    await shop.told("QueueUnreachable")
    before = len(await shop.events("Recovered"))
    loop = asyncio.get_running_loop()
    until = loop.time() + 100
    while loop.time() < until:
        assert (await shop.ready())[0] == "QueueUnreachable"
        await asyncio.sleep(0.1)
    assert (len(await shop.events("QueueUnreachable")), len(await shop.events("Recovered"))) == (1, before)
    shop.queues["orders"].refuses = frozenset()
    await shop.told("Ready", LONGEST_BACKOFF + 1)
    assert await shop.shares("orders") == [2, 2]


@in_virtual_time
async def test_a_group_that_is_deleted_waits_as_long_as_its_queue_lets_something_be_done(shop: Shop) -> None:
    await shop.group("orders", partitions=20)
    await shop.pod("a")
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
    await shop.api.delete(groups_path("shop", "orders"))
    assert await shop.gone(10 * QUEUES_WITHIN) > QUEUES_WITHIN + 4 * ANSWERS_WITHIN
    assert queue.released
    assert await shop.events("NotReleased") == []


@in_virtual_time
async def test_a_group_whose_queues_never_answered_is_deleted_at_once(shop: Shop) -> None:
    names = [f"queue-{number}" for number in range(20)]
    await shop.group(*names)
    for queue in shop.queues.values():
        queue.hangs = True
    await shop.told("QueueUnreachable")
    await shop.api.delete(groups_path("shop", "orders"))
    assert await shop.gone(3 * ANSWERS_WITHIN) <= 2 * ANSWERS_WITHIN + 1, "they are tried once, all at the same time"


@in_virtual_time
async def test_slow_looks_at_a_queue_delay_no_hand_off(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    shop.queues["orders"].takes |= dict.fromkeys(("ensure", "check"), ANSWERS_WITHIN - 0.1)
    await asyncio.sleep(20)
    await shop.pod("b")
    assert await shop.spread("orders", 2, 2) < DELAY + 1
    assert (await shop.ready())[0] == "Ready"


@in_virtual_time
async def test_a_queue_that_is_down_is_asked_ever_more_rarely_and_soon_again_when_it_is_back(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.told("Ready")
    shop.claimants.clear()
    shop.queues["orders"].down = True
    await asyncio.sleep(100)
    assert 100 / LONGEST_BACKOFF - 2 <= len(shop.claimants) <= 100 / LONGEST_BACKOFF + 10
    shop.queues["orders"].down = False
    await shop.told("Ready", LONGEST_BACKOFF + 1)


@in_virtual_time
async def test_an_event_says_what_keeps_a_queue_away_now_where_it_was_something_else_before(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.told("Ready")
    queue = shop.queues["orders"]
    queue.down = True
    await shop.told("QueueUnreachable")
    queue.down, queue.hangs = False, True
    await asyncio.sleep(60)
    told = await shop.events("QueueUnreachable")
    assert len(told) == 2
    assert any("start it" in note for note in told) and any("does not answer within" in note for note in told)


@in_virtual_time
async def test_while_all_pods_stop_a_group_is_not_ready_with_partitions_that_have_no_owner(shop: Shop) -> None:
    await shop.group("orders")
    for name in ("a", "b"):
        await shop.pod(name)
    await shop.spread("orders", 2, 2)
    await shop.told("Ready")
    for name in ("a", "b"):
        await shop.api.delete(core_path("shop", "pods", name), gracePeriodSeconds=30)

    async def unowned() -> bool:
        return await shop.shares("orders") == []

    await shop.until(unowned, 20)
    assert "a, b stop and take no more" in await shop.told("NoMembers", 1)

    async def told_as_event() -> bool:
        return "no hand-offs in progress; 4 partitions have no owner" in await shop.events("Ready")

    await shop.until(told_as_event, 20)


@in_virtual_time
async def test_a_queue_that_stops_to_answer_is_not_called_ready_for_long(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    await shop.told("Ready")
    shop.queues["orders"].takes["check"] = 3600.0
    began = asyncio.get_running_loop().time()
    await shop.told("QueueUnreachable", 20)
    assert asyncio.get_running_loop().time() - began < 3 * ANSWERS_WITHIN


@in_virtual_time
async def test_owners_that_somebody_else_wrote_are_noticed_told_and_granted_again_above(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    await asyncio.sleep(10)
    queue = shop.queues["orders"]
    queue.records[1] = Ownership(Uid("a-pod-of-another-cluster"), Epoch(40))
    queue.records[2] = queue.records[2]._replace(paused=True)
    del queue.records[3]

    async def granted_again() -> bool:
        (grants,) = (await shop.owned("orders")).values()
        return len(grants) == 4 and grants[1] > 40 and all(epoch > 1 for epoch in grants.values())

    await shop.until(granted_again, 2 * ANSWERS_WITHIN)
    (grants,) = (await shop.owned("orders")).values()
    pod = (await shop.entries())["a"].uid
    assert {number: (one.uid, one.epoch, one.paused) for number, one in queue.records.items()} == {
        number: (pod, epoch, False) for number, epoch in grants.items()
    }
    (note,) = await shop.events("OwnersRestored")
    assert "3 partitions" in note and "another operator" in note
    before = dict(queue.records)
    await asyncio.sleep(60)
    assert queue.records == before, "it is told and mended once"
    assert len(await shop.events("OwnersRestored")) == 1


@in_virtual_time
async def test_a_server_that_comes_back_without_its_data_is_told_as_that_and_owners_stay(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    queue = shop.queues["orders"]
    queue.down = True
    await shop.told("QueueUnreachable")
    queue.records, queue.count, queue.run, queue.down = {}, None, "run-2", False
    await shop.told("Ready")

    async def granted_again() -> bool:
        return len(queue.records) == 4 and await shop.shares("orders") == [4]

    await shop.until(granted_again, 20)
    (note,) = await shop.events("OwnersRestored")
    assert note.startswith("the queue orders came back empty") and "4 partitions" in note
    assert "are lost" in note and "appendonly yes" in note and "somebody else" not in note


@in_virtual_time
async def test_a_group_whose_queue_another_took_over_goes_without_touching_it(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    queue = shop.queues["orders"]
    queue.conflict = "the queue belongs to another group: take it over"
    assert "belongs to another" in await shop.told("Conflict")
    theirs = {number: Ownership(Uid("theirs"), Epoch(9)) for number in range(4)}
    queue.records = dict(theirs)
    await shop.api.delete(groups_path("shop", "orders"))
    assert await shop.gone(20) < 3 * ANSWERS_WITHIN
    assert queue.records == theirs


@in_virtual_time
async def test_a_queue_that_moved_while_it_hung_is_used_where_it_is_now(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    shop.queues["orders"].hangs = True
    await shop.told("QueueUnreachable")
    await asyncio.sleep(60)  # the pauses between attempts are at their longest
    shop.queues["orders"] = elsewhere = MemoryQueue()
    elsewhere.run = "run-elsewhere"
    await shop.api.merge(queues_path("shop", "orders"), {"spec": queue_spec(4, "redis://elsewhere")})

    async def granted() -> bool:
        return len(elsewhere.records) == 4

    assert await shop.until(granted, 5) < 1


@in_virtual_time
async def test_what_nobody_thought_of_is_a_condition_in_its_own_words(shop: Shop) -> None:
    await shop.group("orders")
    shop.queues["orders"].fails = RuntimeError("the server said\n\x1b[2J" + "x" * 5000)
    message = await shop.told("QueueUnreachable")
    assert "queue orders: unexpected failure (RuntimeError: 'the server said" in message
    assert "\x1b" not in message and len(message) < 500
    shop.queues["orders"].fails = None
    await shop.pod("a")
    await shop.spread("orders", 4, seconds=20)
    await shop.told("Ready")


@in_virtual_time
async def test_a_group_asks_for_a_queue_in_its_own_name_and_with_what_it_may_take_over(shop: Shop) -> None:
    await shop.group("orders")
    await shop.pod("a")
    await shop.spread("orders", 4)
    found = await shop.api.get(groups_path("shop", "orders"))
    assert shop.claimants[-1] == Claimant("shop/orders", found["metadata"]["uid"])
    shop.queues["orders"].conflict = "the queue belongs to another group"
    await shop.told("Conflict")
    annotations = {"baton.dev/take-over": " old-uid , older-uid,"}
    await shop.api.merge(groups_path("shop", "orders"), {"metadata": {"annotations": annotations}})

    async def asked() -> bool:
        return shop.claimants[-1].takes_over == {"old-uid", "older-uid"}

    await shop.until(asked, 2 * ANSWERS_WITHIN)
