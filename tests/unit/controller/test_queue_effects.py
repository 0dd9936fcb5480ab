"""What is done at a queue at the same time, and how often it is asked how much is outstanding."""

import asyncio
from contextlib import suppress

import pytest

from baton.controller.owner_records import OwnerRecords
from baton.controller.queue_effects import LONGEST_POLL, SHORTEST_POLL, QueueEffects, pause_between
from baton.engine.effects import Effect, Grant, Pause
from baton.kube.clock import ApiServerClock
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.queues.protocol import Owner, QueueUnreachable
from tests.unit.controller.memory_queue import MemoryQueue
from tests.waiting import HOUR, eventually

MOVING, OTHER = Partition(QueueName("orders"), 0), Partition(QueueName("orders"), 1)


def grant(of: Partition, uid: str, epoch: int) -> Grant:
    return Grant(of, MemberId(f"pod-{uid}"), Uid(uid), Epoch(epoch))


def pause(of: Partition, then: Grant | None = None) -> Pause:
    return Pause(of, Epoch(1), HOUR, then)


class AnsweredByTests(MemoryQueue):
    """Each pause, and each grant, is answered when the test says so."""

    def __init__(self) -> None:
        super().__init__(2)
        self.pauses: dict[int, asyncio.Future[int | Owner]] = {}
        self.grants: dict[tuple[int, str | None], asyncio.Future[None]] = {}

    async def pause(self, partition: int, epoch: Epoch, within: float | None = None, then: Owner | None = None) -> int | Owner:
        self.pauses[partition] = asyncio.get_running_loop().create_future()
        return await self.pauses[partition]

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        self.grants[partition, uid] = asyncio.get_running_loop().create_future()
        await self.grants[partition, uid]
        return await super().grant(partition, uid, epoch)


class AtWork:
    """Both partitions are being paused; what is then granted of the first one is to go to b."""

    def __init__(self) -> None:
        self.queue = AnsweredByTests()
        self.effects = QueueEffects(OwnerRecords(), ApiServerClock(), lambda: None)
        self.want(pause(MOVING, grant(MOVING, "b", 2)), pause(OTHER))
        self.task = asyncio.create_task(self.effects.carry_out(self.queue))

    def want(self, *effects: Effect) -> None:
        self.effects.want({effect.partition: effect for effect in effects})

    async def until_asked(self, pauses: int = 0, grants: int = 0) -> None:
        async def asked() -> bool:
            return len(self.queue.pauses) >= pauses and len(self.queue.grants) >= grants

        await eventually(asked)

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@pytest.mark.parametrize("instead", [grant(MOVING, "c", 3), pause(MOVING, grant(MOVING, "c", 3))])
async def test_a_partition_whose_grant_is_about_to_begin_is_left_alone(instead: Effect) -> None:
    """The answer that lets it be granted, news of the engine, and another answer come in one turn of the event loop: whoever is
    free after the other answer must not take the partition up."""
    at_work = AtWork()
    await at_work.until_asked(pauses=2)
    first, other = at_work.queue.pauses.values()
    first.set_result(0)
    asyncio.get_running_loop().call_soon(at_work.want, instead)
    other.set_result(3)
    await at_work.until_asked(grants=1)
    await asyncio.sleep(0)
    assert list(at_work.queue.grants) == [(0, "b")]
    assert at_work.queue.pauses[0] is first, "it was not paused again"
    at_work.queue.grants[0, "b"].set_result(None)
    await eventually(lambda: _heard(at_work))
    assert [one.record for one in at_work.effects.work.outcomes] == [("b", 2)]
    await at_work.end()


async def _heard(at_work: AtWork) -> bool:
    return bool(list(at_work.effects.work.outcomes))


@pytest.mark.parametrize("to", [Owner(Uid("b"), Epoch(2)), Owner(Uid("c"), Epoch(2))])
async def test_a_partition_that_its_owner_has_handed_over_is_not_granted_as_well(to: Owner) -> None:
    at_work = AtWork()
    await at_work.until_asked(pauses=2)
    at_work.queue.pauses[0].set_result(to)
    await eventually(lambda: _heard(at_work))
    assert [one.record for one in at_work.effects.work.outcomes] == [(to.uid, to.epoch)]
    assert not at_work.queue.grants
    assert at_work.effects._records.known == {0: to}
    await at_work.end()


async def test_a_grant_that_had_no_time_to_begin_is_made_when_the_queue_answers_again() -> None:
    at_work = AtWork()
    await at_work.until_asked(pauses=2)
    first, other = at_work.queue.pauses.values()
    other.set_exception(QueueUnreachable("the queue is down"))
    first.set_result(0)
    with pytest.raises(ExceptionGroup):
        await at_work.task
    at_work.queue.pauses.clear()
    at_work.task = asyncio.create_task(at_work.effects.carry_out(at_work.queue))
    await at_work.until_asked(pauses=2)
    at_work.queue.pauses[0].set_result(0)
    await at_work.until_asked(grants=1)
    await at_work.end()


@pytest.mark.parametrize(
    ("partitions", "took", "waited", "pause"),
    [
        (7, 0.001, 0.0, SHORTEST_POLL),
        (7, 4.0, 0.0, SHORTEST_POLL),  # the broker is slow, or it was asked for many before: a few are no burden
        (1_000, 0.1, 0.0, 0.1),
        (1_000, 4.0, 0.0, 0.2),
        (7, 0.001, 4.0, 0.1),  # their work takes long
        (7, 0.001, HOUR, LONGEST_POLL),
        (10_000, 1.5, HOUR, 1.5),
    ],
)
def test_many_partitions_are_asked_more_seldom_and_a_few_as_soon_as_their_work_may_be_done(
    partitions: int, took: float, waited: float, pause: float
) -> None:
    assert pause_between(partitions, took, waited) == pytest.approx(pause)
