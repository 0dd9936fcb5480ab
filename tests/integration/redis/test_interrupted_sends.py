"""A signal's handler raises in the main thread, at any moment, beside other threads that send: each entry has an outcome in the
end, and what is said to be in the queue is there, once and in order. Every step by itself: tests/unit/queues."""

import asyncio
import json
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer
from baton.queues.redis.async_producer import AsyncPendingSend
from baton.queues.redis.outbox import Outbox
from tests.integration.redis import interrupted_program
from tests.integration.redis.conftest import Queue
from tests.waiting import HOUR, PATIENCE


async def everything(queue: Queue, partition: int) -> list[Entry]:
    reader, found = await queue.granted("auditor", 1, partition), list[Entry]()
    while got := reader.read(partition, Epoch(1), 1000):
        reader.ack(partition, Epoch(1), [entry.offset for entry in got])
        found += got
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_what_a_producer_says_holds_wherever_it_is_interrupted(queue: Queue, seed: int) -> None:
    command = [sys.executable, interrupted_program.__file__, queue.url, queue.name, str(seed), "400"]
    done = await asyncio.to_thread(subprocess.run, command, timeout=HOUR, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found: dict[str, tuple[int, str]] = {}
    order: dict[str, list[int]] = defaultdict(list)
    for partition in (0, 1):
        for entry in await everything(queue, partition):
            value = entry.value.decode()
            assert value not in found, "twice"
            found[value] = partition, entry.offset
            key, number = value.split()
            order[key].append(int(number))
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert told["unknown"] == [] and told["bytes"] == 0
    assert len(told["said"]) >= interrupted_program.ENOUGH
    for value, (partition, offset, _) in told["said"]:
        assert value in found, "not in the queue"
        assert offset is None or (partition, offset) == found[value]


@pytest.mark.parametrize("nth", [1, 2], ids=["in the task that sends", "in a call"])
@pytest.mark.parametrize("raised", [SystemExit, ZeroDivisionError])
async def test_a_producer_of_tasks_ends_and_tells_what_became_of_each_entry(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException], nth: int
) -> None:
    """SystemExit ends the event loop; another exception ends a task. Either left an entry that waited for ever."""
    calls, place, given = count(), Outbox._place, list[AsyncPendingSend]()

    def interrupted(*arguments: Any) -> None:
        if next(calls) == nth:
            raise raised
        place(*arguments)

    monkeypatch.setattr(Outbox, "_place", interrupted)

    async def work() -> None:
        async with AsyncRedisProducer(queue.url, queue.name, patience=PATIENCE) as producer:
            given.extend([await producer.produce(key, "1") for key in "ab"])
            await producer.flush()
            given.append(await producer.produce("a", "2"))

    def run() -> None:
        with suppress(raised, QueueUnreachable):
            asyncio.run(work())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    assert [one.done() for one in given] == [True] * len(given)
