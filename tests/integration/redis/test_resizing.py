"""Changes of the partition count, as seen by entries, readers and producers."""

import itertools
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.protocol import Claimant, QueueConflict, Resizing
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader, resizer, scripts
from baton.queues.redis.keys import partition_keys, queue_key
from baton.queues.redis.routing import RoutingTable, slot_of
from tests.integration.redis.conftest import GROUP, Queue, own_queue
from tests.redis_command import history_of, table_of
from tests.waiting import PATIENCE, until

ONE = Epoch(1)


def key(source: int, target: int, before: int = 2, after: int = 3) -> bytes:
    """Return a key that moves from one partition to another, or stays."""
    table = RoutingTable.even(1, before)
    keys = (b"key-%d" % number for number in itertools.count())
    return next(one for one in keys if (table.partition_of(one), table.resized(after).partition_of(one)) == (source, target))


def finish(reader: RedisReader, partition: int, epoch: Epoch = ONE) -> list[bytes]:
    """Read and acknowledge all entries."""
    found: list[bytes] = []
    while entries := reader.read(partition, epoch):
        reader.ack(partition, epoch, [entry.offset for entry in entries])
        found += [entry.value for entry in entries]
    return found


async def test_entries_of_a_moving_key_wait_for_earlier_ones_only(queue: Queue) -> None:
    readers = [await queue.granted(f"pod-{partition}", 1, partition) for partition in range(2)]
    queue.producer.send_many([(key(0, 2), "1"), (key(0, 0), "1")])
    held = readers[0].read(0, ONE)
    assert await queue.operator.ensure(3) == Resizing(2, 3, (0,))
    assert (await queue.operator.check()).partitions == 3
    new = await queue.granted("pod-2", 1, 2)
    queue.producer.send_many([(key(0, 2), "2", {"trace": "7"}), (key(0, 0), "2"), (key(1, 2), "1")])
    assert [entry.value for entry in readers[0].read(0, ONE)] == [b"2"]
    assert await queue.operator.ensure(3) == Resizing(2, 3, (0,))
    assert finish(new, 2) == [b"1"], "partition 1 was empty"
    assert (await queue.operator.check()).lag == {0: 3, 1: 0, 2: 1}
    readers[0].ack(0, ONE, [entry.offset for entry in held])
    assert await queue.operator.ensure(3) is None
    assert [(entry.value, entry.headers) for entry in new.read(2, ONE)] == [(b"2", {"trace": b"7"})]


async def test_a_waiting_reader_is_woken_by_moved_entries(queue: Queue) -> None:
    old, new = await queue.granted("old", 1, 0), await queue.granted("new", 1, 2)
    queue.send("before")
    await queue.operator.ensure(3)
    queue.producer.send(key(0, 2), "after")
    new.read(2, ONE)
    woken: list[set[int]] = []
    waiting = threading.Thread(target=lambda: woken.append(new.wait([2], PATIENCE)))
    waiting.start()
    finish(old, 0)
    assert await queue.operator.ensure(3) is None
    waiting.join(PATIENCE)
    assert woken == [{2}]
    assert finish(new, 2) == [b"after"]


async def test_many_moved_entries_follow_in_portions_and_in_order(queue: Queue, raw: redis.Redis) -> None:
    owner = await queue.granted("pod", 1)
    queue.send("before")
    await queue.operator.ensure(3)
    moves, new = key(0, 2), partition_keys(queue.name, 2)
    queue.producer.send_many((moves, str(number)) for number in range(1200))
    finish(owner, 0)
    history = history_of(raw)
    assert scripts.DRAINED.run(raw, partition_keys(queue.name, 0), [history, 2]) == 1
    slots = [slot for slot, (a, b) in enumerate(ways()) if (a, b) == (0, 2)]
    answers = [scripts.UNBLOCK.run(raw, new, [history, 2, 0, *slots])]
    queue.producer.send(moves, "1200")
    answers += [scripts.UNBLOCK.run(raw, new, [history, 2, 0, *slots]) for _ in range(2)]
    assert answers == [0, 0, 1]
    queue.producer.send(moves, "1201")
    assert await queue.operator.ensure(3) is None
    assert finish(await queue.granted("new", 1, 2), 2) == [b"%d" % number for number in range(1202)]


def ways() -> list[tuple[int, int]]:
    table = RoutingTable.even(1, 2)
    return list(zip(table.partitions, table.resized(3).partitions, strict=True))


async def test_a_removed_partition_is_read_until_empty_and_may_come_back(queue: Queue) -> None:
    kept, going = await queue.granted("kept", 1, 0), await queue.granted("going", 1, 1)
    queue.send("1", "2", partition=1)
    assert await queue.operator.ensure(1) == Resizing(2, 1, (1,))
    assert (await queue.operator.check()).partitions == 2
    queue.send("3", partition=1)
    assert finish(kept, 0) == []
    assert finish(going, 1) == [b"1", b"2"]
    assert await queue.operator.ensure(1) is None
    assert (await queue.operator.check()).partitions == 1
    assert finish(kept, 0) == [b"3"]
    assert await queue.operator.grant(1, None, Epoch(2)) == (None, 2, False)
    assert (await queue.operator.check()).owners[1] == (None, 2, False), "its tombstone stays"
    assert await queue.operator.ensure(2) is None
    assert await queue.operator.grant(1, None, ONE) == (None, 2, False)
    queue.send("4", partition=1)
    assert finish(await queue.granted("again", 3, 1), 1, Epoch(3)) == [b"4"]


async def test_a_retry_across_a_move_adds_no_duplicate(queue: Queue, raw: redis.Redis) -> None:
    moves = key(0, 2)
    slot = slot_of(moves)
    request = ["producer", slot, 1, moves, "v1", ""]
    scripts.ADD.run(raw, partition_keys(queue.name, 0), request)
    finish(await queue.granted("pod", 1), 0)
    assert await queue.operator.ensure(3) is None
    again = scripts.ADD.run(raw, partition_keys(queue.name, 2), [*request, slot, 2, moves, "v2", ""])
    assert again[0] == b"da"
    assert finish(await queue.granted("new", 1, 2), 2) == [b"v2"]


async def test_known_sequences_move_along_and_higher_ones_stay(queue: Queue, raw: Any) -> None:
    moves, stays = slot_of(key(0, 2)), slot_of(key(0, 0))
    old, new = partition_keys(queue.name, 0).sequences, partition_keys(queue.name, 2).sequences
    raw.hset(old, mapping={f"{slot}:producer-{n}": f"{n} 1000" for slot in (moves, stays) for n in range(2000)})
    raw.hset(old, f"{moves}:{'a name that is none of ours ' * 20}", "1 1000")
    raw.hset(new, mapping={f"{moves}:producer-7": "9 1000"})
    await queue.operator.ensure(3)
    known = {field.decode(): value.decode() for field, value in raw.hgetall(new).items()}
    assert known == {f"{moves}:producer-{n}": f"{9 if n == 7 else n} 1000" for n in range(2000)}


async def test_an_operator_without_a_count_begins_no_change(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    other = RedisQueue(queue.url, queue.name, GROUP)
    count = other._count

    async def overtaken() -> int | None:
        """Let another operator's change begin and end right after the answer."""
        answer = await count()
        while await queue.operator.ensure(3) is not None:
            pass
        return answer

    monkeypatch.setattr(other, "_count", overtaken)
    assert await other.ensure(None) is None
    assert (await other.check()).partitions == 3
    await other.close()


async def test_a_change_begins_after_the_previous_one_has_ended(queue: Queue) -> None:
    owner = await queue.granted("pod", 1)
    queue.send("1")
    assert await queue.operator.ensure(3) == Resizing(2, 3, (0,))
    assert await queue.operator.ensure(5) == Resizing(2, 3, (0,))
    finish(owner, 0)
    assert await queue.operator.ensure(5) is None
    assert (await queue.operator.check()).partitions == 3
    assert await queue.operator.ensure(5) is None
    assert (await queue.operator.check()).partitions == 5


async def test_only_a_group_that_takes_over_continues_the_change(queue: Queue) -> None:
    owner = await queue.granted("pod", 1)
    queue.send("1")
    await queue.operator.ensure(3)
    other = RedisQueue(queue.url, queue.name, Claimant("shop/other", "another uid"))
    with pytest.raises(QueueConflict):
        await other.ensure(3)
    heir = RedisQueue(queue.url, queue.name, Claimant("shop/heir", "its uid", frozenset({GROUP.uid})))
    assert await heir.ensure(2) == Resizing(2, 3, (0,))
    finish(owner, 0)
    assert await heir.ensure(2) is None
    assert (await heir.check()).partitions == 3
    for adapter in (other, heir):
        await adapter.close()


async def test_resizing_works_on_a_full_server(new_name: Callable[[], str]) -> None:
    async with own_queue(2, new_name(), maxmemory="6mb") as (server, queue):
        owner, new = await queue.granted("pod", 1), await queue.granted("new", 1, 2)
        queue.send("before")
        with queue.raw() as raw:
            number = fill(raw)
            assert await queue.operator.ensure(3) == Resizing(2, 3, (0,))
            raw.delete("junk-0", "junk-1")
            with RedisProducer(server.url, queue.name) as producer:
                producer.send(key(0, 2), "after")
            fill(raw, number)
            assert finish(owner, 0) == [b"before"]
            assert await queue.operator.ensure(3) is None
            assert finish(new, 2) == [b"after"]
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                raw.set("more", b"x" * 100_000)


def fill(raw: redis.Redis, first: int = 0) -> int:
    """Fill the server."""
    for size in (100_000, 1000, 10):
        try:
            for number in itertools.count(first):
                raw.set(f"junk-{number}", b"x" * size)
        except redis.exceptions.OutOfMemoryError:
            first = number
    return first


def accepted_once(raw: redis.Redis, name: str, partitions: int) -> None:
    """Check that exactly the table's partition accepts each slot."""
    table = table_of(raw, name)
    for partition in range(partitions):
        slots = cast("dict[bytes, bytes]", raw.hgetall(partition_keys(name, partition).slots))
        accepted = {int(slot) for slot, value in slots.items() if not value.endswith(b"moved")}
        assert accepted == {slot for slot, home in enumerate(table.partitions) if home == partition}


async def test_a_change_of_many_sequences_is_resumed(queue: Queue, monkeypatch: pytest.MonkeyPatch, raw: Any) -> None:
    monkeypatch.setattr(resizer, "_FOR", 0.0)
    moves = slot_of(key(0, 2))
    old, new = (partition_keys(queue.name, partition).sequences for partition in (0, 2))
    every = {f"{moves}:producer-{n}": f"{n} 1000" for n in range(30_000)}
    raw.hset(old, mapping=every)
    taken = [0]
    while await queue.operator.ensure(3) is not None:
        taken.append(raw.hlen(new))
        assert taken[-1] > taken[-2], "each question goes on"
    assert len(taken) > 5
    assert {field.decode(): value.decode() for field, value in raw.hgetall(new).items()} == every
    accepted_once(raw, queue.name, 3)


async def test_a_moving_slot_holds_up_only_threads_that_send_to_it(queue: Queue, raw: Any) -> None:
    moves, stays = key(0, 2), key(0, 0)
    queue.send("warm")
    history = history_of(raw)
    assert scripts.SEAL.run(raw, partition_keys(queue.name, 0), [history, 2, slot_of(moves)]) == 1
    first, second = (threading.Thread(target=queue.producer.send, args=(moves, value)) for value in ("1", "2"))
    first.start()
    until(lambda: queue.producer._outbox.stale, "it was refused")
    second.start()
    other = threading.Thread(target=queue.producer.send, args=(stays, "stays"))
    other.start()
    other.join(PATIENCE / 4)
    assert not other.is_alive()
    assert first.is_alive() and second.is_alive()
    scripts.OPEN.run(raw, partition_keys(queue.name, 1), [history, 2, 0, slot_of(moves)])
    raw.hset(queue_key(queue.name), mapping={"version": 2, "table": RoutingTable(2, (1,) * 1024).to_text()})
    first.join(PATIENCE)
    second.join(PATIENCE)
    staged = raw.xrange(f"pq:{{{queue.name}}}:1:stage:2.0")
    assert [entry[b"v"] for _, entry in staged] == [b"1", b"2"]


async def test_a_stage_empties_while_entries_keep_coming(queue: Queue, raw: redis.Redis) -> None:
    owner, new = await queue.granted("pod", 1), await queue.granted("new", 1, 2)
    queue.send("before")
    await queue.operator.ensure(3)
    moves = key(0, 2)
    queue.producer.send_many((moves, str(number)) for number in range(2000))
    finish(owner, 0)
    arguments = unblocking(raw, queue)
    assert scripts.UNBLOCK.run(raw, partition_keys(queue.name, 2), arguments) == 0
    sent = 2000
    while raw.xlen(stage := f"pq:{{{queue.name}}}:2:stage:2.0"):
        before = raw.xlen(stage)
        queue.producer.send_many((moves, str(sent + number)) for number in range(150))
        sent += 150
        assert raw.xlen(stage) == max(0, before - 150)
    assert (await queue.operator.check()).lag == {0: 0, 1: 0, 2: sent}
    assert scripts.UNBLOCK.run(raw, partition_keys(queue.name, 2), arguments) == 1
    assert finish(new, 2) == [b"%d" % number for number in range(sent)]


def unblocking(raw: redis.Redis, queue: Queue) -> list[str | int]:
    """Return the arguments for the slots that moved from 0 to 2."""
    history = history_of(raw)
    assert scripts.DRAINED.run(raw, partition_keys(queue.name, 0), [history, 2]) == 1
    return [history, 2, 0, *(slot for slot, way in enumerate(ways()) if way == (0, 2))]


async def test_large_moved_entries_follow_a_few_at_a_time(queue: Queue, raw: redis.Redis) -> None:
    owner = await queue.granted("pod", 1)
    queue.send("before")
    await queue.operator.ensure(3)
    finish(owner, 0)
    moves, new = key(0, 2), partition_keys(queue.name, 2)
    queue.producer.send_many((moves, b"x" * 600_000) for _ in range(7))
    arguments = unblocking(raw, queue)
    left = [7]
    while not scripts.UNBLOCK.run(raw, new, arguments):
        left.append(raw.xlen(f"pq:{{{queue.name}}}:2:stage:2.0"))
    assert left == [7, 5, 3, 1]
