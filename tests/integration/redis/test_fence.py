"""Only the owner may do anything to a partition, at the epoch of its grant; the newer of two processes with its UID wins."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.redis import RedisReader
from baton.queues.redis.scripts import Script
from tests.forked import in_a_fork
from tests.integration.redis.conftest import Queue

pytestmark = pytest.mark.promise

ONE, OLD, NEW = Epoch(1), Epoch(3), Epoch(4)

ACTIONS: dict[str, Callable[[RedisReader], object]] = {
    "read": lambda reader: reader.read(0, OLD),
    "ack": lambda reader: reader.ack(0, OLD, ["1-0"]),
    "verify": lambda reader: reader.verify(0, OLD),
}


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_former_owner_is_refused_and_told_who_owns_the_partition(queue: Queue, action: str) -> None:
    queue.send("a")
    former = await queue.granted("former", OLD)
    await queue.granted("owner", NEW)
    with pytest.raises(StaleOwner) as refusal:
        ACTIONS[action](former)
    assert refusal.value.record == ("owner", NEW, False)
    assert str(refusal.value) == "partition 0 belongs to owner at epoch 4; former at epoch 3 is refused"
    assert (await queue.stale_refused())[0] == 1


@pytest.mark.parametrize("action", ACTIONS)
async def test_the_owner_is_refused_under_an_earlier_epoch(queue: Queue, action: str) -> None:
    """A -> B -> A: what A read the first time is not acknowledged by A the second time."""
    queue.send("a")
    owner = await queue.granted("a", OLD)
    await queue.granted("a", NEW)
    with pytest.raises(StaleOwner):
        ACTIONS[action](owner)


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_partition_without_an_owner_refuses_every_pod(queue: Queue, action: str) -> None:
    for granted in (False, True):
        if granted:
            await queue.operator.grant(0, None, OLD)
        for uid in ("somebody", ""):
            with pytest.raises(StaleOwner) as refusal:
                ACTIONS[action](queue.reader(uid))
            assert refusal.value.record.uid is None


async def test_a_grant_needs_an_epoch_above_the_recorded_one(queue: Queue) -> None:
    await queue.granted("a", 5)
    assert await queue.operator.grant(0, Uid("b"), Epoch(4)) == ("a", 5, False)
    assert await queue.operator.grant(0, Uid("b"), Epoch(5)) == ("a", 5, False)
    assert await queue.operator.grant(0, None, Epoch(5)) == ("a", 5, False)
    assert await queue.operator.grant(0, Uid("b"), Epoch(7)) == ("b", 7, False)


async def test_a_repeated_grant_gives_the_same_answer_and_changes_nothing(queue: Queue) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", 5)
    owner.read(0, Epoch(5), 1)
    assert await queue.operator.grant(0, Uid("a"), Epoch(5)) == ("a", 5, False)
    assert await queue.operator.outstanding(0) == 1
    assert [entry.redelivered for entry in owner.read(0, Epoch(5))] == [False]


async def test_nothing_unpauses_at_the_same_epoch(queue: Queue) -> None:
    await queue.granted("a", 5)
    await queue.operator.pause(0, Epoch(5))
    assert await queue.operator.grant(0, Uid("a"), Epoch(5)) == ("a", 5, True)
    assert await queue.operator.grant(0, Uid("a"), Epoch(6)) == ("a", 6, False)


async def test_a_check_returns_the_owner_records(queue: Queue) -> None:
    assert (await queue.operator.check()).owners == {}
    await queue.granted("a", 5, partition=1)
    assert (await queue.operator.check()).owners == {1: ("a", 5, False)}
    await queue.operator.grant(1, None, Epoch(6))
    assert (await queue.operator.check()).owners == {1: (None, 6, False)}


async def test_ownership_is_sure_from_the_time_of_the_request(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.send("a")
    reader = await queue.granted("owner", NEW)
    answered: list[float] = []
    run = Script.run

    def stopped(*asked: Any) -> Any:
        answer = run(*asked)
        answered.append(time.monotonic())
        return answer

    monkeypatch.setattr(Script, "run", stopped)
    for action in (lambda: reader.read(0, NEW), lambda: reader.verify(0, NEW), lambda: reader.ack(0, NEW, ["1-0"])):
        before = time.monotonic()
        action()
        assert before <= reader.sure_at(0) < answered[-1]


async def test_the_newer_of_two_processes_with_one_uid_fences_the_older_one(queue: Queue) -> None:
    queue.send(*map(str, range(4)))
    older = await queue.granted("a", 1)
    first = older.read(0, ONE, 2)
    newer = queue.reader("a")
    assert [entry.value for entry in newer.read(0, ONE)] == [b"0", b"1", b"2", b"3"], "with what the older had in hand"
    offsets = [entry.offset for entry in first]
    for refused in (
        lambda: older.read(0, ONE),
        lambda: older.ack(0, ONE, offsets),
        lambda: older.retry(0, ONE, offsets[0], "failed"),
        lambda: older.verify(0, ONE),
    ):
        with pytest.raises(StaleOwner, match="newer process with the same POD_UID"):
            refused()
    newer.verify(0, ONE)
    newer.ack(0, ONE, offsets)
    assert await queue.operator.outstanding(0) == 2


async def test_a_forked_process_counts_as_another_reader(queue: Queue) -> None:
    queue.send(*map(str, range(4)))
    reader = await queue.granted("a", 1)
    first = reader.read(0, ONE, 2)

    def there() -> list[object]:
        try:
            return [entry.value for entry in reader.read(0, ONE)]
        except StaleOwner as refusal:
            return [str(refusal)]

    (refusal,) = in_a_fork(there)
    assert "process with the same POD_UID" in str(refusal)
    reader.ack(0, ONE, [entry.offset for entry in first])
    assert [(entry.value, entry.redelivered) for entry in reader.read(0, ONE)] == [(b"2", False), (b"3", False)]


async def test_after_a_new_grant_either_process_may_read(queue: Queue) -> None:
    queue.send("x")
    older = await queue.granted("a", 1)
    older.read(0, ONE)
    queue.reader("a").read(0, ONE)
    await queue.granted("a", 2)
    assert [entry.value for entry in older.read(0, Epoch(2))] == [b"x"]
