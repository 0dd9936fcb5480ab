"""Two processes that believe to be the same pod: the newer has the partition, and the older is told why it is refused."""

import pytest

from baton.model.ids import Epoch
from baton.queues.fence import StaleOwner
from tests.forked import in_a_fork
from tests.integration.redis.conftest import Queue

ONE = Epoch(1)


async def test_the_newer_of_two_processes_with_one_uid_fences_the_older(queue: Queue) -> None:
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


async def test_nothing_is_handed_out_twice_by_turns(queue: Queue) -> None:
    """An older process that goes on asking does not get the partition back."""
    queue.send(*map(str, range(100)))
    older = await queue.granted("a", 1)
    older.read(0, ONE, 1)
    newer = queue.reader("a")
    newer.read(0, ONE, 1)
    for _ in range(3):
        with pytest.raises(StaleOwner):
            older.read(0, ONE, 1)
        assert len(newer.read(0, ONE, 1)) == 1


async def test_a_process_that_is_forked_from_the_reader_s_is_another(queue: Queue) -> None:
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


async def test_a_new_grant_begins_with_whoever_reads_then(queue: Queue) -> None:
    queue.send("x")
    older = await queue.granted("a", 1)
    older.read(0, ONE)
    queue.reader("a").read(0, ONE)
    await queue.granted("a", 2)
    assert [entry.value for entry in older.read(0, Epoch(2))] == [b"x"]
