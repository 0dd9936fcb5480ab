"""A story that breaks off is judged all the same."""

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis
from rich.console import Console

from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from demo import performance
from demo.performance import Performance
from demo.picture import Member, Picture
from demo.stage import PARTITIONS, Stage
from demo.story import Story
from tests.left_undone import waiting
from tests.redis_server import RedisServer
from tests.waiting import until


class NobodyWorks(Stage):
    """Its one member owns everything, processes nothing and has soon ended."""

    scene, member, first, queue = "a queue", "consumer", 1, "shop/orders"
    delay = max_handoff = 1.0
    rate = 500.0

    def begin(self, running: ExitStack, watching: ExitStack) -> None:
        self.url = running.enter_context(RedisServer()).url
        asyncio.run(RedisQueue(self.url, self.queue, Claimant(self.queue, "a test")).ensure(PARTITIONS))
        owned = dict.fromkeys(range(PARTITIONS), 1)
        member = Member("orders-1", "u1", "ready", registered=True, listed=True, owned=owned)
        self.observer.show(Picture(members=(member,), state="Ready", partitions=PARTITIONS))
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        with redis.Redis.from_url(self.url) as server:
            until(lambda: waiting(server, self.queue) > 100, "messages are in the queue")
        self.observer.ended = "orders-1 has ended by itself"

    def scale(self, members: int) -> None:
        raise AssertionError

    def signal(self, member: Member, number: signal.Signals) -> None:
        raise AssertionError

    def look(self) -> Iterator[str]:
        yield "nothing"


def test_unprocessed_messages_are_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "_STILL", 1.0)
    console = Console(quiet=True)
    with ExitStack() as running, ExitStack() as watching:
        told = Performance(console, NobodyWorks(Story(plain=False)), running, watching)
        assert told.tell() == 1
    verdict = json.loads(told.line)
    assert verdict["gaps"] == verdict["produced"] > 0
    assert "orders-1 has ended by itself" in told.broke_off
