"""A signal's handler raises in the main thread, at any moment, beside other threads that send: each entry has an outcome in the
end, and what is said to be in the queue is there, once and in order. Every step by itself: tests/unit/queues."""

import asyncio
import json
import subprocess
import sys
from collections import defaultdict

import pytest

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from tests.integration.redis import interrupted_program
from tests.integration.redis.conftest import Queue
from tests.waiting import HOUR


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
