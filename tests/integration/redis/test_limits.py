"""maxDeliveredUnacked and maxRedeliveries: written by the operator, enforced by the queue for every reader."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from redis.exceptions import ConnectionError  # noqa: A004 - the library's name

from baton.model.ids import Epoch, Uid
from baton.queues.entry import Entries, Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisReader
from tests.integration.redis.conftest import Queue, make_queue, own_queue, told
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

ONE, TWO, THREE, FOUR = Epoch(1), Epoch(2), Epoch(3), Epoch(4)


def begun(reader: RedisReader, epoch: Epoch) -> Iterator[Entry]:
    """Yield the entries that a consumer begins. Before it begins an entry that was handed out before, the queue counts that."""
    read = Entries.of(reader.read(0, epoch))
    for entry in read:
        if entry.offset not in read.times or reader.begin_again(0, epoch, entry.offset, read.times[entry.offset]):
            yield entry


async def test_the_unacked_limit_applies_across_a_members_partitions(queue: Queue) -> None:
    await queue.limited(most=3)
    for partition in (0, 1):
        queue.send("a", "b", "c", partition=partition)
        owner = await queue.granted("a", ONE, partition)
    first = owner.read(0, ONE, 2)
    second = owner.read(1, ONE, 2)
    assert (len(first), len(second)) == (2, 1)
    assert owner.read(0, ONE) == []
    assert owner.wait([0, 1], 0.05) == set()
    owner.ack(1, ONE, [second[0].offset])
    assert owner.wait([0, 1], PATIENCE) == {0, 1}
    assert told(owner.read(0, ONE)) == [(b"c", False)]
    assert await queue.operator.outstanding(0) + await queue.operator.outstanding(1) == 3


async def test_a_limit_below_the_partition_count_still_empties_all_partitions(server: RedisServer) -> None:
    queue = await make_queue(server.url, partitions=5)
    await queue.limited(most=2)
    for partition in range(5):
        queue.send(*(str(number) for number in range(6)), partition=partition)
        owner = await queue.granted("a", ONE, partition)
    rounds = 0
    emptied: dict[int, int] = {}
    while sum((await queue.operator.check()).lag.values()):
        rounds += 1
        assert rounds < 100
        held: list[tuple[int, list[str]]] = []
        for partition in range(5):  # always in this order, without favoring a partition
            held.append((partition, [entry.offset for entry in owner.read(partition, ONE)]))
        assert sum([await queue.operator.outstanding(partition) for partition in range(5)]) <= 2
        for partition, offsets in held:
            if offsets:
                owner.ack(partition, ONE, offsets)
                emptied.setdefault(partition, rounds)
    assert max(emptied.values()) <= 10, "no partition waits until others are empty"
    await queue.close()


async def test_an_unread_partition_reserves_no_room(queue: Queue) -> None:
    await queue.limited(most=1)
    for partition in (0, 1):
        queue.send("a", "b", "c", partition=partition)
        owner = await queue.granted("a", ONE, partition)
    (entry,) = owner.read(0, ONE)
    assert owner.read(1, ONE) == []
    for value in (b"b", b"c"):
        owner.ack(0, ONE, [entry.offset])
        found = owner.read(0, ONE) or owner.read(0, ONE)
        assert [one.value for one in found] == [value]
        entry = found[0]


async def test_released_or_lost_entries_do_not_count_towards_the_limit(queue: Queue) -> None:
    await queue.limited(most=1)
    for partition in (0, 1):
        queue.send("a", "b", partition=partition)
        owner = await queue.granted("a", ONE, partition)
    assert len(owner.read(0, ONE)) == 1
    assert owner.read(1, ONE) == []
    owner.release({0: ONE}, 0)
    assert len(owner.read(1, ONE)) == 1
    await queue.operator.grant(1, Uid("b"), TWO)
    with pytest.raises(StaleOwner):
        owner.read(1, ONE)
    await queue.operator.grant(0, Uid("a"), TWO)
    assert len(owner.read(0, TWO)) == 1


@pytest.mark.parametrize("noticed", ["ack", "verify", "grant"])
async def test_a_partition_that_is_fenced_off_leaves_its_room_to_those_in_line(queue: Queue, noticed: str) -> None:
    await queue.limited(most=1)
    for partition in (0, 1):
        queue.send("a", partition=partition)
        owner = await queue.granted("a", ONE, partition)
    (entry,) = owner.read(0, ONE)
    assert owner.read(1, ONE) == [] and not owner.ready(1, ONE)
    await queue.operator.grant(0, Uid("b"), TWO)
    if noticed == "grant":
        await queue.operator.grant(0, Uid("a"), THREE)
        assert owner.read(0, THREE) == []
    else:
        with pytest.raises(StaleOwner):
            owner.ack(0, ONE, [entry.offset]) if noticed == "ack" else owner.verify(0, ONE)
        owner.release({0: ONE}, 0, give_up=True)
    assert owner.ready(1, ONE)
    assert len(owner.read(1, ONE)) == 1


@pytest.mark.parametrize("paused", [False, True])
async def test_a_partition_that_leaves_the_line_tells_the_next(paused: bool) -> None:
    """After a failover an empty partition stands in line, too: the last entry in its records may not be in its stream."""
    async with own_queue(append_only=False, debug=True) as (server, queue):
        await queue.limited(most=1)
        for partition in (0, 1):
            queue.send("a", partition=partition)
            owner = await queue.granted("a", ONE, partition)
        with server.client() as raw:
            raw.execute_command("DEBUG", "CHANGE-REPL-ID")
        (entry,) = owner.read(0, ONE)
        owner.ack(0, ONE, [entry.offset])
        assert owner.read(1, ONE) == [] and not owner.ready(1, ONE), "0 is ahead"
        if paused:
            await queue.operator.pause(0, ONE)
            with pytest.raises(PartitionPaused):
                owner.read(0, ONE)
        else:
            assert owner.read(0, ONE) == []
        assert owner.ready(1, ONE)
        assert len(owner.read(1, ONE)) == 1


async def test_a_former_owners_entries_count_once_handed_out(queue: Queue) -> None:
    queue.send("a", "b", "c", "d")
    (await queue.granted("a", ONE)).read(0, ONE, 3)
    await queue.limited(most=2)
    owner = await queue.granted("b", TWO)
    first, second = owner.read(0, TWO)
    assert owner.read(0, TWO) == []
    assert await queue.operator.outstanding(0) == 2
    owner.ack(0, TWO, [first.offset, second.offset])
    assert told(owner.read(0, TWO)) == [(b"c", True), (b"d", False)]


async def test_a_restarted_owner_gets_all_that_it_held_before(queue: Queue) -> None:
    await queue.limited(most=2)
    queue.send("a", "b", "c")
    (await queue.granted("a", ONE)).read(0, ONE)
    again = queue.reader("a")
    assert told([*again.read(0, ONE, 1), *again.read(0, ONE, 5)]) == [(b"a", True), (b"b", True)]
    assert again.read(0, ONE) == []


async def test_new_limits_apply_to_running_readers_at_once(queue: Queue) -> None:
    await queue.limited(most=1)
    queue.send("a", "b", "c")
    owner = await queue.granted("a", ONE)
    assert len(owner.read(0, ONE)) == 1
    assert owner.read(0, ONE) == []
    await queue.limited(most=3)
    assert len(owner.read(0, ONE)) == 2
    assert (await queue.operator.check()).owners[0] == ("a", ONE, False)


async def test_an_entry_redelivered_too_often_becomes_a_dead_letter(queue: Queue) -> None:
    await queue.limited(redeliveries=2)
    queue.send("bad", "b", "c")
    for epoch, uid in ((ONE, "a"), (TWO, "b"), (THREE, "c")):
        bad = next(begun(await queue.granted(uid, epoch), epoch))
        assert bad.value == b"bad"
    owner = await queue.granted("d", FOUR)
    others = list(begun(owner, FOUR))
    assert told(others) == [(b"b", True), (b"c", True)], "they were only begun by the last"
    (letter,) = queue.letters()
    assert {key: letter[key] for key in (b"offset", b"key", b"value", b"deliveries", b"why")} == {
        b"offset": bad.offset.encode(),
        b"key": queue.key(0),
        b"value": b"bad",
        b"deliveries": b"3",
        b"why": b"handed out 3 times and never acknowledged",
    }
    assert letter[b"timestamp"].isdigit()
    assert (await queue.operator.check()).dead_letters == {0: 1, 1: 0}
    assert (await queue.operator.check()).lag[0] == 2
    assert await queue.operator.outstanding(0) == 2
    owner.ack(0, FOUR, [bad.offset, *(entry.offset for entry in others)])
    assert (await queue.operator.check()).lag[0] == 0


async def test_entries_behind_a_fatal_one_are_not_counted(queue: Queue) -> None:
    await queue.limited(redeliveries=1)
    queue.send("bad", *(str(number) for number in range(50)))
    (await queue.granted("a", ONE)).read(0, ONE)
    assert next(begun(queue.reader("a"), ONE)).value == b"bad"
    assert [entry.value for entry in begun(queue.reader("a"), ONE)] == [b"%d" % number for number in range(50)]
    assert [letter[b"value"] for letter in queue.letters()] == [b"bad"]


async def test_an_entry_that_was_read_but_not_begun_had_no_attempt(queue: Queue) -> None:
    await queue.limited(redeliveries=1)
    queue.send("a", "b")
    (await queue.granted("a", ONE)).read(0, ONE)
    for _ in range(3):  # like a container that crashes repeatedly at an entry of another partition
        assert len(queue.reader("a").read(0, ONE)) == 2
    for epoch in (TWO, THREE):
        assert len((await queue.granted("b", epoch)).read(0, epoch)) == 2
    assert told(begun(await queue.granted("c", FOUR), FOUR)) == [(b"a", True), (b"b", True)]
    assert queue.letters() == []


async def test_each_failed_attempt_is_counted(queue: Queue) -> None:
    await queue.limited(redeliveries=2)
    queue.send("bad", "b")
    owner = await queue.granted("a", ONE)
    entry, _ = owner.read(0, ONE)
    assert [owner.retry(0, ONE, entry.offset, "ValueError: no") for _ in range(3)] == [True, True, False]
    (letter,) = queue.letters()
    assert (letter[b"value"], letter[b"deliveries"], letter[b"why"]) == (b"bad", b"3", b"ValueError: no")
    assert await queue.operator.pause(0, ONE) == 1
    assert not owner.retry(0, ONE, entry.offset, "again"), "a repeated request makes no second letter"
    assert len(queue.letters()) == 1


@contextmanager
def answers_lost(reader: RedisReader, nth: int = 1) -> Iterator[None]:
    """From the nth request on, including retries, the server runs requests and their answers are lost."""
    client = reader._client
    ask, asked_before = client.evalsha, count(1)

    def lossy(*asked: Any) -> object:
        answer = ask(*asked)
        if next(asked_before) >= nth:
            raise ConnectionError("the answer is lost")
        return answer

    with pytest.MonkeyPatch.context() as lost:
        lost.setattr(client, "evalsha", lossy)
        with pytest.raises(QueueUnreachable, match="the answer is lost"):
            yield


async def test_a_failure_whose_answer_was_lost_is_counted_once(queue: Queue) -> None:
    await queue.limited(redeliveries=1)
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    first, second = owner.read(0, ONE)
    for nth in (1, 2):  # the first request whose answer is lost
        for entry in (first, second):
            with answers_lost(owner, nth):
                owner.retry(0, ONE, entry.offset, "no")
    assert owner.retry(0, ONE, first.offset, "no")
    assert owner.retry(0, ONE, second.offset, "no")
    with answers_lost(owner, 2):
        owner.retry(0, ONE, first.offset, "it failed twice")
    assert not owner.retry(0, ONE, first.offset, "it failed twice")
    assert [letter[b"why"] for letter in queue.letters()] == [b"it failed twice"]


async def test_entries_reread_after_lost_answers_become_no_dead_letters(queue: Queue) -> None:
    await queue.limited(redeliveries=1)
    queue.send("a", "b", "c", "d")
    owner = await queue.granted("a", ONE)
    for _ in range(2):
        with answers_lost(owner):
            owner.read(0, ONE, 2)
    assert [entry.value for entry in owner.read(0, ONE, 2)] == [b"a"]
    with answers_lost(owner):
        owner.read(0, ONE, 2)
    assert [entry.value for _ in range(2) for entry in begun(owner, ONE)] == [b"b", b"c", b"d"]
    assert queue.letters() == []


async def test_beginning_an_entry_again_counts_as_an_attempt(queue: Queue) -> None:
    await queue.limited(redeliveries=2)
    queue.send("bad", "b")
    reader = await queue.granted("a", ONE)
    reader.read(0, ONE)
    reader.release({0: ONE}, 0)
    assert next(begun(reader, ONE)).value == b"bad"
    third = queue.reader("a")
    with answers_lost(third):
        third.read(0, ONE)
    assert next(begun(third, ONE)).value == b"bad"
    assert [entry.value for entry in begun(queue.reader("a"), ONE)] == [b"b"]
    assert [letter[b"deliveries"] for letter in queue.letters()] == [b"3"]


async def test_a_former_owner_sets_nothing_aside(queue: Queue) -> None:
    await queue.limited(redeliveries=1)
    queue.send("a")
    late = await queue.granted("a", ONE)
    (entry,) = late.read(0, ONE)
    assert late.retry(0, ONE, entry.offset, "no")
    owner = await queue.granted("b", TWO)
    with pytest.raises(StaleOwner):
        late.retry(0, ONE, entry.offset, "no")
    assert queue.letters() == []
    await queue.operator.pause(0, TWO)
    with pytest.raises(PartitionPaused):
        owner.read(0, TWO)
    assert queue.letters() == [], "what a paused owner never had is the next one's"


async def test_without_a_limit_nothing_is_ever_set_aside(queue: Queue) -> None:
    queue.send("a")
    for epoch in range(1, 30):
        assert len((await queue.granted("a", epoch)).read(0, Epoch(epoch))) == 1
    owner = await queue.granted("a", 30)
    (entry,) = owner.read(0, Epoch(30))
    assert all(owner.retry(0, Epoch(30), entry.offset, "no") for _ in range(5))
    assert queue.letters() == []
