"""The demo's own parts on a real Redis: what they report is what happened."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from demo.app import SINK
from demo.attempts import attempts
from demo.gauges import Gauges
from demo.producer import Producer
from tests.redis_server import RedisServer
from tests.waiting import until

QUEUE = "shop/orders"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


@pytest.fixture
async def queue(url: str) -> RedisQueue:
    with redis.Redis.from_url(url) as server:
        server.flushall()
    found = RedisQueue(url, QUEUE, Claimant(QUEUE, "a test"))
    await found.ensure(12)
    return found


async def test_a_range_that_comes_twice_is_taken_once_whatever_the_epoch_in_force(url: str, queue: RedisQueue) -> None:
    await queue.grant(3, Uid("a"), Epoch(1))
    await queue.grant(3, Uid("b"), Epoch(2))
    with redis.Redis.from_url(url) as server, watching(url) as gauges:
        sink = server.register_script(SINK)
        keys = [f"demo:{{{QUEUE}}}:3:{each}" for each in ("taken", "results", "count", "first")]
        result = '{"partition":3,"epoch":1,"executor":"%s","batch":1,"run":"r","rows":[["17",5,"k",1,false]]}'
        assert sink(keys, [17, 17, result % "e", 1, "1 e", 7.5]) == 0
        assert sink(keys, [17, 17, result % "f", 1, "1 f", 8.5]) == 1
        assert [(row.executor, row.late) for row in gauges.results()] == [("e", False), ("f", True)]
        assert server.get(keys[2]) == b"1"
        assert gauges.first_rows() == {(3, 1, "e"): 7.5, (3, 1, "f"): 8.5}


async def test_lost_credentials_are_refused_and_good_ones_would_not_be(url: str, queue: RedisQueue) -> None:
    await queue.grant(3, Uid("a"), Epoch(1))
    await queue.grant(3, Uid("b"), Epoch(2))
    assert all(attempt.refused for attempt in attempts(url, QUEUE, "a", {3: 1}))
    assert all(attempt.refused for attempt in attempts(url, QUEUE, "b", {3: 1}))
    assert not any(attempt.refused for attempt in attempts(url, QUEUE, "b", {3: 2}))


async def test_the_producer_reports_what_the_queue_has_taken(url: str, queue: RedisQueue) -> None:
    with Producer(url, QUEUE, 2000) as producer:
        until(lambda: producer.failed() or producer.produced > 500)
        assert not producer.failed()
        keys = producer.stop()
    assert sum(keys.values()) == producer.produced == sum((await queue.check()).lag.values())


@contextmanager
def watching(url: str) -> Iterator[Gauges]:
    with Gauges(url, QUEUE, 12, lambda: 0, time.monotonic) as gauges:
        yield gauges
