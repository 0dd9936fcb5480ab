"""With many partitions at a slow broker, the first commits are done before the time for all is over."""

from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace

import pytest

from baton.queues.kafka import event_loop
from baton.queues.kafka.client import StaleToken
from baton.queues.kafka.group_offsets import _of_each
from baton.queues.protocol import PartitionUnavailable

MANY, WITHIN = 40, 20.0


class Broker:
    """Takes a second for each request."""

    def __init__(self) -> None:
        self.now = 0.0

    async def answer(self, number: int) -> int:
        self.now += 1.0
        if number == 1:
            raise StaleToken("TxnOffsetCommit")
        return number


async def test_partitions_out_of_time_are_reported_and_the_others_done(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=lambda: broker.now))
    asked: dict[int, Callable[[], Awaitable[int]]] = {number: partial(broker.answer, number) for number in range(MANY)}
    found = await _of_each(asked, "Kafka at broker-0:9092", WITHIN)
    assert found.keys() == asked.keys() and (found[0], broker.now < WITHIN) == (0, True)
    assert isinstance(found[1], StaleToken) and isinstance(found[MANY - 1], PartitionUnavailable)
