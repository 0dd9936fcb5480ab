"""Callbacks tell a program which partitions it got, has to release, or has lost."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from baton.consumer import Entry
from baton.consumer.callbacks import Callbacks
from baton.model.ids import Epoch, Partition
from baton.queues.protocol import IN_USE
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import Gate, Operator, Pod, acknowledged, lag
from tests.waiting import PATIENCE, eventually, until


class Told:
    """Everything that a program was told, in order."""

    def __init__(self) -> None:
        self.words: list[tuple[str, object]] = []
        self.callbacks = Callbacks(self.assigned, self.revoked, self.lost)

    def tell(self, word: str, partitions: Sequence[Partition]) -> None:
        self.words.append((word, [partition.number for partition in partitions]))

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self.tell("assigned", partitions)

    def revoked(self, partitions: Sequence[Partition], time_left: float | None) -> None:
        self.tell("revoked", partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self.tell("lost", partitions)

    def handle(self, entry: Entry) -> None:
        self.words.append(("entry", entry.value.decode()))


async def test_partitions_assigned_or_revoked_together_are_reported_together(operator: Operator, queue: Queue) -> None:
    told = Told()
    pod = await operator.owner(0, 1, handler=told.handle, callbacks=told.callbacks)
    until(lambda: told.words == [("assigned", [0, 1])])
    queue.send("x", partition=1)
    until(lambda: ("entry", "x") in told.words)
    pod.gives_back((0, 1), (1, 1))
    assert told.words == [("assigned", [0, 1]), ("entry", "x"), ("revoked", [0, 1])]


async def test_a_partition_taken_by_another_pod_is_reported_lost(operator: Operator, queue: Queue) -> None:
    told = Told()
    pod, other = operator.pod("a", handler=told.handle, callbacks=told.callbacks), operator.pod("b")
    await operator.grant(pod, (0, 1))
    queue.send("a")
    until(lambda: ("entry", "a") in told.words)
    await acknowledged(queue)
    await operator.grant(other, (0, 2))
    until(lambda: told.words[-1] == ("lost", [0]))
    pod.ledger({})
    queue.send("b")
    until(lambda: other.values() == [b"b"])
    assert told.words == [("assigned", [0]), ("entry", "a"), ("lost", [0])]


async def test_async_callbacks_run_in_the_handlers_event_loop(operator: Operator, queue: Queue) -> None:
    loops: list[tuple[str, object]] = []

    async def assigned(partitions: Sequence[Partition]) -> None:
        await asyncio.sleep(0)
        loops.append(("assigned", asyncio.get_running_loop()))

    async def revoked(partitions: Sequence[Partition], time_left: float | None) -> None:
        await asyncio.sleep(0)
        loops.append(("revoked", asyncio.get_running_loop()))

    async def handle(entry: Entry) -> None:
        loops.append(("entry", asyncio.get_running_loop()))

    queue.send("a")
    pod = await operator.owner(0, handler=handle, callbacks=Callbacks(assigned, revoked))
    until(lambda: len(loops) == 2)
    pod.gives_back((0, 1))
    assert [name for name, _ in loops] == ["assigned", "entry", "revoked"]
    assert len({id(loop) for _, loop in loops}) == 1


async def test_a_failing_callback_does_not_stop_the_consumer(operator: Operator, queue: Queue) -> None:
    def fail(partitions: Sequence[Partition], time_left: float | None = None) -> None:
        raise RuntimeError("no")

    told = Told()
    queue.send("a")
    pod = await operator.owner(0, handler=told.handle, callbacks=Callbacks(fail, fail))
    until(lambda: told.words == [("entry", "a")])
    pod.gives_back((0, 1))


async def test_on_revoked_can_still_acknowledge_when_the_grace_period_ends(operator: Operator, queue: Queue) -> None:
    left: list[float | None] = []
    kept: list[Entry] = []

    def flush(partitions: Sequence[Partition], time_left: float | None) -> None:
        left.append(time_left)
        kept[0].ack()

    queue.send("a")
    pod = await operator.owner(0, grace=5.2, handler=kept.append, callbacks=Callbacks(on_revoked=flush), manual_ack=True)
    until(lambda: kept)
    pod.stop()
    until(pod.gone)
    assert left[0] is not None and 0 < left[0] <= 5.2
    assert pod.released() == {(0, 1)}
    assert await lag(queue) == 0


async def test_entries_acknowledged_in_on_revoked_are_not_redelivered(operator: Operator, queue: Queue) -> None:
    kept: list[Entry] = []

    def flush(partitions: Sequence[Partition], time_left: float | None) -> None:
        for entry in kept:
            entry.ack()

    queue.send("a", "b", "c")
    pod = await operator.owner(0, handler=kept.append, callbacks=Callbacks(on_revoked=flush), manual_ack=True)
    until(lambda: len(kept) == 3)
    assert await queue.operator.outstanding(0) == 3
    pod.gives_back((0, 1))
    assert await queue.operator.outstanding(0) == 0
    assert await lag(queue) == 0


async def test_a_running_handler_returns_before_on_revoked_is_called(operator: Operator, queue: Queue) -> None:
    told, gate = Told(), Gate()

    def handle(entry: Entry) -> None:
        gate(entry)
        told.handle(entry)

    queue.send("a", "b")
    pod = await operator.owner(0, handler=handle, callbacks=told.callbacks)
    gate.reached()
    pod.ledger({}, revoking={0: 1})
    until(lambda: pod.consumer.interrupted)
    await queue.operator.pause(0, Epoch(1))
    gate.open()
    until(lambda: pod.released() == {(0, 1)})
    assert told.words == [("assigned", [0]), ("entry", "a"), ("revoked", [0])]


class Busy(Told):
    """A program whose only worker blocks in a handler, and whose `on_revoked` blocks too."""

    def __init__(self) -> None:
        super().__init__()
        self.handler, self.may_be_revoked = Gate(lambda entry: entry.value == b"long"), threading.Event()
        self.entries: list[Entry] = []

    def revoked(self, partitions: Sequence[Partition], time_left: float | None) -> None:
        super().revoked(partitions, time_left)
        assert self.may_be_revoked.wait(PATIENCE)
        self.tell("returned", partitions)

    def handle(self, entry: Entry) -> None:
        super().handle(entry)
        self.entries.append(entry)
        self.handler(entry)


async def busy(operator: Operator, queue: Queue) -> tuple[Busy, Pod]:
    """Return a program in the handler for partition 0. Partition 1 is idle and called back."""
    told = Busy()
    queue.send("short", partition=1)
    pod = await operator.owner(0, 1, handler=told.handle, callbacks=told.callbacks)
    until(lambda: ("entry", "short") in told.words)
    await acknowledged(queue)
    queue.send("long")
    told.handler.reached()
    pod.ledger({0: 1}, revoking={1: 1})
    until(lambda: pod.consumer.interrupted)
    return told, pod


async def test_the_next_owner_waits_until_on_revoked_has_returned(operator: Operator, queue: Queue) -> None:
    told, pod = await busy(operator, queue)
    assert await queue.operator.pause(1, Epoch(1)) == IN_USE
    told.handler.open()
    until(lambda: told.words[-1] == ("revoked", [1]))
    assert await queue.operator.outstanding(1) == IN_USE
    assert pod.released() == set()
    told.may_be_revoked.set()

    async def released() -> bool:
        return await queue.operator.outstanding(1) == 0

    await eventually(released, "the partition may be given away")
    until(lambda: pod.released() == {(1, 1)})
    assert told.words[-2:] == [("revoked", [1]), ("returned", [1])]


async def test_a_partition_taken_before_on_revoked_began_is_reported_lost_instead(operator: Operator, queue: Queue) -> None:
    told, pod = await busy(operator, queue)
    await operator.grant(operator.pod("b"), (1, 2))
    told.handler.open()
    told.may_be_revoked.set()
    until(lambda: told.words[-1] == ("lost", [1]))
    pod.gives_back((0, 1))
    assert ("revoked", [1]) not in told.words
    assert told.words.count(("lost", [1])) == 1


async def test_a_partition_taken_while_on_revoked_runs_is_not_reported_lost_too(
    operator: Operator, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    told, pod = await busy(operator, queue)
    told.handler.open()
    until(lambda: told.words[-1] == ("revoked", [1]))
    (short,) = (entry for entry in told.entries if entry.value == b"short")
    assert short.still_mine()
    await operator.grant(operator.pod("b"), (1, 2))
    until(lambda: not short.still_mine())
    until(lambda: "/1 was taken while on_revoked runs" in caplog.text)
    told.may_be_revoked.set()
    pod.gives_back((0, 1))
    assert [word for word in told.words if word[1] == [1]] == [("revoked", [1]), ("returned", [1])]
    assert not any(word == "lost" for word, _ in told.words)
