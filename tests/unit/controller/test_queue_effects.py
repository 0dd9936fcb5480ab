"""What is due at a queue, and what it costs to know that."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest

from baton.controller.owner_records import OwnerRecords
from baton.controller.queue_effects import LONGEST_POLL, SHORTEST_POLL, QueueEffects, QueueWork, pause_between
from baton.engine.observation import Outcome
from baton.engine.results import Effect, Grant, Pause
from baton.kube.clock import ApiServerClock
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.queues.protocol import IN_USE, Ownership, QueueUnreachable
from tests.unit.controller.memory_queue import MemoryQueue
from tests.waiting import HOUR, eventually


def partition(number: int) -> Partition:
    return Partition(QueueName("orders"), number)


def grants(*numbers: int, epoch: int = 1) -> dict[Partition, Effect]:
    return {partition(n): Grant(partition(n), MemberId("a"), Uid("u"), Epoch(epoch)) for n in numbers}


def pauses(*numbers: int, epoch: int = 1) -> dict[Partition, Effect]:
    return {partition(n): Pause(partition(n), Epoch(epoch), 100.0) for n in numbers}


def taken(work: QueueWork) -> list[Effect]:
    found = []
    while (effect := work.take()) is not None:
        found.append(effect)
    return found


def accepted(effect: Effect) -> Outcome:
    assert isinstance(effect, Grant)
    return Outcome(effect.partition, Ownership(effect.uid, effect.epoch))


def done(work: QueueWork, wanted: Mapping[Partition, Effect]) -> None:
    for effect in wanted.values():
        assert isinstance(effect, Grant)
        work.granted(effect, accepted(effect))


def test_each_effect_is_due_once_and_in_order() -> None:
    work = QueueWork()
    assert work.want(grants(2, 0, 1))
    assert taken(work) == list(grants(2, 0, 1).values())
    assert not work.want(grants(2, 0, 1))
    assert taken(work) == []


def test_changed_effects_are_due_and_dropped_ones_are_not() -> None:
    work = QueueWork()
    work.want(grants(0, 1, 2))
    work.want(grants(1) | grants(2, epoch=2))
    assert taken(work) == [*grants(1).values(), *grants(2, epoch=2).values()]


def test_a_grant_follows_only_the_pause_that_is_wanted() -> None:
    work = QueueWork()
    (first,), (second,) = grants(0, epoch=2).values(), grants(0, epoch=3).values()
    assert isinstance(first, Grant) and isinstance(second, Grant)
    before, now = (Pause(partition(0), Epoch(1), 100.0, then) for then in (first, second))
    work.want({partition(0): before})
    work.want({partition(0): now})
    assert (work.released(before), work.released(now)) == (False, True)
    done(work, {partition(0): second})
    assert list(work.outcomes) == [accepted(second)]
    assert list(work.drained) == [(partition(0), Epoch(1))]
    done(work, {partition(0): first})
    assert list(work.outcomes) == [accepted(second)], "what the queue recorded last"


def test_an_outcome_stays_until_it_was_told_and_its_grant_is_repeated_if_wanted() -> None:
    work = QueueWork()
    work.want(grants(0, 1))
    taken(work)
    done(work, grants(0, 1))
    assert len(list(work.outcomes)) == 2
    work.want(grants(0, 1))
    assert len(list(work.outcomes)) == 2
    work.want(grants(1), told=[accepted(one) for one in grants(0, 1).values()])
    assert list(work.outcomes) == []
    assert taken(work) == list(grants(1).values())


def test_a_pause_ends_when_nothing_is_outstanding() -> None:
    work = QueueWork()
    work.want(pauses(0, 1, 2, 3))
    taken(work)
    for number, left in enumerate((None, 3, 0, IN_USE)):
        work.paused(Pause(partition(number), Epoch(1), 100.0), left)
    assert list(work.drained) == [(partition(2), Epoch(1))]
    assert work.unacknowledged == {partition(0): None, partition(1): 3, partition(2): 0, partition(3): None}
    assert list(work.draining) == list(pauses(1, 3).values()), "there is no use in asking the first again"


def test_waiting_only_for_the_release_is_news_once() -> None:
    work = QueueWork()
    work.want(pauses(0))
    taken(work)
    pause = Pause(partition(0), Epoch(1), 100.0)
    assert [work.paused(pause, left) for left in (2, 1, IN_USE, IN_USE, 0)] == [True, False, True, False, True]
    assert list(work.drained) == [(partition(0), Epoch(1))]


def test_an_outcome_that_arrives_while_another_is_told_stays() -> None:
    work = QueueWork()
    work.want(grants(0))
    done(work, grants(0))
    told = list(work.outcomes)
    done(work, grants(0, epoch=2))
    work.want({}, told)
    assert [outcome.record.epoch for outcome in work.outcomes] == [2]
    work.want({}, list(work.outcomes))
    assert not list(work.outcomes)


def test_a_late_answer_to_an_unwanted_pause_is_ignored() -> None:
    work = QueueWork()
    work.want(pauses(0, epoch=3))
    assert not work.paused(Pause(partition(0), Epoch(2), 100.0), 0)
    assert list(work.drained) == []


def test_after_a_lost_connection_all_unanswered_effects_are_due() -> None:
    work = QueueWork()
    work.want(grants(0, 1) | pauses(2, 3))
    taken(work)
    done(work, grants(0))
    work.paused(Pause(partition(2), Epoch(1), 100.0), 0)
    work.paused(Pause(partition(3), Epoch(1), 100.0), 5)
    work.begin_again()
    assert taken(work) == [*grants(1).values(), *pauses(3).values()]
    assert not work.draining


class Counting(dict[Partition, Effect]):
    """Counts how often it is looked at."""

    looks = 0

    def get(self, *arguments: object) -> Effect | None:  # type: ignore[override]
        Counting.looks += 1
        return super().get(*arguments)  # type: ignore[call-overload, no-any-return]


def test_an_answer_costs_the_same_however_much_is_wanted() -> None:
    costs = []
    for size in (10, 10_000):
        work, wanted = QueueWork(), Counting(grants(*range(size)))
        work.want(wanted)
        Counting.looks = 0
        done(work, dict(list(grants(*range(10)).items())))
        costs.append(Counting.looks)
    assert costs[0] == costs[1]


def test_a_queue_has_answered_if_only_outstanding_entries_are_left() -> None:
    work = QueueWork()
    assert _answered(work), "there are no effects"
    wanted = grants(0) | pauses(1, 2, 3)
    work.want(wanted)
    done(work, grants(0))
    for number, left in ((1, 0), (2, 5)):
        assert not _answered(work)
        work.paused(_pause(wanted, number), left)
    assert not _answered(work)
    work.paused(_pause(wanted, 3), None)
    assert _answered(work)
    work.begin_again()
    assert _answered(work), "it was, before the connection was lost"
    assert work.released(_pause(wanted, 2))
    assert not _answered(work), "a grant follows"


def _pause(wanted: Mapping[Partition, Effect], number: int) -> Pause:
    found = wanted[partition(number)]
    assert isinstance(found, Pause)
    return found


def _answered(work: QueueWork) -> bool:
    return work.answered


def handed(number: int, uid: str, epoch: int) -> Outcome:
    return Outcome(partition(number), Ownership(Uid(uid), Epoch(epoch)))


def pause_for(uid: str, epoch: int) -> dict[Partition, Pause]:
    return {
        partition(0): Pause(partition(0), Epoch(1), 100.0, Grant(partition(0), MemberId(f"pod-{uid}"), Uid(uid), Epoch(epoch)))
    }


def test_a_partition_handed_to_its_next_owner_is_granted_and_drained() -> None:
    work = QueueWork()
    work.want(pause_for("b", 2))
    (pause,) = taken(work)
    assert isinstance(pause, Pause) and work.paused(pause, 1)
    work.handed_over(handed(0, "b", 2))
    assert (list(work.outcomes), list(work.drained)) == ([handed(0, "b", 2)], [(partition(0), 1)])
    assert (list(work.draining), work.unacknowledged, work.answered) == ([], {partition(0): 0}, True)


def test_a_hand_over_under_an_older_plan_waits_for_the_ledger() -> None:
    work = QueueWork()
    work.want(pause_for("c", 3))
    work.handed_over(handed(0, "b", 2))
    assert (list(work.outcomes), list(work.drained), taken(work)) == ([handed(0, "b", 2)], [], [])
    assert work.want(pauses(0, epoch=2), told=list(work.outcomes)), "its receiver is the owner, and is to release it"


def test_a_hand_over_older_than_the_last_grant_is_ignored() -> None:
    work = QueueWork()
    work.want(grants(0, epoch=3))
    done(work, grants(0, epoch=3))
    work.handed_over(handed(0, "b", 2))
    assert [one.record.epoch for one in work.outcomes] == [3]


def test_former_next_owners_are_remembered_during_a_pause() -> None:
    work, b2, c3 = QueueWork(), Ownership(Uid("b"), Epoch(2)), Ownership(Uid("c"), Epoch(3))
    work.want(pause_for("b", 2))
    work.want(pause_for("c", 3))
    assert work.next_owners == {0: {b2, c3}}, "its owner may know only the first"
    work.want(pauses(0))
    assert work.next_owners == {0: {b2, c3}}
    work.handed_over(handed(0, "b", 2))
    work.want(pause_for("d", 4), told=list(work.outcomes))
    assert work.next_owners == {0: {Ownership(Uid("d"), Epoch(4))}}
    work.want({})
    assert work.next_owners == {}


MOVING, OTHER = Partition(QueueName("orders"), 0), Partition(QueueName("orders"), 1)


def grant(of: Partition, uid: str, epoch: int) -> Grant:
    return Grant(of, MemberId(f"pod-{uid}"), Uid(uid), Epoch(epoch))


def pause(of: Partition, then: Grant | None = None) -> Pause:
    return Pause(of, Epoch(1), HOUR, then)


class AnsweredByTests(MemoryQueue):
    """Each pause and each grant is answered when the test decides."""

    def __init__(self) -> None:
        super().__init__(2)
        self.pauses: dict[int, asyncio.Future[int | Ownership]] = {}
        self.grants: dict[tuple[int, str | None], asyncio.Future[None]] = {}

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership:
        self.pauses[partition] = asyncio.get_running_loop().create_future()
        return await self.pauses[partition]

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
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
    """The answer that lets it be granted, news of the engine, and another answer come in one turn of the event loop: a task
    that is free after the other answer must not take the partition up."""
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
    assert [one.record for one in at_work.effects.work.outcomes] == [("b", 2, False)]
    await at_work.end()


async def _heard(at_work: AtWork) -> bool:
    return bool(list(at_work.effects.work.outcomes))


@pytest.mark.parametrize("to", [Ownership(Uid("b"), Epoch(2)), Ownership(Uid("c"), Epoch(2))])
async def test_a_partition_handed_over_by_its_owner_is_not_granted_as_well(to: Ownership) -> None:
    at_work = AtWork()
    await at_work.until_asked(pauses=2)
    at_work.queue.pauses[0].set_result(to)
    await eventually(lambda: _heard(at_work))
    assert [one.record for one in at_work.effects.work.outcomes] == [to]
    assert not at_work.queue.grants
    assert at_work.effects._records.known == {0: to}
    await at_work.end()


async def test_a_grant_that_could_not_begin_is_made_when_the_queue_answers_again() -> None:
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
def test_many_partitions_are_polled_less_often_and_a_few_as_soon_as_they_may_be_done(
    partitions: int, took: float, waited: float, pause: float
) -> None:
    assert pause_between(partitions, took, waited) == pytest.approx(pause)
