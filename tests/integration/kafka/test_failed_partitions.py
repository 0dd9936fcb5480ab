"""Partitions that cannot be read for a while: their owners go on by themselves when that is over."""

import asyncio

import pytest

from baton.model.ids import Epoch
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.conftest import MakeQueue
from tests.waiting import until


async def test_an_owner_goes_on_where_the_log_is_as_long_as_its_place_again(
    make: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.queues.kafka.fetcher._TELL_EVERY", 0.5)
    queue = make(1)
    queue.send(*map(str, range(10)))

    await asyncio.to_thread(queue.commit_plainly, 15)
    reader = await queue.granted("a", 1)
    found: list[bytes | None] = []

    def read() -> bool:
        """Whether it was told that the log was cut off."""
        try:
            found.extend(entry.value for entry in reader.read(0, Epoch(1)))
        except QueueUnreachable as problem:
            return "the log was cut off before it" in str(problem)
        return False

    for _ in range(2):
        await asyncio.to_thread(until, read, "it is told, and again")
    queue.send(*map(str, range(10, 20)))

    def goes_on() -> bool:
        read()
        return len(found) == 5

    await asyncio.to_thread(until, goes_on, "it is read")
    assert found == [b"15", b"16", b"17", b"18", b"19"]
