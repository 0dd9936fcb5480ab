"""Entries get into the queue once each and in order per key, whatever happens on the way."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import redis
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from baton.consumer.tracing import context_headers, traced
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer, RedisReader, scripts, sending
from baton.queues.redis.async_producer import AsyncPendingSend
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.outbox import Outbox
from baton.queues.redis.routing import slot_of
from tests.integration.redis.conftest import Queue, make_queue, own_queue
from tests.integration.redis.pods import Operator
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

ONE = Epoch(1)


async def values(queue: Queue, partition: int = 0) -> list[bytes]:
    owner = (await queue.operator.check()).owners
    epoch = Epoch(owner[partition].epoch + 1 if partition in owner else 1)
    return [entry.value for entry in (await queue.granted("auditor", epoch, partition)).read(partition, epoch, 5000)]


async def test_each_key_goes_to_one_partition_and_keeps_its_order(queue: Queue) -> None:
    queue.producer.send_many((f"key-{number % 20}", f"{number % 20}:{number}") for number in range(1000))
    seen: dict[bytes, int] = {}
    found = [value.split(b":") for partition in (0, 1) for value in await values(queue, partition)]
    assert len(found) == 1000
    for key, number in found:
        assert seen.get(key, -1) < int(number)
        seen[key] = int(number)


@pytest.mark.parametrize(("keys", "partitions", "most"), [(10, 2, 0), (10, 6, 2), (100, 24, 1)])
async def test_sequential_keys_reach_most_partitions(server: RedisServer, keys: int, partitions: int, most: int) -> None:
    """`most`: partitions without an entry, where chance gives 0.002, 1.0 and 0.3 on average."""
    queue = await make_queue(server.url, partitions)
    queue.producer.send_many((f"customer-{number}", "v") for number in range(keys))
    waiting = (await queue.operator.check()).lag
    await queue.close()
    assert sum(waiting.values()) == keys
    assert list(waiting.values()).count(0) <= most


async def test_a_repeated_call_with_the_same_sequences_adds_nothing(queue: Queue, raw: redis.Redis) -> None:
    """A retry after a lost reply."""
    slot = slot_of(queue.key(0))
    request = ["producer", *(field for n in (1, 2) for field in (slot, n, queue.key(0), f"v{n}", ""))]
    first = scripts.ADD.run(raw, partition_keys(queue.name, 0), request)
    assert raw.xinfo_stream(partition_keys(queue.name, 0).stream)["last-generated-id"] == b"%d-0" % (first + 1)
    assert scripts.ADD.run(raw, partition_keys(queue.name, 0), request) == [b"dd", b""]
    assert await values(queue) == [b"v1", b"v2"]


async def test_a_foreign_slot_is_refused_unless_its_sequence_is_known(queue: Queue, raw: Any) -> None:
    """The sequence is checked first, so a retry adds no duplicate after its slot moved."""
    slot, other = slot_of(queue.key(0)), slot_of(queue.key(1))
    keys = partition_keys(queue.name, 0)
    request = ["p", other, 1, "k", "v", "", slot, 1, "k", "w", "", other, 2, "k", "x", ""]
    codes, number = scripts.ADD.run(raw, keys, request)
    assert codes == b"mam"
    assert raw.xrange(keys.stream)[0][0] == number + b"-0"
    raw.hdel(keys.slots, str(slot))
    assert scripts.ADD.run(raw, keys, ["p", slot, 1, "k", "w", "", slot, 2, "k", "y", ""]) == [b"dm", b""]
    assert await values(queue) == [b"w"]


async def test_entries_of_a_moving_slot_are_held_and_sent_in_order(queue: Queue, raw: redis.Redis) -> None:
    slot = slot_of(queue.key(0))
    keys = partition_keys(queue.name, 0)
    raw.hdel(keys.slots, str(slot))
    sending = threading.Thread(target=queue.send, args=[str(number) for number in range(500)])
    sending.start()
    with RedisProducer(queue.url, queue.name) as other:
        other.send(queue.key(1), "elsewhere")
    assert sending.is_alive(), "it waits for its slot; others do not"
    raw.hset(keys.slots, str(slot), "2")
    sending.join(PATIENCE)
    assert await values(queue) == [b"%d" % number for number in range(500)]


async def test_an_unreachable_server_is_logged_once_per_outage(caplog: pytest.LogCaptureFixture) -> None:
    async with own_queue(fsync="always") as (server, queue):
        queue.producer.send(queue.key(0), "1")
        for value in ("2", "3"):
            server.kill()
            caplog.clear()
            waiting = queue.producer.produce(queue.key(0), value)
            until(lambda: bool(caplog.messages), "the producer says that it waits")
            server.start()
            waiting.result(PATIENCE)
            (told,) = (one for one in caplog.messages if one.startswith("Entries to"))
            assert told.startswith(f"Entries to {queue.name} wait. Redis at ") and "does not answer" in told


async def test_sending_to_an_absent_queue_is_logged_and_raised(
    server: RedisServer, new_name: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    name = new_name()
    with (
        RedisProducer(server.url, name, patience=0.1) as producer,
        pytest.raises(QueueUnreachable, match=r"database 0, has no queue shop/.*spec.source.redis.*correct the URL here"),
    ):
        producer.send("k", "v")
    (told,) = caplog.messages
    assert told.startswith(f"Entries to {name} wait. ") and "has no queue" in told


async def test_entries_of_a_copied_producer_are_reported_as_not_sent(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a machine whose snapshot is restored twice: such an entry passed for a duplicate, and was nowhere."""
    monkeypatch.setattr(sending, "token_hex", lambda _: "the same")
    with RedisProducer(queue.url, queue.name) as one, RedisProducer(queue.url, queue.name) as copy:
        for number in range(2):
            one.send(queue.key(0), f"one {number}")
        for number in range(2):
            with pytest.raises(QueueUnreachable, match="a copy of this process sends there too"):
                copy.send(queue.key(0), f"copy {number}")
        copy.send(queue.key(0), "copy 2")
    assert await values(queue) == [b"one 0", b"one 1", b"copy 2"]


async def test_long_silent_producers_are_forgotten(queue: Queue, raw: redis.Redis) -> None:
    keys = partition_keys(queue.name, 0)
    slot = slot_of(queue.key(0))
    for begin in range(0, 1023, 100):
        raw.hset(keys.sequences, mapping={f"{slot}:gone-{n}": "7 1000" for n in range(begin, min(begin + 100, 1023))})
    new = [f"{slot}:new-{n}".encode() for n in range(400)]
    for n in range(400):
        before = raw.hlen(keys.sequences)
        scripts.ADD.run(raw, keys, [f"new-{n}", slot, 1, "k", "v", ""])
        assert raw.hlen(keys.sequences) > before - 100, "a few at a time"
    assert raw.hlen(keys.sequences) < 1024
    assert set(raw.hkeys(keys.sequences)) >= set(new)


@pytest.mark.parametrize("bad", [("k", None), (7, "v"), ("k", {"a": 1}), ("k", 1.5), ("k", ["v"]), ("k", "v", {"a": 1})])
async def test_nothing_is_sent_if_one_entry_is_neither_bytes_nor_str(queue: Queue, bad: Any) -> None:
    with pytest.raises(TypeError, match=r"a (key|value|header's value) is bytes or str, not (NoneType|int|dict|float|list)"):
        queue.producer.send_many([(queue.key(0), "good"), bad])
    queue.send("1")
    assert await values(queue) == [b"1"]


async def test_each_of_many_threads_keeps_to_its_patience(server: RedisServer, new_name: Callable[[], str]) -> None:
    """Threads do not wait for each other's patience, which would exceed this test's."""
    threads, patience = 300, 0.5
    assert threads * patience > PATIENCE
    with RedisProducer(server.url, new_name(), patience=patience) as producer:

        def send() -> None:
            with pytest.raises(QueueUnreachable):
                producer.send("k", "v")

        sending = [threading.Thread(target=send, daemon=True) for _ in range(threads)]
        for thread in sending:
            thread.start()
        until(lambda: not any(thread.is_alive() for thread in sending), "all have given up")


async def test_nothing_is_written_to_another_database(queue: Queue) -> None:
    elsewhere = queue.url.removesuffix("/0") + "/7"
    await queue.granted("a", ONE)
    with RedisProducer(elsewhere, queue.name, patience=0.1) as producer, RedisReader(elsewhere, queue.name, "a") as reader:
        for ask in (
            lambda: producer.send("k", "v"),
            lambda: reader.read(0, ONE),
            lambda: reader.ack(0, ONE, ["1-0"]),
            lambda: reader.verify(0, ONE),
        ):
            with pytest.raises(QueueUnreachable, match=r"database 7, has no .*correct the URL here"):
                ask()
    with redis.Redis.from_url(elsewhere) as raw:
        assert raw.dbsize() == 0


ALL_BYTES = bytes(range(256))


async def test_headers_travel_with_their_entry(queue: Queue) -> None:
    key = queue.key(0)
    queue.producer.send(key, "a", headers={"traceparent": "00-4bf9-00", "Grüße": ALL_BYTES})
    queue.producer.send_many([(key, "b"), (key, "c", {"n": b"1"}), (key, "d", None)])
    owner = await queue.granted("a", ONE)
    found = owner.read(0, ONE)
    assert [entry.value for entry in found] == [b"a", b"b", b"c", b"d"]
    assert [entry.headers for entry in found] == [{"traceparent": b"00-4bf9-00", "Grüße": ALL_BYTES}, {}, {"n": b"1"}, {}]


async def test_the_handler_runs_in_the_producers_trace(queue: Queue, operator: Operator) -> None:
    provider, seen = TracerProvider(), []

    def handle(entry: Entry) -> None:
        seen.append((entry.value, get_current_span().get_span_context().trace_id))

    with provider.get_tracer("shop").start_as_current_span("order") as span:
        queue.producer.send(queue.key(0), "a", headers=context_headers())
    await operator.owner(0, handler=traced(handle, provider))
    until(lambda: len(seen) == 1)
    assert seen == [(b"a", span.get_span_context().trace_id)]
    provider.shutdown()


@pytest.mark.parametrize("nth", [1, 2], ids=["in the task that sends", "in a call"])
@pytest.mark.parametrize("raised", [SystemExit, ZeroDivisionError])
async def test_an_interrupted_async_producer_settles_every_entry(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException], nth: int
) -> None:
    """SystemExit ends the event loop; another exception ends a task. Both used to leave an entry without an outcome."""
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
