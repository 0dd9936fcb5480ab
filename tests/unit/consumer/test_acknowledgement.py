"""Waiting for an acknowledgement returns whether the queue has it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from baton.consumer.entry import Acknowledgement
from baton.model.ids import Epoch
from baton.testing import InMemoryReader
from tests.unit.consumer.readers import queue_of
from tests.waiting import PATIENCE


async def test_a_wait_that_is_cancelled_changes_nothing_for_others_and_later_ones() -> None:
    receipt = Acknowledgement()

    async def wait() -> bool:
        return await receipt

    other, cancelled = asyncio.create_task(wait()), asyncio.create_task(wait())
    await asyncio.sleep(0)
    cancelled.cancel()
    with suppress(asyncio.CancelledError):
        await cancelled
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(receipt, 0.01)
    receipt.expect(0)
    assert await asyncio.wait_for(other, PATIENCE) is True
    assert await receipt is True
    assert receipt.wait(0) is True


class Failing(InMemoryReader):
    """Fails with an unexpected error."""

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        raise RuntimeError("an odd reply")


def test_where_the_consumer_fails_nobody_waits_for_ever() -> None:
    queue, _ = queue_of(Failing)
    queue.send("k", "v")
    queue.send("k", "v")
    consumer = queue.consumer()

    answers: list[bool] = []

    def program() -> None:
        with consumer:
            for batch in consumer.batches(max_entries=1):
                answers.append(batch.ack().wait(PATIENCE))
                answers.append(batch.ack().wait(PATIENCE))  # a word after its end
                answers.append(batch[0].still_mine())

    with pytest.raises(RuntimeError, match="an odd reply"):
        program()
    assert answers == [False] * 3
