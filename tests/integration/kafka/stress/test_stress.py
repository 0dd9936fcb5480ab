"""A few rounds; `python -m tests.integration.kafka.stress` makes more of them."""

import asyncio
from pathlib import Path

import pytest

from baton.model.ids import Epoch
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.conftest import MakeQueue
from tests.integration.kafka.reading import read
from tests.integration.kafka.stress.rounds import coordinator_rounds, place_rounds, rounds, transaction_rounds
from tests.kafka_broker import KafkaBroker
from tests.waiting import eventually

pytestmark = pytest.mark.promise


async def test_stopped_and_killed_owners_lose_nothing_and_commit_nothing_stale(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.make_topic("stress", 4)
    found, handled, said = await rounds(broker, "stress", tmp_path, 12, seed=1)
    assert handled and not any(found), (found, said[-2000:])


async def test_stopped_and_killed_consumers_send_each_output_once_and_in_order(broker: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("sums", "sums-out"):
        broker.make_topic(topic, 4)
    wrong, found = await transaction_rounds(broker, "sums", tmp_path, 10, seed=3)
    assert found.handled and found.handed_over and not any(wrong), (wrong, found.handed_over, found.said[-2000:])


@pytest.mark.long
async def test_owners_lose_nothing_although_the_broker_is_killed(tmp_path: Path) -> None:
    with KafkaBroker() as mortal:
        mortal.make_topic("stress", 4)
        found, handled, said = await rounds(mortal, "stress", tmp_path, 9, seed=2, broker_dies_every=4)
    assert handled and not any(found), (found, said[-2000:])


@pytest.mark.long
async def test_a_broker_killed_during_commits_loses_no_confirmed_one(tmp_path: Path) -> None:
    with KafkaBroker() as mortal:
        mortal.make_topic("stress", 4)
        found, caught, said = await coordinator_rounds([mortal.servers], mortal, "stress", "shop.stress", tmp_path, 2, seed=4)
    assert caught and not any(found), (found, said[-2000:])


@pytest.mark.long
async def test_owners_that_wake_up_do_not_overwrite_a_set_offset(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.make_topic("set-back", 4)
    set_to, found = await place_rounds(broker, "set-back", tmp_path, 8, seed=5)
    assert set_to and found == set_to


async def test_a_broker_that_is_silent_for_a_while_is_reported(make: MakeQueue, broker: KafkaBroker) -> None:
    queue = make(partitions=1)
    queue.send("1", "2")
    reader = await queue.granted("a", 1)
    first, second = await asyncio.to_thread(read, reader, 0, 1, 2)
    broker.freeze()
    try:
        with pytest.raises(QueueUnreachable, match=r"does not answer|did not answer"):
            await asyncio.to_thread(reader.ack, 0, Epoch(1), [first.offset])
        with pytest.raises(QueueUnreachable, match=r"does not answer|did not answer"):
            await queue.operator.check()
    finally:
        broker.thaw()

    async def taken() -> bool:
        try:
            await asyncio.to_thread(reader.ack, 0, Epoch(1), [first.offset, second.offset])
        except QueueUnreachable:
            return False
        return True

    async def committed() -> bool:
        try:
            return await queue.committed() == 2
        except QueueUnreachable:  # a broker that was stopped for long names itself no broker for a moment
            return False

    await eventually(taken, "the broker takes the commit")
    await eventually(committed, "both are committed")
