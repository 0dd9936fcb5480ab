"""The programs of the producer guide do what it says, each in its own process."""

import asyncio
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from tests.integration.redis import interrupted_program
from tests.integration.redis.conftest import Queue
from tests.waiting import HOUR, PATIENCE

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "producer.md").read_text()
SMALLEST, LINGERING, ASYNCIO, _KAFKA = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
ONE = Epoch(1)


async def run(queue: Queue, program: str) -> tuple[list[str], list[Entry]]:
    """Run a program. Returns its output, and the entries of the queue."""
    assert "redis://:password@redis.shop:6379/0" in program and '"shop/orders"' in program
    program = program.replace("redis://:password@redis.shop:6379/0", queue.url).replace('"shop/orders"', f'"{queue.name}"')
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], check=True, timeout=PATIENCE, capture_output=True, text=True
    )
    assert done.stderr == ""
    found = [e for number in (0, 1) for e in (await queue.granted("a", 1, number)).read(number, ONE, 100_000)]
    return done.stdout.splitlines(), found


async def test_the_smallest_program(queue: Queue) -> None:
    lines, found = await run(queue, SMALLEST)
    seventeen = [entry for entry in found if entry.key == b"customer-17"]
    assert lines == [f"{seventeen[0].partition} {seventeen[0].offset}"]
    assert (len(seventeen), len(found)) == (2, 3)
    assert [entry.headers for entry in found if entry.key == b"customer-4"] == [{"traceparent": "00-…".encode()}]


async def test_the_program_with_lingering_sends(queue: Queue) -> None:
    lines, found = await run(queue, LINGERING)
    assert [entry.value for entry in found] == [*(b"%d" % number for number in range(1000)), b"last"]
    assert lines == [f"stored at {found[-1].offset}", f"in partition {found[0].partition}"]


async def test_the_asyncio_program(queue: Queue) -> None:
    lines, found = await run(queue, ASYNCIO)
    seventeen = [entry for entry in found if entry.key == b"customer-17"]
    assert lines == [f"{seventeen[0].partition} {seventeen[0].offset}", str(seventeen[0].partition)]
    assert (len(found), [entry.value for entry in seventeen][-1000:]) == (1101, [b"%d" % number for number in range(1000)])


# -- A signal handler raises during a send: each entry still gets an outcome


async def everything(queue: Queue, partition: int) -> list[Entry]:
    reader, found = await queue.granted("auditor", 1, partition), list[Entry]()
    while got := reader.read(partition, Epoch(1), 1000):
        reader.ack(partition, Epoch(1), [entry.offset for entry in got])
        found += got
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_a_real_signal_may_interrupt_a_producer_anywhere(queue: Queue, seed: int) -> None:
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
