"""A query's stream at a real Redis, with calls in the order of Spark's, without Spark."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from baton.model import Epoch, MemberId, QueueName, Uid
from baton.model.ids import Partition
from baton.queues.producer_side import Sent
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisProducer, RedisQueue
from baton.queues.redis.keys import partition_keys
from baton.spark.context import FleetContext
from baton.spark.executors import Executor
from baton.spark.offsets import AskAgain, StreamOptions, offset_text
from baton.spark.queues import FleetQueues, QueueAwayError
from baton.spark.stream import IDLE, RunningQuery, Stream
from tests.fleet_context import fleet_context
from tests.redis_server import RedisServer
from tests.unit.spark.builders import entry
from tests.waiting import until
from tests.written_ledger import WrittenLedger

ORDERS, ME, QUEUE = QueueName("orders"), MemberId("exec-1"), "default/orders"
ONLY = Partition(ORDERS, 0)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as made:

        async def make(queue: RedisQueue) -> None:
            await queue.ensure(1)
            await queue.grant(0, Uid("a"), Epoch(1))

        ask(made, make)
        yield made


@pytest.fixture
def context(server: RedisServer) -> Iterator[FleetContext]:
    ledger = WrittenLedger()
    ledger.write(entry(ME, {0: 1}, uid="a"))
    queues = FleetQueues({ORDERS: server.url}, "default", "group")
    made = fleet_context(queues, ledger, lambda: {ME: Executor("1", "10.0.0.1", ME)})
    made.finishing.start()
    yield made
    made.finishing.close(5)
    queues.close()


def ask(server: RedisServer, what: Callable[[RedisQueue], Awaitable[None]]) -> None:
    async def asked() -> None:
        queue = RedisQueue(server.url, QUEUE, Claimant("default/group", "a test"))
        try:
            await what(queue)
        finally:
            await queue.close()

    asyncio.run(asked())


def number_of(sent: Sent) -> int:
    assert sent.offset is not None
    return int(sent.offset.partition("-")[0])


def again(what: Callable[[], object]) -> object:
    """Ask until there is an answer, as the JVM does."""

    def asked() -> list[object]:
        try:
            return [what()]
        except AskAgain:
            return []

    return until(asked, "there is an answer")[0]


def to_the_end(stream: Stream) -> int:
    """Read batch after batch until there are no new entries, and return the position."""
    at = "{}"
    while True:
        positions = again(lambda: stream.latest_offset(at))  # noqa: B023
        assert isinstance(positions, dict)
        end = json.dumps({ORDERS: {str(partition.number): position for partition, position in positions.items()}})
        if end == at:
            return int(positions[ONLY])
        again(lambda: stream.plan(at, end, "1"))  # noqa: B023
        at = end


def test_available_now_reads_past_thousands_of_foreign_entries(server: RedisServer, context: FleetContext) -> None:
    stream = partition_keys(QUEUE, 0).stream
    with RedisProducer(server.url, QUEUE) as producer, server.client() as client:
        number = number_of(producer.send("key", "first"))
        with client.pipeline() as pipe:
            for nth in range(1, 2500):
                pipe.xadd(stream, {"x": "y"}, id=f"{number}-{nth}")
            pipe.execute()
        server.stop()
        server.start()  # numbers go on far behind
        last = [number_of(producer.send("key", str(nth))) for nth in range(10)][-1]
    query = Stream("group-1", RunningQuery("query"), "place", StreamOptions(max_rows=5), context)
    query.prepare_available_now()
    assert to_the_end(query) == last


def test_a_source_beside_others_waits_briefly_and_still_finds_new_entries(server: RedisServer, context: FleetContext) -> None:
    class Waits(FleetQueues):
        longest = 0.0

        def wait(self, partitions: Iterable[Partition], seconds: float) -> set[Partition]:
            self.longest = max(self.longest, seconds)
            return super().wait(partitions, seconds)

    queues = Waits({ORDERS: server.url}, "default", "group")
    stream = Stream("group-1", RunningQuery("query", alone=False), "place", StreamOptions(), replace(context, queues=queues))
    begin = again(lambda: stream.latest_offset("{}"))
    assert isinstance(begin, dict)
    at = offset_text(begin)
    assert again(lambda: stream.latest_offset(at)) == begin
    with RedisProducer(server.url, QUEUE) as producer:
        number = number_of(producer.send("key", "first"))
    until(lambda: again(lambda: stream.latest_offset(at)) == {ONLY: number}, "it has heard of the entry")
    assert 0 < queues.longest < IDLE
    queues.close()


def test_available_now_finds_an_entry_after_many_foreign_ones(server: RedisServer, context: FleetContext) -> None:
    with RedisProducer(server.url, QUEUE) as producer, server.client() as client:
        number = number_of(producer.send("key", "first"))
        assert to_the_end(Stream("group-1", RunningQuery("query"), "place", StreamOptions(), context)) == number
        until(lambda: context.queues.positions()[ONLY].committed == number, "the first is finished")
        with client.pipeline() as pipe:
            for nth in range(1, 2500):
                pipe.xadd(partition_keys(QUEUE, 0).stream, {"x": "y"}, id=f"{number}-{nth}")
            pipe.execute()
        last = number_of(producer.send("key", "behind them"))
    query = Stream("group-2", RunningQuery("query"), "place", StreamOptions(), context)
    query.prepare_available_now()
    assert to_the_end(query) == last


def test_a_checkpoint_may_name_a_partition_that_no_longer_exists(server: RedisServer, context: FleetContext) -> None:
    with RedisProducer(server.url, QUEUE) as producer:
        producer.send("key", "first")
        at = to_the_end(Stream("group-1", RunningQuery("query"), "place", StreamOptions(), context))
        producer.send("key", "second")
    another = Stream("group-2", RunningQuery("query"), "place", StreamOptions(), context)
    begin = json.dumps({ORDERS: {"0": at, "77": 5}})
    assert again(lambda: another.latest_offset(begin)) == {ONLY: at + 1, Partition(ORDERS, 77): 5}


def test_rows_behind_ignore_the_jump_of_numbers_after_a_failover(server: RedisServer, context: FleetContext) -> None:
    with RedisProducer(server.url, QUEUE) as producer:
        producer.send("key", "first")
        query = Stream("group-1", RunningQuery("query"), "place", StreamOptions(), context)
        at = {ONLY: to_the_end(query)}
        assert query.rows_behind(at) == {ONLY: 0}
        server.stop()
        server.start()
        another = Stream("group-2", RunningQuery("query"), "place", StreamOptions(), context)
        again(lambda: another.latest_offset(json.dumps({ORDERS: {"0": at[ONLY]}})))
        progress = partition_keys(QUEUE, 0).progress
        with server.client() as client:
            assert int(client.hget(progress, "last")) > at[ONLY] + 1_000_000, "numbers go on far behind"
        assert another.rows_behind(at) == {ONLY: 0}
        producer.send("key", "second")
        assert Stream("group-3", RunningQuery("query"), "place", StreamOptions(), context).rows_behind(at) == {ONLY: 1}


def test_an_unreadable_password_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "password"
    with RedisServer(password="secret") as server:
        queues = FleetQueues({ORDERS: f"redis://127.0.0.1:{server.port}?password_file={file}"}, "default", "group")
        with pytest.raises(QueueAwayError, match="password"):
            queues.address(ORDERS)
        file.write_text("secret")
        assert queues.address(ORDERS)["server"]["password"] == "secret"
        queues.close()
