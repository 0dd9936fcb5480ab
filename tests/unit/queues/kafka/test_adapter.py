"""Owner records as the operator reads them, and the release of a large topic."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka import adapter, event_loop
from baton.queues.kafka.adapter import KafkaQueue, Pauses, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.kafka.topic import Topic
from baton.queues.protocol import IN_USE, Claimant, Ownership

# -- What the operator takes a paused partition's record for.

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
RECORD = Record(group="g", queue="orders", uid=Uid("a"), epoch=TWO, topic_id="t", token=Token(1, 0), first=9)


def paused() -> Pauses:
    """Partition 0, whose owner has epoch 2."""
    made = Pauses()
    made.begin(0, TWO)
    return made


@pytest.mark.parametrize(
    ("record", "left"),
    [
        (RECORD, IN_USE),  # how much it has in hand only it knows
        (replace(RECORD, released=True), 0),
        (replace(RECORD, uid=Uid("b"), epoch=THREE), Ownership(Uid("b"), THREE)),
        (replace(RECORD, uid=None, epoch=THREE), 0),  # nobody was granted it since
        (replace(RECORD, epoch=ONE), 0),  # the pause does nothing: another epoch is in force
        (None, 0),
    ],
)
def test_the_record_says_what_is_outstanding(record: Record | None, left: int | Ownership) -> None:
    assert paused().outstanding(0, TWO, record) == left


def test_an_unpaused_partition_has_nothing_outstanding() -> None:
    assert Pauses().outstanding(0, Pauses().epoch(0), RECORD) == 0


def test_each_direct_receiver_is_reported_once() -> None:
    pauses, handed_over = paused(), replace(RECORD, uid=Uid("b"), epoch=THREE)
    assert pauses.outstanding(0, TWO, handed_over) == Ownership(Uid("b"), THREE)
    pauses.reported(0, THREE)
    assert pauses.outstanding(0, TWO, handed_over) == 0, "the operator that asks again grants"
    assert pauses.outstanding(0, TWO, replace(handed_over, epoch=Epoch(4))) == Ownership(Uid("b"), Epoch(4))


def test_a_release_is_remembered_until_the_next_pause() -> None:
    pauses, released = paused(), replace(RECORD, released=True)
    pauses.outstanding(0, TWO, RECORD)
    assert not pauses.released
    pauses.outstanding(0, TWO, released)
    assert pauses.released == {0}
    pauses.begin(0, THREE)
    assert not pauses.released


def test_a_grant_of_an_unpaused_partition_is_not_news() -> None:
    assert not Pauses().is_news(0, RECORD)
    assert Pauses().is_news(0, replace(RECORD, reader=BY_GIVER)), "an operator that has just begun has not paused it itself"


def test_the_operators_own_grant_is_not_news() -> None:
    pauses = paused()
    pauses.reported(0, THREE)
    assert not pauses.is_news(0, replace(RECORD, uid=Uid("b"), epoch=THREE))


PARTITIONS = 4 * event_loop.AT_ONCE
OWNED = Record(group="uid", queue="orders", uid=Uid("a"), epoch=Epoch(1), topic_id="t", token=Token(1, 1), first=9)
OTHERS = Committed(7, replace(OWNED, group="another"))
FORMER, NOW = "former", "orders"
"""The queue's topics."""


class SlowCoordinator:
    """Has the records of all partitions, and answers one request after the other, each in a hundredth of a second."""

    def __init__(self) -> None:
        self.records = dict.fromkeys(range(PARTITIONS), Committed(5, OWNED))
        self.under_way = self.most = 0
        self.now = 0.0
        self._one = asyncio.Lock()

    async def committed(self, partitions: tuple[int, ...]) -> dict[int, Committed]:
        return {number: self.records[number] for number in partitions}

    async def renewed(self, partition: int, change: Callable[[Committed], Record | None]) -> Committed:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(4):
            async with self._one:
                await asyncio.sleep(0)
                self.now += 0.01
        self.records[partition] = self.records[partition]._replace(record=change(self.records[partition]))
        self.under_way -= 1
        return self.records[partition]

    def ours(self) -> int:
        """The number of records of this group."""
        return sum(one.record is not None and one.record.group == "uid" for one in self.records.values())


@pytest.mark.parametrize("where", [NOW, FORMER])
async def test_a_large_queue_is_released_in_several_timely_requests(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    coordinator: Any = SlowCoordinator()
    coordinator.records[0] = OTHERS
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=lambda: coordinator.now))

    async def described(*_: object) -> Topic:
        return Topic(NOW, "t", dict.fromkeys(range(PARTITIONS if where == NOW else 0), 1))

    async def of_the_group(*_: object, **__: object) -> tuple[dict[tuple[str, int], Committed], list[tuple[str, int]]]:
        return {(where, number): one for number, one in coordinator.records.items()}, []

    monkeypatch.setattr(adapter, "describe", described)
    monkeypatch.setattr(adapter, "committed", of_the_group)
    monkeypatch.setattr(adapter, "PartitionTransactions", lambda *_: coordinator)
    queue = KafkaQueue(
        KafkaAddress(("127.0.0.1:1",)), "shop.orders", TopicToOpen(topic=NOW, queue="orders"), Claimant("shop/orders", "uid")
    )
    asked, done = 0, False
    while not done:
        begun, before = coordinator.now, coordinator.ours()
        done = await queue.release()
        asked += 1
        assert coordinator.ours() < before
        assert done == (coordinator.ours() == 0)
        assert coordinator.now - begun < 5.0, "the operator asks no longer for an answer"
    assert asked > 2
    assert coordinator.most == event_loop.AT_ONCE
    assert coordinator.records[0] == OTHERS
