"""Callbacks run one at a time, and lost partitions are reported at the end too."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from baton.consumer.entry import Batch, HeldEntry
from baton.model.ids import Partition
from baton.testing import TestQueue
from tests.unit.consumer.readers import filled
from tests.waiting import PATIENCE, until


def test_callbacks_of_several_workers_are_never_beside_one_another() -> None:
    told: list[str] = []
    go_on = threading.Event()

    def assigned(partitions: Sequence[Partition]) -> None:
        told.append(f"assigned {partitions[0].number}")
        if len(told) == 1:
            assert go_on.wait(PATIENCE)
        told.append("returned")

    def lost(partitions: Sequence[Partition]) -> None:
        told.append(f"lost {partitions[0].number}")

    with TestQueue(partitions=2) as queue:
        queue.lose(1)
        queue.send("k", "v", partition=1)
        consumer = queue.consumer(on_assigned=assigned, on_lost=lost)
        queue.start(lambda entry: None, consumer=consumer, concurrency=4)
        until(lambda: told)
        queue._ledger.take(0)
        queue._ledger.give(1)
        until(lambda: len(consumer._loop._turns.dispatcher.calls) == 2 or len(told) > 1)
        go_on.set()
        queue.settled()
        assert told == ["assigned 0", "returned", "lost 0", "assigned 1", "returned"]


def test_a_partition_that_is_lost_while_a_handler_is_at_its_last_entry_is_told_of() -> None:
    told: list[str] = []
    queue = filled(1)
    consumer = queue.consumer(on_revoked=lambda *_: told.append("revoked"), on_lost=lambda _: told.append("lost"))

    def handle(entry: HeldEntry) -> None:
        consumer.stop()
        queue._ledger.take(0)
        until(lambda: consumer._loop.ended)

    consumer.run(handle)
    assert told == ["lost"]


async def test_and_in_an_event_loop() -> None:
    told: list[str] = []

    async def lost(partitions: object) -> None:
        told.append("lost")

    queue = filled(1)
    consumer = queue.consumer(on_lost=lost)

    async def handle(entry: HeldEntry) -> None:
        consumer.stop()
        queue._ledger.take(0)
        until(lambda: consumer._loop.ended)

    async with consumer:
        await consumer.serve(handle)
    assert told == ["lost"]


def test_a_partition_whose_handler_takes_longer_than_the_end_does_is_lost() -> None:
    told: list[str] = []
    queue = filled(1)
    consumer = queue.consumer(on_revoked=lambda *_: told.append("revoked"), on_lost=lambda _: told.append("lost"))

    def handle(entry: HeldEntry) -> None:
        consumer._loop.leave()
        until(lambda: consumer._loop.ended)

    consumer.run(handle)
    assert told == ["lost"]


def test_a_callback_that_waits_for_batches_of_its_own_consumer_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def assigned(_: Sequence[Partition]) -> None:
        told.append("assigned")
        for _batch in consumer.batches():
            told.append("a batch within the callback")

    queue = filled(1)
    consumer = queue.consumer(on_assigned=assigned)

    def program() -> None:
        with consumer:
            for batch in consumer.batches():
                told.append(f"batch of {len(batch)}")
                break

    running = threading.Thread(target=program, daemon=True)
    running.start()
    until(lambda: len(told) > 1)
    running.join(PATIENCE)
    assert told == ["assigned", "batch of 1"]
    assert "waits for entries of its own consumer" in caplog.text


@pytest.mark.parametrize("way", ["async for", "for"])
async def test_a_coroutine_callback_that_waits_for_batches_of_its_own_consumer_is_refused(
    caplog: pytest.LogCaptureFixture, way: str
) -> None:
    told: list[str] = []

    async def assigned(_: Sequence[Partition]) -> None:
        told.append("assigned")
        stream = consumer.batches()
        if way == "for":
            next(stream)
        await anext(stream)

    queue = filled(1)
    consumer = queue.consumer(on_assigned=assigned)
    async with consumer:
        assert len(await anext(consumer.batches())) == 1
    assert told == ["assigned"]
    assert "waits for entries of its own consumer" in caplog.text


async def test_batches_that_another_task_waits_for_meanwhile_come_after_the_callback() -> None:
    waiting: list[asyncio.Task[Batch]] = []

    async def assigned(_: Sequence[Partition]) -> None:
        waiting.append(asyncio.create_task(anext(consumer.batches(max_entries=1))))
        await asyncio.sleep(0)

    queue = filled(2)
    consumer = queue.consumer(on_assigned=assigned)
    async with consumer:
        stream = consumer.batches(max_entries=1)
        one, other = await anext(stream), await waiting[0]
        assert sorted(entry.offset for entry in (*one, *other)) == ["0", "1"]
