"""Pauses, outstanding entries, and what a new owner gets first."""

from typing import Any

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.fence import PartitionPaused, StaleOwner
from tests.integration.redis.conftest import Queue, told
from tests.waiting import PATIENCE

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)


def following(offset: str) -> str:
    """Return the offset of the next entry."""
    return f"{int(offset.partition('-')[0]) + 1}-0"


async def test_a_paused_partition_takes_acks_but_hands_out_nothing_new(queue: Queue) -> None:
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    entries = owner.read(0, ONE, 2)
    assert await queue.operator.pause(0, ONE) == 2
    with pytest.raises(PartitionPaused):
        owner.read(0, ONE)
    owner.ack(0, ONE, [entries[0].offset])
    assert await queue.operator.outstanding(0) == 1
    owner.ack(0, ONE, [entries[1].offset])
    assert await queue.operator.outstanding(0) == 0


async def test_a_pause_under_another_epoch_does_nothing(queue: Queue) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", TWO)
    owner.read(0, TWO, 1)
    assert await queue.operator.pause(0, ONE) == 0
    assert await queue.operator.pause(0, THREE) == 0
    assert told(owner.read(0, TWO)) == [(b"b", False)]


async def test_leftovers_come_first_in_order_and_marked(queue: Queue) -> None:
    queue.send("a", "b", "c", "d", "e")
    former = await queue.granted("a", ONE)
    entries = former.read(0, ONE, 3)
    former.ack(0, ONE, [entries[1].offset])
    owner = await queue.granted("b", TWO)
    assert told(owner.read(0, TWO, 3)) == [(b"a", True), (b"c", True), (b"d", False)]
    assert told(owner.read(0, TWO)) == [(b"e", False)]
    assert owner.read(0, TWO) == []


async def test_an_entry_is_not_handed_out_twice_to_the_same_reader(queue: Queue) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    assert told(owner.read(0, ONE)) == [(b"a", False), (b"b", False)]
    assert owner.read(0, ONE) == []


async def test_a_restarted_owner_finishes_its_outstanding_entries_while_paused(queue: Queue) -> None:
    queue.send("a", "b")
    (await queue.granted("a", ONE)).read(0, ONE, 1)
    assert await queue.operator.pause(0, ONE) == 1
    restarted = queue.reader("a")
    (again,) = restarted.read(0, ONE)
    assert told([again]) == [(b"a", True)]
    restarted.ack(0, ONE, [again.offset])
    with pytest.raises(PartitionPaused):
        restarted.read(0, ONE)
    assert await queue.operator.outstanding(0) == 0


async def test_reading_old_entries_only_takes_no_new_ones(queue: Queue) -> None:
    queue.send("a", "b")
    (await queue.granted("a", ONE)).read(0, ONE, 1)
    restarted = queue.reader("a")
    assert told(restarted.read(0, ONE, new=False)) == [(b"a", True)]
    assert restarted.read(0, ONE, new=False) == []
    assert told(restarted.read(0, ONE)) == [(b"b", False)]


async def test_leftovers_are_outstanding_only_once_handed_out(queue: Queue) -> None:
    """Otherwise a hand-off right after another could not end before its deadline."""
    queue.send("a", "b", "c", "d")
    (await queue.granted("a", ONE)).read(0, ONE, 3)
    second = await queue.granted("b", TWO)
    assert await queue.operator.outstanding(0) == 0
    (first,) = second.read(0, TWO, 1)
    assert await queue.operator.pause(0, TWO) == 1
    with pytest.raises(PartitionPaused):
        second.read(0, TWO)
    second.ack(0, TWO, [first.offset])
    assert await queue.operator.outstanding(0) == 0
    third = await queue.granted("c", THREE)
    assert told(third.read(0, THREE)) == [(b"b", True), (b"c", True), (b"d", False)]


async def test_leftovers_that_were_all_handed_out_are_all_outstanding(queue: Queue) -> None:
    queue.send("a", "b", "c")
    (await queue.granted("a", ONE)).read(0, ONE, 2)
    second = await queue.granted("b", TWO)
    assert len(second.read(0, TWO, 3)) == 3
    assert await queue.operator.pause(0, TWO) == 3


async def test_repeated_or_unknown_acks_change_nothing(queue: Queue) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    (entry,) = owner.read(0, ONE, 1)
    owner.ack(0, ONE, [entry.offset, entry.offset, following(entry.offset), "77-0"])
    owner.ack(0, ONE, [entry.offset])
    assert (await queue.operator.check()).lag == {0: 1, 1: 0}
    assert told(owner.read(0, ONE)) == [(b"b", False)]


async def test_thousands_of_entries_are_acknowledged_at_once(queue: Queue) -> None:
    queue.send(*(str(number) for number in range(9000)))
    owner = await queue.granted("a", ONE)
    entries = owner.read(0, ONE, 9000)
    assert [entry.value for entry in entries] == [b"%d" % number for number in range(9000)]
    owner.ack(0, ONE, [entry.offset for entry in entries])
    assert (await queue.operator.check()).lag[0] == 0


async def test_an_ack_of_an_earlier_epoch_does_not_reset_the_reader(queue: Queue) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    (entry,) = owner.read(0, ONE, 1)
    await queue.operator.grant(0, Uid("a"), TWO)
    assert told(owner.read(0, TWO)) == [(b"a", True), (b"b", False)]
    with pytest.raises(StaleOwner):
        owner.ack(0, ONE, [entry.offset])
    assert owner.read(0, TWO) == []


async def test_an_entry_deleted_by_hand_holds_up_no_other(queue: Queue, raw: redis.Redis) -> None:
    queue.send("a", "b")
    (entry,) = (await queue.granted("a", ONE)).read(0, ONE, 1)
    raw.xdel(f"pq:{{{queue.name}}}:0:stream:0", entry.offset)
    owner = await queue.granted("b", TWO)
    assert told(owner.read(0, TWO)) == [(b"b", False)]
    assert await queue.operator.outstanding(0) == 1


async def test_entries_have_their_time_partition_and_offset(queue: Queue, raw: Any) -> None:
    queue.send("a", partition=1)
    owner = await queue.granted("a", ONE, partition=1)
    (entry,) = owner.read(1, ONE)
    ((offset, _),) = raw.xrange(f"pq:{{{queue.name}}}:1:stream:0")
    seconds, _ = raw.time()
    assert entry.queue == queue.name.partition("/")[2]
    assert (entry.partition, entry.offset, entry.key, entry.epoch) == (1, offset.decode(), queue.key(1), ONE)
    assert abs(entry.timestamp / 1000 - seconds) < PATIENCE
