"""A large topic is given up part by part."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from baton.queues.kafka import adapter, event_loop
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.record import Committed, Record
from baton.queues.kafka.topic import Topic
from baton.queues.protocol import Claimant
from tests.unit.queues.kafka.slow_coordinator import OWNED, PARTITIONS, SlowCoordinator

OTHERS = Committed(7, replace(OWNED, group="another"))
FORMER, NOW = "former", "orders"
"""Topics of the queue."""


def ours(record: Record) -> bool:
    return record.group == "uid"


@pytest.mark.parametrize("where", [NOW, FORMER])
async def test_each_question_gives_up_a_part_in_time_and_the_last_one_says_that_all_is_done(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
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
        begun, before = coordinator.now, coordinator.count(ours)
        done = await queue.release()
        asked += 1
        assert coordinator.count(ours) < before
        assert done == (coordinator.count(ours) == 0)
        assert coordinator.now - begun < 5.0, "the operator asks no longer for an answer"
    assert asked > 2
    assert coordinator.most == event_loop.AT_ONCE
    assert coordinator.records[0] == OTHERS
