"""Entries added to a queue's stream by hand (XADD) do no harm, and become dead letters.

Since Redis 7.2, as with Valkey, a stream's last id does not fall below one that was deleted.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from baton.model.ids import Epoch
from baton.queues.entry import Entry
from baton.queues.logged_ranges import RangeToFinish
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer, outbox
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.logged import Task, ahead, logged, ranges_of
from tests.redis_server import RedisServer
from tests.waiting import HOUR, PATIENCE, until

ONE = Epoch(1)


@pytest.fixture(params=["server", "valkey"])
async def queue(request: pytest.FixtureRequest) -> AsyncIterator[Queue]:
    made = await make_queue(request.getfixturevalue(request.param).url)
    yield made
    await made.close()


def add(queue: Queue, *entries: tuple[str, dict[str, str]], partition: int = 0) -> None:
    with queue.raw() as raw:
        for offset, fields in entries:
            raw.xadd(stream(queue, partition), fields, id=offset)


def stream(queue: Queue, partition: int = 0) -> str:
    return f"pq:{{{queue.name}}}:{partition}:stream:0"


def number_of(entry: Entry) -> int:
    return int(entry.offset.partition("-")[0])


FAR = "9000000000000000-*"
"""An id above those of future entries (unlike `*`)."""
FOREIGN = ("*", {"k": "key", "v": "value", "t": "0"}), ("*", {"something": "else"}), (FAR, {"a": "\x00\xff", "b": ""})


async def test_a_producer_continues_behind_foreign_entries_in_its_own_numbers(queue: Queue) -> None:
    queue.send("1", "2")
    add(queue, *FOREIGN)
    queue.send("3", "4")
    owner = await queue.granted("a", ONE)
    entries = owner.read(0, ONE)
    assert [entry.value for entry in entries] == [b"1", b"2", b"3", b"4"]
    numbers = [number_of(entry) for entry in entries]
    assert numbers == sorted(set(numbers))
    assert numbers[3] == numbers[2] + 1, "without gaps from then on"
    owner.ack(0, ONE, [entry.offset for entry in entries])
    assert (await queue.operator.check()).lag == {0: 0, 1: 0}
    letters = queue.letters()
    assert len(letters) == len(FOREIGN) and all(b"no producer" in letter[b"why"] for letter in letters)
    assert json.loads(letters[1][b"value"]) == ["something", "else"]


async def test_readers_never_see_foreign_entries_and_lose_no_later_ones(queue: Queue) -> None:
    queue.send("1")
    add(queue, *FOREIGN)
    owner = await queue.granted("a", ONE)
    assert [entry.value for entry in owner.read(0, ONE)] == [b"1"]
    assert owner.read(0, ONE) == []
    assert await queue.operator.outstanding(0) == 1
    queue.send("2")
    assert [entry.value for entry in owner.read(0, ONE)] == [b"2"]
    assert len(queue.letters()) == len(FOREIGN)
    assert (await queue.operator.check()).dead_letters == {0: len(FOREIGN), 1: 0}


@pytest.mark.parametrize("where", ["*", FAR])
async def test_many_foreign_entries_are_set_aside_in_portions(queue: Queue, where: str) -> None:
    queue.send("1")
    with queue.raw() as raw, raw.pipeline(transaction=False) as pipe:
        for number in range(2500):
            pipe.xadd(stream(queue), {"n": number}, id=where)
        pipe.execute()
    queue.send("2", "3")
    owner = await queue.granted("a", ONE)
    found: list[bytes] = []
    while owner.ready(0, ONE):
        found += [entry.value for entry in owner.read(0, ONE)]
    assert found == [b"1", b"2", b"3"]
    assert len(queue.letters()) == 2500


async def test_reading_continues_behind_a_foreign_entry_with_a_far_id(queue: Queue) -> None:
    """Entries before and after it are counted and delivered once, by both ways of reading."""
    queue.send("1", "2", "3")
    add(queue, (FAR, {"a": "b"}))
    queue.send("4", "5")
    owner = await queue.granted("a", ONE)
    assert (await queue.operator.check()).lag == {0: 5, 1: 0}
    (first,) = owner.read(0, ONE, 1)
    owner.ack(0, ONE, [first.offset])
    found: list[bytes] = []
    with queue.raw() as raw, closing(ranges_of(queue)) as ranges:
        query, start = ranges.begin(), ranges.positions()[0].before_first
        while (end := ahead(ranges, query, ("a", ONE), start, most=2).end) > start:
            logged(ranges, query, start, end)
            found += Task(query, start, end).rows(raw, queue.name)
            ranges.finish(query, [RangeToFinish(0, end)])
            start = end
    assert found == [b"2", b"3", b"4", b"5"]
    assert (await queue.operator.check()).lag == {0: 0, 1: 0}
    queue.send("6", "7")
    entries = owner.read(0, ONE)
    assert [entry.value for entry in entries] == [b"6", b"7"]
    owner.ack(0, ONE, [entry.offset for entry in entries])
    assert (await queue.operator.check()).lag == {0: 0, 1: 0} and await queue.operator.outstanding(0) == 0
    assert len(queue.letters()) == 1


@pytest.mark.parametrize("beyond", ["9200000000000000-*", "18446744073709551615-18446744073709551615"])
async def test_a_foreign_entry_beyond_all_numbers_delays_only_new_entries(queue: Queue, beyond: str) -> None:
    """Not even these, if the server accepts lower ids again."""
    queue.send("1", "2")
    add(queue, (beyond, {"a": "b"}))
    sending = threading.Thread(target=queue.send, args=("3", "4"))
    sending.start()
    owner = await queue.granted("a", ONE)
    found: list[bytes] = []

    def four() -> bool:
        entries = owner.read(0, ONE)
        owner.ack(0, ONE, [entry.offset for entry in entries])
        found.extend(entry.value for entry in entries)
        return len(found) == 4

    until(four)
    sending.join(PATIENCE)
    assert found == [b"1", b"2", b"3", b"4"]
    assert (await queue.operator.check()).lag == {0: 0, 1: 0} and await queue.operator.outstanding(0) == 0
    assert len(queue.letters()) == 1


async def test_a_producer_blocked_by_a_foreign_entry_says_so(valkey: RedisServer) -> None:
    queue = await make_queue(valkey.url)
    queue.send("1")
    add(queue, ("18446744073709551615-18446744073709551615", {"a": "b"}))
    with RedisProducer(queue.url, queue.name, patience=0.1) as producer:
        said = "Entries were added to partition 0 of .* by hand .*1 entry may not have been sent"
        with pytest.raises(QueueUnreachable, match=said):
            producer.send_many([(queue.key(0), "2")])
        producer.send(queue.key(1), "elsewhere")
    await queue.close()


async def test_a_blocked_partition_does_not_delay_lingering_others(valkey: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt for partition 0 would be in an hour."""
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", HOUR)
    queue = await make_queue(valkey.url)
    queue.send("1")
    add(queue, ("18446744073709551615-18446744073709551615", {"a": "b"}))
    held, other = (queue.key(0), "2"), (queue.key(1), "3")
    of_tasks = AsyncRedisProducer(queue.url, queue.name, patience=2 * HOUR)
    of_threads = RedisProducer(queue.url, queue.name, patience=2 * HOUR)
    awaited, pending = await of_tasks.produce(*held), of_threads.produce(*held)
    await asyncio.to_thread(until, lambda: of_tasks._outbox._resting and of_threads._outbox._resting)
    await asyncio.wait_for(await of_tasks.produce(*other), PATIENCE)
    told = threading.Event()
    of_threads.produce(*other, on_delivery=lambda _: told.set())
    assert await asyncio.to_thread(told.wait, PATIENCE)
    assert not awaited.done() and not pending.done()
    with pytest.raises(QueueUnreachable):
        await of_tasks.close(0)
    with pytest.raises(QueueUnreachable):
        of_threads.close(0)
    await queue.close()


async def test_a_foreign_entry_right_behind_an_acknowledged_one_becomes_a_dead_letter(queue: Queue) -> None:
    queue.send("a")
    owner = await queue.granted("a", ONE)
    (first,) = owner.read(0, ONE)
    add(queue, (first.offset.replace("-0", "-5"), {"somebody": "else's"}))
    owner.ack(0, ONE, [first.offset])
    queue.send("b")
    assert [entry.value for entry in owner.read(0, ONE)] == [b"b"]
    (letter,) = queue.letters()
    assert json.loads(letter[b"value"]) == ["somebody", "else's"]
