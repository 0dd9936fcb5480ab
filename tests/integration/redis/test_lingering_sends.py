"""Entries sent without waiting, by threads and by tasks: in order per key, exactly once, and no loss goes unreported."""

import asyncio
import re
import socket
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer, Sent
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import Queue, make_queue, replicated_queue
from tests.listener import Listener
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

ONE = Epoch(1)


class Threads:
    """The producer for threads, with the methods of `Tasks`."""

    def __init__(self, url: str, queue: str, **options: Any) -> None:
        self.producer = RedisProducer(url, queue, **{"patience": PATIENCE} | options)

    async def send(self, *arguments: Any, **options: Any) -> Sent:
        return await asyncio.to_thread(self.producer.send, *arguments, **options)

    async def produce(self, *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(self.producer.produce, *arguments, **options)

    async def produce_all(self, entries: list[tuple[bytes, str]]) -> list[Any]:
        return await asyncio.to_thread(lambda: [self.producer.produce(key, value) for key, value in entries])

    async def result(self, delivery: Any) -> Sent:
        return await asyncio.to_thread(delivery.result)

    async def flush(self, within: float | None = None) -> None:
        await asyncio.to_thread(self.producer.flush, within)

    async def close(self, within: float | None = None) -> None:
        await asyncio.to_thread(self.producer.close, within)


class Tasks:
    """The producer for tasks."""

    def __init__(self, url: str, queue: str, **options: Any) -> None:
        self.producer = AsyncRedisProducer(url, queue, **{"patience": PATIENCE} | options)
        self.send = self.producer.send
        self.produce = self.producer.produce
        self.flush = self.producer.flush
        self.close = self.producer.close

    async def produce_all(self, entries: list[tuple[bytes, str]]) -> list[Any]:
        return [await self.producer.produce(key, value) for key, value in entries]

    async def result(self, delivery: Any) -> Sent:
        return await delivery  # type: ignore[no-any-return]


Make = Callable[..., Threads | Tasks]


@pytest.fixture(params=[Threads, Tasks])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    made: list[Threads | Tasks] = []

    def one(url: str, name: str, **options: Any) -> Threads | Tasks:
        made.append(request.param(url, name, **options))
        return made[-1]

    yield one
    for each in made:
        with suppress(QueueUnreachable):  # expected failures
            await each.close(0)


async def entries(queue: Queue, partition: int = 0) -> Sequence[Entry]:
    return (await queue.granted("auditor", 1, partition)).read(partition, ONE, 100_000)


def numbered(count: int, keys: int = 20) -> list[tuple[bytes, str]]:
    return [(b"key-%d" % (number % keys), str(number)) for number in range(count)]


def in_order(found: Sequence[Entry]) -> None:
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for entry in found:
        by_key[entry.key].append(int(entry.value))
    for key, numbers in by_key.items():
        assert numbers == sorted(set(numbers)), key


async def test_deliveries_have_partition_and_offset(queue: Queue, make: Make) -> None:
    producer = make(queue.url, queue.name)
    sends = numbered(3000)
    deliveries = await producer.produce_all(sends)
    await producer.flush()
    assert all(delivery.done() for delivery in deliveries)
    found = {(e.partition, e.offset): e for partition in (0, 1) for e in await entries(queue, partition)}
    assert len(found) == len(sends)
    for (key, value), delivery in zip(sends, deliveries, strict=True):
        sent = await producer.result(delivery)
        assert not sent.duplicate
        assert (found[sent.partition, str(sent.offset)].key, found[sent.partition, str(sent.offset)].value) == (
            key,
            value.encode(),
        )
    in_order(list(found.values()))


async def test_lingering_entries_are_sent_together_without_a_flush(queue: Queue, make: Make, raw: redis.Redis) -> None:
    producer = make(queue.url, queue.name, linger=0.2)
    await producer.send(queue.key(0), "0")
    before: int = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
    deliveries = await producer.produce_all([(queue.key(0), str(number)) for number in range(1, 11)])
    assert [(await producer.result(delivery)).duplicate for delivery in deliveries] == [False] * 10
    assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 1
    in_order(await entries(queue))


async def test_a_send_goes_behind_lingering_entries_of_its_key(queue: Queue, make: Make) -> None:
    producer = make(queue.url, queue.name, linger=PATIENCE)
    await producer.produce(queue.key(0), "1")
    await producer.send(queue.key(0), "2")
    await producer.produce(queue.key(0), "3")
    await producer.close()
    assert [entry.value for entry in await entries(queue)] == [b"1", b"2", b"3"]


async def test_a_partition_or_none_may_be_given_instead_of_a_key(queue: Queue, make: Make) -> None:
    producer = make(queue.url, queue.name)
    sent = [await producer.send(queue.key(0), "x", partition=1) for _ in range(3)]
    assert {one.partition for one in sent} == {1}
    assert {(await producer.send(None, "y")).partition for _ in range(4)} <= {0, 1}
    delivery = await producer.produce(b"k", "x", partition=2)
    with pytest.raises(ValueError, match="has no partition 2: it has 2, from 0 to 1"):
        await producer.result(delivery)
    with pytest.raises(ValueError, match="a partition is a number from 0, not -1"):
        await producer.send(b"k", "x", partition=-1)
    found = [entry for partition in (0, 1) for entry in await entries(queue, partition)]
    assert sorted(entry.key for entry in found) == [b""] * 4 + [queue.key(0)] * 3


class LossyProxy:
    """Forwards requests to the server, and cuts the first connections instead of returning the answer."""

    def __init__(self, server: RedisServer, lost: int) -> None:
        self._target = (server.bind, server.port)
        self._left = lost
        self._listener = Listener(self._connect)
        self.url = self._listener.url
        self.close = self._listener.close

    def _connect(self, client: socket.socket) -> None:
        threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as upstream:
            threading.Thread(target=self._pump, args=(client, upstream), daemon=True).start()
            while answer := _receive(upstream):
                # The answer to the script add: the number of the first entry, if all were added.
                if self._left and re.match(rb":\d{16}\r\n", answer):
                    self._left -= 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(answer)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := _receive(source):
                sink.sendall(data)
        except OSError:
            pass


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


async def test_lost_answers_make_no_duplicates_and_lose_nothing(queue: Queue, server: RedisServer, make: Make) -> None:
    proxy = LossyProxy(server, lost=4)
    try:
        producer = make(proxy.url, queue.name, max_entries=50)
        deliveries = await producer.produce_all([(queue.key(0), str(number)) for number in range(1000)])
        await producer.flush()
        sent = [await producer.result(delivery) for delivery in deliveries]
        assert any(one.duplicate for one in sent) and not all(one.duplicate for one in sent)
        await producer.close()
    finally:
        proxy.close()
    assert [entry.value for entry in await entries(queue)] == [b"%d" % number for number in range(1000)]


async def test_produce_waits_for_room_in_a_full_buffer(make: Make) -> None:
    with RedisServer() as frozen:
        other = await make_queue(frozen.url, 1)
        patient = make(frozen.url, other.name, buffer_bytes=10_000)
        hasty = make(frozen.url, other.name, buffer_bytes=10_000, patience=0.3)
        await patient.send(other.key(0), "first")
        await hasty.send(other.key(0), "first")
        with frozen.client() as raw:
            raw.config_set("maxmemory", 1)
        with pytest.raises(QueueUnreachable, match=r"is full \(maxmemory\).* The producer's buffer is full \(10,000 bytes\)"):  # noqa: PT012
            for _ in range(100):  # one of them raises
                await hasty.produce(other.key(0), "h" * 1000)
        producing = asyncio.gather(patient.produce_all([(other.key(0), "p" * 1000) for _ in range(50)]))
        await asyncio.wait({producing}, timeout=0.2)
        assert not producing.done(), "it waits for room"
        with frozen.client() as raw:
            raw.config_set("maxmemory", 0)
        [deliveries] = await producing
        for delivery in deliveries:
            await patient.result(delivery)
        values = [entry.value[:1] for entry in await entries(other)]
        assert values.count(b"p") == 50
        await other.close()


async def test_an_unseen_failure_is_raised_once(server: RedisServer, make: Make, new_name: Callable[[], str]) -> None:
    name, told = new_name(), list[Any]()
    producer = make(server.url, name, patience=0.1)
    looked_at = await producer.produce("k", "1")
    with pytest.raises(QueueUnreachable, match=f"has no queue {name}"):
        await producer.result(looked_at)
    await producer.produce("k", "2", on_delivery=told.append)
    await producer.produce("k", "3")
    await producer.produce("k", "4")
    said = rf"2 entries of produce\(\) may not be in the queue. The first: .* has no queue {name}"
    with pytest.raises(QueueUnreachable, match=said):
        await producer.flush()
    assert len(told) == 1
    with pytest.raises(QueueUnreachable):
        await producer.result(told[0])
    await producer.flush()
    await producer.produce("k", "5")
    with pytest.raises(QueueUnreachable, match=r"1 entry of produce\(\) may not be"):
        await producer.close()
    with pytest.raises(RuntimeError, match="is closed"):
        await producer.produce("k", "6")


async def test_failing_callbacks_do_no_harm(queue: Queue, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    producer, told = make(queue.url, queue.name), list[Any]()

    def harm(delivery: object) -> None:
        raise KeyError("a slip")

    await producer.produce(queue.key(0), "0", on_delivery=harm)
    for number in range(1, 10):
        await producer.produce(queue.key(0), str(number), on_delivery=told.append)
    await producer.flush()
    assert "a callback for an entry that was sent has failed" in caplog.text
    found = await entries(queue)
    assert [(await producer.result(one)).offset for one in told] == [entry.offset for entry in found[1:]]
    late = list[Any]()
    told[0].add_done_callback(late.append)
    assert late == told[:1]


async def test_flush_and_close_keep_within_their_time(make: Make, new_name: Callable[[], str]) -> None:
    with RedisServer() as server:
        producer = make(server.url, new_name())
        delivery = await producer.produce("k", "1")
        with pytest.raises(QueueUnreachable, match=r"1 entry to .* still waits after 0.1 s"):
            await producer.flush(0.1)
        with pytest.raises(QueueUnreachable, match="was closed before it was sent"):
            await producer.close(0.1)
        assert delivery.done()


async def test_an_entry_counts_as_sent_once_enough_replicas_have_it(make: Make) -> None:
    async with replicated_queue() as (primary, replica, queue):
        producer = make(primary.url, queue.name, replicas=1)
        hasty = make(primary.url, queue.name, replicas=1, patience=1.5)
        await producer.send(queue.key(0), "1")
        replica.freeze()
        try:
            with pytest.raises(QueueUnreachable, match=r"only 0 of 1 replicas had them within 1000 ms"):
                await hasty.send(queue.key(0), "2")
            sending = asyncio.create_task(producer.send(queue.key(0), "3"))
            with primary.client() as raw:
                stream = partition_keys(queue.name, 0).stream
                await asyncio.to_thread(until, lambda: raw.xlen(stream) == 3)
            assert not sending.done()
        finally:
            replica.thaw()
        await sending
        assert [entry.value for entry in await entries(queue)] == [b"1", b"2", b"3"]


async def test_a_cancelled_task_does_not_disturb_the_others(queue: Queue) -> None:
    async with AsyncRedisProducer(queue.url, queue.name, patience=PATIENCE) as producer:
        await producer.send(queue.key(0), "warm")
        sending = [asyncio.create_task(producer.send(queue.key(0), str(number))) for number in range(10)]
        await asyncio.sleep(0)
        sending[4].cancel()
        done = await asyncio.gather(*sending, return_exceptions=True)
    assert [isinstance(one, Sent) for one in done] == [number != 4 for number in range(10)]
    values = [entry.value for entry in await entries(queue)]
    assert [value for value in values if value not in (b"4", b"warm")] == [b"%d" % number for number in range(10) if number != 4]
