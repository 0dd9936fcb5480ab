"""Requests to a real Redis can be cancelled in any turn of the event loop. A lost cancellation would leave a task running."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from baton.controller.queue_worker import QueueWorker
from baton.kube.clock import ApiServerClock
from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.protocol import QueueAdapter
from baton.queues.redis import RedisQueue
from tests.integration.redis.conftest import GROUP, Queue
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

QUESTIONS: dict[str, Callable[[RedisQueue], Awaitable[object]]] = {
    "check": lambda queue: queue.check(),
    "ensure": lambda queue: queue.ensure(2),
    "ensure as it is": lambda queue: queue.ensure(None),
    "grant": lambda queue: queue.grant(0, Uid("a"), Epoch(1)),
    "outstanding": lambda queue: queue.outstanding(0),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_request_can_be_cancelled_in_any_turn_of_the_loop(queue: Queue, question: str) -> None:
    async def ask() -> None:
        await QUESTIONS[question](queue.operator)

    for turns in count():
        await ask()  # opens the connection, so that each request takes the same turns until it waits for the server
        asked = asyncio.create_task(ask())
        for _ in range(turns):
            await asyncio.sleep(0)
        if asked.done():
            break
        asked.cancel()
        await asyncio.wait([asked], timeout=PATIENCE)
        assert asked.cancelled(), f"after {turns} turns"


async def test_a_worker_can_be_cancelled_in_any_turn_of_the_loop(server: RedisServer, new_name: Callable[[], str]) -> None:
    name = new_name()

    async def connect() -> QueueAdapter:
        return RedisQueue(server.url, name, GROUP)

    for turns in range(0, 600, 3):
        worker = QueueWorker(QueueName(name), connect, ApiServerClock(), lambda: None)
        worker.ask_for(2)
        running = asyncio.create_task(worker.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=PATIENCE)
        assert running.cancelled(), f"after {turns} turns"
