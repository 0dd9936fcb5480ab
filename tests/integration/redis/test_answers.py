"""How much a reader gets in one answer, and how acknowledged entries are removed."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.entry import Entry
from baton.queues.redis import RedisReader
from baton.queues.redis.keys import partition_keys
from tests.integration.redis.conftest import Queue, make_queue
from tests.waiting import PATIENCE

ONE, TWO = Epoch(1), Epoch(2)
LARGE = ("a" * 400, "b" * 500, "c" * 400, "d" * 5000, "e", "f")


@pytest.fixture(params=["server", "valkey"])
async def queue(request: pytest.FixtureRequest) -> AsyncIterator[Queue]:
    made = await make_queue(request.getfixturevalue(request.param).url)
    yield made
    await made.close()


def values(entries: Sequence[Entry]) -> list[str]:
    return [entry.value.decode() for entry in entries]


def _scripts(raw: redis.Redis) -> int:
    """Return how many scripts have run."""
    commands: Any = raw.info("commandstats")
    return sum(int(of["calls"]) for command, of in commands.items() if command in ("cmdstat_eval", "cmdstat_evalsha"))


def all_answers(owner: RedisReader, epoch: Epoch, most_bytes: int) -> list[Sequence[Entry]]:
    answers = []
    while owner.ready(0, epoch):
        answers.append(owner.read(0, epoch, most_bytes=most_bytes))
    return [answer for answer in answers if answer]


async def test_an_answer_exceeds_the_byte_limit_only_for_a_single_large_entry(queue: Queue) -> None:
    queue.send(*LARGE)
    owner = await queue.granted("a", ONE)
    first = owner.read(0, ONE, most_bytes=1000)
    assert values(first) == list(LARGE[:2])
    assert await queue.operator.outstanding(0) == 2, "the others are not handed out"
    answers = [first, *all_answers(owner, ONE, 1000)]
    assert [values(answer) for answer in answers] == [list(LARGE[:2]), [LARGE[2]], [LARGE[3]], list(LARGE[4:])]
    assert not any(entry.redelivered for answer in answers for entry in answer)
    for answer in answers:
        owner.ack(0, ONE, [entry.offset for entry in answer])
    assert (await queue.operator.check()).lag == {0: 0, 1: 0} and await queue.operator.outstanding(0) == 0


@pytest.mark.parametrize("redeliveries", [0, 3])
async def test_entries_left_by_a_former_owner_obey_the_byte_limit(queue: Queue, redeliveries: int) -> None:
    await queue.limited(redeliveries=redeliveries)
    queue.send(*LARGE)
    former = await queue.granted("a", ONE)
    assert values(former.read(0, ONE, 5)) == list(LARGE[:5])
    owner = await queue.granted("b", TWO)
    answers = all_answers(owner, TWO, 1000)
    assert all(len(answer) == 1 or sum(map(len, values(answer))) <= 1000 for answer in answers)
    found = [entry for answer in answers for entry in answer]
    assert values(found) == list(LARGE)
    assert [entry.redelivered for entry in found] == [True] * 5 + [False]
    owner.ack(0, TWO, [entry.offset for entry in found])
    assert (await queue.operator.check()).lag == {0: 0, 1: 0} and await queue.operator.outstanding(0) == 0


async def test_entries_of_a_lost_reply_come_again_within_the_byte_limit(queue: Queue) -> None:
    queue.send(*LARGE[:3])
    owner = await queue.granted("a", ONE)
    owner.read(0, ONE, 1)
    again = queue.reader("a")
    assert [(entry.value.decode(), entry.redelivered) for entry in again.read(0, ONE, most_bytes=500)] == [(LARGE[0], True)]
    assert await queue.operator.outstanding(0) == 1
    assert [(entry.value.decode(), entry.redelivered) for entry in again.read(0, ONE)] == [(LARGE[1], False), (LARGE[2], False)]


async def test_the_byte_limit_counts_keys_and_headers(queue: Queue) -> None:
    queue.producer.send(queue.key(0), "x" * 10, headers={"trace": "y" * 400})
    queue.producer.send(queue.key(0), "x" * 10, headers={"trace": "z" * 400})
    owner = await queue.granted("a", ONE)
    assert len(owner.read(0, ONE, most_bytes=500)) == 1
    (second,) = owner.read(0, ONE, most_bytes=500)
    assert second.headers == {"trace": b"z" * 400} and second.key == queue.key(0) and second.value == b"x" * 10


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (1, 3, 0, 4, 2)])
@pytest.mark.parametrize("portion", [1, 2, 5])
async def test_exactly_the_acknowledged_entries_are_removed(queue: Queue, order: tuple[int, ...], portion: int, raw: Any) -> None:
    queue.send("0", "1", "2", "3", "4", "5")
    owner = await queue.granted("a", ONE)
    entries = owner.read(0, ONE, 5)
    left = set("012345")
    for begin in range(0, 5, portion):
        owner.ack(0, ONE, [entries[place].offset for place in order[begin : begin + portion]])
        left -= {str(place) for place in order[begin : begin + portion]}
        stands = {fields[b"v"].decode() for _, fields in raw.xrange(partition_keys(queue.name, 0).stream)}
        assert stands == left
        assert (await queue.operator.check()).lag == {0: len(left), 1: 0}
        assert await queue.operator.outstanding(0) == len(left) - 1
    assert values(owner.read(0, ONE)) == ["5"]


async def test_entries_may_be_empty_or_have_any_bytes(queue: Queue) -> None:
    texts = [b"", b" ", b"1 2 3", bytes(range(256)), "é".encode()]
    queue.producer.send_many((queue.key(0), text) for text in texts)
    owner = await queue.granted("a", ONE)
    assert [(entry.key, entry.value, entry.headers) for entry in owner.read(0, ONE)] == [
        (queue.key(0), text, {}) for text in texts
    ]


async def test_sending_and_waking_work_after_the_wake_stream_was_emptied(queue: Queue, raw: Any) -> None:
    """Without the owner record, which is deleted too, the next wake-up could get a lower ID than the last one."""
    owner = await queue.granted("a", TWO)
    assert owner.read(0, TWO) == []
    keys = partition_keys(queue.name, 0)
    raw.xdel(keys.wake, *(offset for offset, _ in raw.xrange(keys.wake)))
    raw.delete(keys.owner)
    queue.send("1")
    assert (await queue.operator.grant(0, Uid("a"), Epoch(3))).uid == "a"
    assert owner.wait([0], PATIENCE) == {0}
    assert values(owner.read(0, Epoch(3))) == ["1"]
