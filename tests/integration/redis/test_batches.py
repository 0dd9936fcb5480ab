"""Batches for a program's own loop, acknowledged in any order, against a real Redis."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from baton.consumer import Batch, Consumer
from baton.consumer.callbacks import Callbacks
from baton.model.ids import Epoch, Partition
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import SHORT, Operator, acknowledged, lag
from tests.waiting import PATIENCE, until


def collecting(batches: list[Batch], ack: bool = False, **size: float) -> Callable[[Consumer], None]:
    """Return a program that collects batches, and acknowledges them if `ack`."""

    def program(consumer: Consumer) -> None:
        with consumer:
            for batch in consumer.batches(**size):  # type: ignore[arg-type]
                batches.append(batch)
                if ack:
                    batch.ack()

    return program


def values(batches: Sequence[Batch], partition: int | None = None) -> list[bytes]:
    return [entry.value for batch in batches for entry in batch if partition in (None, entry.partition)]


async def test_batches_have_all_entries_in_order(operator: Operator, queue: Queue) -> None:
    batches: list[Batch] = []
    for partition in (0, 1):
        queue.send(*map(str, range(250)), partition=partition)
    pod = await operator.owner(0, 1, grace=SHORT, program=collecting(batches, ack=True, max_entries=100))
    until(lambda: len(values(batches)) == 500)
    for partition in (0, 1):
        assert values(batches, partition) == [b"%d" % number for number in range(250)]
    assert max(len(batch) for batch in batches) == 100
    pod.stop()
    until(pod.gone)
    assert await lag(queue) == 0


async def test_a_batch_waits_for_more_entries_up_to_max_wait(operator: Operator, queue: Queue) -> None:
    batches: list[Batch] = []
    await operator.owner(0, 1, program=collecting(batches, max_entries=3, max_wait=0.1))
    queue.send("a")
    until(lambda: len(batches) == 1)
    queue.send("b", "c", "d", "e")
    until(lambda: len(values(batches)) == 5)
    assert [len(batch) for batch in batches] == [1, 3, 1]


async def test_a_batch_keeps_within_max_bytes(operator: Operator, queue: Queue) -> None:
    batches: list[Batch] = []
    queue.send(*("x" * size for size in (400, 400, 400, 5000, 10, 10)))
    await operator.owner(0, program=collecting(batches, max_entries=100, max_bytes=1000, max_wait=0.01))
    until(lambda: len(values(batches)) == 6)
    sizes = [[len(entry.value) for entry in batch] for batch in batches]
    assert [size for batch in sizes for size in batch] == [400, 400, 400, 5000, 10, 10]
    assert all(sum(entry.size for entry in batch) <= 1000 or len(batch) == 1 for batch in batches)
    assert len(sizes) < 6, "and not all alone"


async def test_large_entries_behind_small_ones_are_not_read_ahead_of_their_batch(operator: Operator, queue: Queue) -> None:
    """The size of earlier entries does not decide alone how much is read."""
    batches: list[Batch] = []
    taken, go_on = threading.Event(), threading.Event()

    def program(consumer: Consumer) -> None:
        with consumer:
            for batch in consumer.batches(max_entries=100, max_bytes=1000, max_wait=0.01):
                batches.append(batch)
                taken.set()
                go_on.wait(PATIENCE)
                batch.ack()

    queue.send(*["s" * 10] * 5, *["l" * 600] * 20)
    pod = await operator.owner(0, program=program)
    assert taken.wait(PATIENCE)
    assert await queue.operator.outstanding(0) <= 7
    go_on.set()
    until(lambda: len(values(batches)) == 25)
    pod.stop()
    pod.ledger({})
    until(pod.gone)


async def test_batches_are_acknowledged_in_any_order(operator: Operator, queue: Queue) -> None:
    batches: list[Batch] = []
    queue.send("a", "b", "c", "d")
    await operator.owner(0, program=collecting(batches, max_entries=2))
    until(lambda: len(batches) == 2)
    assert batches[1].ack().wait(PATIENCE)
    assert await queue.operator.outstanding(0) == 2
    assert batches[0][1].ack().wait(PATIENCE)
    assert await queue.operator.outstanding(0) == 1
    assert batches[0].ack().wait(PATIENCE)
    assert await queue.operator.outstanding(0) == 0


async def test_batches_work_with_async_for_and_await(operator: Operator, queue: Queue) -> None:
    seen: list[tuple[bytes, bool]] = []

    async def main(consumer: Consumer) -> None:
        async with consumer:
            async for batch in consumer.batches(max_entries=2):
                taken = await batch.ack()
                seen.extend((entry.value, taken) for entry in batch)

    queue.send("a", "b", "c")
    pod = await operator.owner(0, program=lambda consumer: asyncio.run(main(consumer)))
    until(lambda: len(seen) == 3)
    assert seen == [(b"a", True), (b"b", True), (b"c", True)]
    assert await lag(queue) == 0
    pod.stop()
    pod.ledger({})
    until(pod.gone)


async def test_acknowledging_a_batch_of_a_lost_partition_returns_false(operator: Operator, queue: Queue) -> None:
    batches: list[Batch] = []
    queue.send("a")
    pod, other = operator.pod("a", program=collecting(batches)), operator.pod("b")
    await operator.grant(pod, (0, 1))
    until(lambda: batches)
    await operator.grant(other, (0, 2))
    until(lambda: other.log == [(0, b"a", True)])
    assert not batches[0].ack().wait(PATIENCE)
    assert not batches[0][0].still_mine()
    await acknowledged(queue)


async def test_nacked_entries_come_again_in_order_before_later_ones(operator: Operator, queue: Queue) -> None:
    seen: list[tuple[bytes, bool]] = []

    def program(consumer: Consumer) -> None:
        with consumer:
            for batch in consumer.batches(max_entries=2, max_wait=0.01):
                for entry in batch:
                    seen.append((entry.value, entry.redelivered))
                    if entry.redelivered or entry.value not in b"ab":
                        entry.ack()
                    else:
                        entry.nack(delay=0.05)

    queue.send("a", "b", "c", "d")
    await operator.owner(0, program=program)
    until(lambda: len(seen) >= 6)
    assert [value for value, again in seen if again] == [b"a", b"b"]
    assert [value for value, again in seen if not again] == [b"a", b"b", b"c", b"d"]
    assert seen.index((b"c", False)) > seen.index((b"b", True))


async def test_an_unacknowledged_batch_delays_the_release_but_not_on_revoked(operator: Operator, queue: Queue) -> None:
    batches: list[Batch] = []
    revoked = threading.Event()

    def tell(partitions: Sequence[Partition], time_left: float | None) -> None:
        revoked.set()

    queue.send("a")
    pod = await operator.owner(0, program=collecting(batches), callbacks=Callbacks(on_revoked=tell))
    until(lambda: batches)
    pod.ledger({}, revoking={0: 1})
    assert await queue.operator.pause(0, Epoch(1)) == 1
    assert revoked.wait(PATIENCE)
    assert pod.released() == set()
    batches[0].ack()
    until(lambda: pod.released() == {(0, 1)})
    assert await queue.operator.outstanding(0) == 0


async def test_leaving_the_loop_releases_everything_at_once(operator: Operator, queue: Queue) -> None:
    words: list[str] = []

    def program(consumer: Consumer) -> None:
        with consumer:
            for batch in consumer.batches(max_entries=1):
                batch.ack()
                break

    callbacks = Callbacks(on_revoked=lambda partitions, time_left: words.append("revoked"))
    queue.send("a", "b")
    pod = await operator.owner(0, program=program, callbacks=callbacks)
    until(pod.gone)
    assert (words, pod.released()) == (["revoked"], {(0, 1)})
    assert await lag(queue) == 1


async def test_an_exception_in_the_loop_releases_nothing_and_calls_no_callback(operator: Operator, queue: Queue) -> None:
    words: list[str] = []

    def program(consumer: Consumer) -> None:
        with pytest.raises(RuntimeError, match="no"), consumer:  # noqa: PT012 - a loop is what it is about
            for batch in consumer.batches(max_entries=1):
                batch.ack()
                raise RuntimeError("no")

    callbacks = Callbacks(on_revoked=lambda partitions, time_left: words.append("revoked"))
    queue.send("a", "b")
    pod = await operator.owner(0, program=program, callbacks=callbacks)
    until(pod.gone)
    assert (words, pod.released()) == ([], set())
    assert await lag(queue) == 1


async def test_a_cancelled_wait_for_a_batch_loses_nothing(operator: Operator, queue: Queue) -> None:
    seen: list[bytes] = []

    async def main(consumer: Consumer) -> None:
        async with consumer:
            batches = consumer.batches(max_wait=0.01)
            for _ in range(20):
                try:
                    async with asyncio.timeout(0.02):
                        batch = await anext(batches)
                except TimeoutError:
                    continue
                seen.extend(entry.value for entry in batch)
                batch.ack()
            async for batch in batches:
                seen.extend(entry.value for entry in batch)
                batch.ack()

    pod = await operator.owner(0, program=lambda consumer: asyncio.run(main(consumer)))
    for number in range(50):
        queue.send(str(number))
        await asyncio.sleep(0.01)
    until(lambda: len(seen) >= 50)
    assert seen == [b"%d" % number for number in range(50)]
    pod.stop()
    pod.ledger({})
    until(pod.gone)
