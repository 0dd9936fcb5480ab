"""Entries accepted by a process that ends are in the queue, or the log says otherwise (unless it is killed)."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from baton.queues.redis import AsyncRedisProducer
from tests.integration.redis.conftest import Queue
from tests.integration.redis.test_lingering_sends import entries
from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

ENDING = """
import signal, sys
from baton.queues.redis import RedisProducer

url, queue, end = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
producer = RedisProducer(url, queue, linger=3600, max_entries=10**9, max_bytes=10**9)
if end in ("at its end", "dropped"):
    for number in range(1000):
        producer.produce("key", str(number))
    if end == "dropped":
        del producer
    print("produced", 1000, flush=True)
    sys.exit(3)
with producer:
    number = 0
    while True:
        producer.produce("key", str(number))
        number += 1
        print("produced", number, flush=True)
"""


def ended(command: list[str]) -> tuple[int, str]:
    """Send SIGTERM after 500 lines of output. Returns the status and the output."""
    with ChildProcess(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if len(lines) == 500:
                process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE), "".join(lines)


@pytest.mark.parametrize("end", ["by sigterm", "at its end", "dropped", "with its event loop"])
async def test_an_ending_process_sends_the_entries_it_accepted(queue: Queue, end: str) -> None:
    program = LOOPING if end == "with its event loop" else ENDING
    status, words = await asyncio.to_thread(ended, [sys.executable, "-c", program, queue.url, queue.name, end])
    assert status == 3
    produced = max(int(number) for number in re.findall(r"produced (\d+)", words))
    found = [int(entry.value) for partition in (0, 1) for entry in await entries(queue, partition)]
    assert found == list(range(len(found)))
    assert len(found) >= produced


LOOPING = """
import asyncio, signal, sys
from baton.queues.redis import AsyncRedisProducer

url, queue, _ = sys.argv[1:]

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit, 3)
    async with AsyncRedisProducer(url, queue, linger=0.01) as producer:
        number = 0
        while True:
            await producer.produce("key", str(number))
            number += 1
            print("produced", number, flush=True)
            if number % 10 == 0:
                await asyncio.sleep(0)

asyncio.run(main())
"""


FORKING = """
import os, sys
from baton.queues.redis import RedisProducer

producer = RedisProducer(sys.argv[1], sys.argv[2], linger=3600)
producer.send("key", "before")
delivery = producer.produce("key", "parent")
if os.fork() == 0:
    assert delivery.done() and "forked" in str(delivery.exception())
    producer.send("key", "child")
    producer.produce("key", "child, at its end")
    producer.close()
    os._exit(0)
assert os.wait()[1] == 0
producer.close()
print(delivery.result().duplicate)
"""


async def test_both_sides_of_a_fork_send_their_own_entries(queue: Queue) -> None:
    command = [sys.executable, "-c", FORKING, queue.url, queue.name]
    done = await asyncio.to_thread(subprocess.run, command, check=True, timeout=PATIENCE, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
    found = [entry.value for partition in (0, 1) for entry in await entries(queue, partition)]
    assert found == [b"before", b"child", b"child, at its end", b"parent"]


def test_an_event_loop_that_ends_before_its_producer_is_logged(
    server: RedisServer, new_name: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    async def forget() -> None:
        producer = AsyncRedisProducer(server.url, new_name(), linger=3600)
        await producer.produce("k", "1")
        await asyncio.sleep(0)

    asyncio.run(forget())
    assert "1 entry to shop/orders" in caplog.text and "may not be sent" in caplog.text
