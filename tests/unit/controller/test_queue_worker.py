"""A worker carries out effects at its queue, and keeps trying."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial

import pytest

from baton.controller import queue_effects, queue_worker
from baton.controller.problems import Reason
from baton.controller.queue_worker import QueueWorker
from baton.engine.observation import Outcome
from baton.engine.results import Effect, Grant, Pause
from baton.kube.clock import ApiServerClock
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.queues.protocol import Ownership, QueueAdapter, QueueCheck, QueueUnreachable, Resizing
from tests.unit.controller.memory_queue import MemoryQueue
from tests.waiting import HOUR, PATIENCE, eventually

ORDERS = QueueName("orders")


def partition(number: int) -> Partition:
    return Partition(ORDERS, number)


def grant(number: int, uid: str, epoch: int, above: int | None = None) -> Grant:
    least = None if above is None else Epoch(above)
    return Grant(partition(number), MemberId(f"pod-{uid}"), Uid(uid), Epoch(epoch), least)


def pause(number: int, epoch: int, then: Grant | None = None) -> Pause:
    return Pause(partition(number), Epoch(epoch), 100.0, then)


def owner(uid: str, epoch: int) -> Ownership:
    return Ownership(Uid(uid), Epoch(epoch))


def outcome(number: int, uid: str, epoch: int) -> Outcome:
    return Outcome(partition(number), owner(uid, epoch))


async def until(so: Callable[[], object]) -> None:
    async def look() -> object:
        return so()

    await eventually(look)


class Kept:
    """A worker at work on a queue in memory."""

    def __init__(self, queue: MemoryQueue) -> None:
        self.queue = queue
        self.news = 0
        self.connections = 0
        self.clock = ApiServerClock()
        self.worker = QueueWorker(ORDERS, self._connect, self.clock, self._heard)
        self.worker.ask_for(4)
        self.task = asyncio.create_task(self.worker.run())

    def lag(self) -> Mapping[int, int]:
        known = self.worker.backlog.fresh(self.clock.ticks())
        return known.check.lag if known is not None else {}

    def want(self, *effects: Effect, told: Collection[Outcome] = ()) -> None:
        self.worker.effects.want({effect.partition: effect for effect in effects}, told)

    async def looked_for(self, partitions: int) -> None:
        """Ask for another number of partitions, and wait for the look at the queue that this causes."""
        looks = self.queue.calls.count("check")
        self.worker.ask_for(partitions)
        await until(lambda: self.queue.calls.count("check") > looks)

    @property
    def outcomes(self) -> set[Outcome]:
        return set(self.worker.effects.work.outcomes)

    def warns(self, why: str) -> bool:
        return self.worker.effects.warnings == (why,)

    @property
    def drained(self) -> set[tuple[Partition, Epoch]]:
        return set(self.worker.effects.work.drained)

    @property
    def unacknowledged(self) -> dict[Partition, int | None]:
        return self.worker.effects.work.unacknowledged

    async def _connect(self) -> QueueAdapter:
        self.connections += 1
        return self.queue

    def _heard(self) -> None:
        self.news += 1


Keep = Callable[[MemoryQueue], Kept]


@pytest.fixture
async def keep() -> AsyncIterator[Keep]:
    started: list[Kept] = []

    def one(queue: MemoryQueue) -> Kept:
        started.append(Kept(queue))
        return started[-1]

    yield one
    for worker in started:
        worker.task.cancel()


@pytest.fixture
async def kept(keep: Keep) -> Kept:
    return keep(MemoryQueue())


async def test_the_queue_is_made_with_the_requested_partitions(kept: Kept) -> None:
    await until(kept.lag)
    facts = kept.worker.facts
    assert (facts.partitions, facts.check.incarnation, facts.problem, facts.resizing, kept.lag()) == (
        4,
        "run-1",
        None,
        None,
        {0: 5},
    )
    assert kept.news >= 1


async def test_facts_stay_the_same_while_entries_flow(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_worker, "LOOK_EVERY", 0.01)
    one = keep(MemoryQueue())
    await until(one.lag)
    before = one.worker.facts
    one.queue.lag, one.queue.finished = {0: 9, 1: 3}, 99
    await until(lambda: one.lag() == {0: 9, 1: 3})
    assert one.worker.facts == before
    assert one.worker.facts.check is before.check, "so they are compared fast"
    assert not one.worker.facts.check.lag


async def test_the_first_contact_shows_the_queues_records(keep: Keep) -> None:
    queue = MemoryQueue(partitions=4)
    queue.records[1] = owner("u", 7)
    one = keep(queue)
    await until(lambda: one.worker.facts.partitions == 4)
    assert one.worker.facts.owners == {1: owner("u", 7)}


@pytest.mark.parametrize("paused", [True, False])
async def test_a_partition_that_cannot_be_granted_delays_no_other_and_is_retried(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    monkeypatch.setattr(queue_effects, "FIRST_BACKOFF", 0.01)
    kept.queue.unavailable = dict.fromkeys((0, 1, 2, 3, 4), "another transaction is open")

    def wanted(number: int) -> Effect:
        then = grant(number, "u", 4)
        return pause(number, 3, then) if paused else then

    kept.want(*map(wanted, range(6)))
    outcomes = {outcome(number, "u", 4) for number in range(6)}
    await until(lambda: {one.partition.number for one in kept.outcomes} == {5})
    await until(lambda: kept.queue.calls.count("grant") > 20)
    kept.worker.ask_for(6)  # which it looks at
    await until(lambda: len(kept.worker.facts.warnings or ()) == 4)
    assert kept.worker.facts.warnings is not None and kept.worker.facts.warnings[0::3] == (
        "orders/0: another transaction is open",
        "and 2 more partitions cannot be granted",
    )
    assert (kept.connections, kept.worker.facts.problem) == (1, None)
    kept.queue.unavailable = {}
    await until(lambda: kept.outcomes == outcomes)
    assert kept.worker.effects.warnings == ()


async def test_a_partition_that_cannot_be_granted_has_one_retry_pending(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_effects, "FIRST_BACKOFF", HOUR)
    monkeypatch.setattr(queue_effects, "LONGEST_BACKOFF", HOUR)
    kept.queue.unavailable = {0: "it has no leader"}
    for epoch in range(4, 9):
        kept.queue.unavailable = {0: f"it has no leader since {epoch}"}
        kept.want(grant(0, "u", epoch))
        await until(partial(kept.warns, f"orders/0: it has no leader since {epoch}"))
    waiting = [task for task in asyncio.all_tasks() if "QueueEffects._again" in repr(task.get_coro())]
    assert len(waiting) == 1
    kept.want(pause(0, 3))
    assert kept.worker.effects.warnings == (), "it has no next owner"


async def test_a_partition_handed_over_by_its_owner_is_not_reported_as_unavailable(kept: Kept) -> None:
    kept.queue.unavailable = {0: "it has no leader"}
    kept.want(pause(0, 3, grant(0, "u", 4)))
    await until(lambda: kept.worker.effects.warnings)
    kept.queue.owners_say[0] = owner("u", 4)
    await until(lambda: kept.outcomes)
    assert kept.worker.effects.warnings == ()


async def test_a_refused_grant_returns_the_record_and_is_repeated_above_it(kept: Kept) -> None:
    kept.queue.records[0] = owner("other", 9)
    kept.want(grant(0, "u", 3, above=1))
    await until(lambda: kept.outcomes == {outcome(0, "other", 9)})
    kept.want(grant(0, "u", 10, above=1), told=kept.outcomes)
    await until(lambda: kept.outcomes)
    assert kept.outcomes == {outcome(0, "u", 10)}


async def test_a_released_partition_is_granted_at_once_and_both_are_reported(kept: Kept) -> None:
    kept.queue.left[2] = 1
    then = grant(2, "u", 4)
    kept.want(pause(2, 3, then))
    await until(lambda: "outstanding" in kept.queue.calls)
    assert kept.queue.records == {}, "its owner has not released it"
    kept.queue.left[2] = 0
    accepted = outcome(2, "u", 4)
    await until(lambda: kept.outcomes == {accepted})
    assert kept.drained == {(partition(2), Epoch(3))}
    assert kept.queue.calls.count("pause") == 1
    kept.want(told=kept.outcomes)
    assert (kept.outcomes, kept.drained) == (set(), set())


async def test_a_grant_under_way_is_not_made_twice(kept: Kept) -> None:
    kept.queue.takes["grant"] = 0.05
    then = grant(2, "u", 4)
    kept.want(pause(2, 3, then))
    await until(lambda: "grant" in kept.queue.calls)
    kept.want(then)  # the engine knows the release from a session
    await until(lambda: kept.outcomes == {outcome(2, "u", 4)})
    assert kept.queue.calls.count("grant") == 1


async def test_a_grant_under_way_when_redirected_is_told_before_the_next(kept: Kept) -> None:
    kept.queue.takes["grant"] = 0.05
    kept.want(pause(2, 3, grant(2, "u", 4)))
    await until(lambda: "grant" in kept.queue.calls)
    now = pause(2, 3, grant(2, "v", 5))
    kept.want(now)
    accepted = {outcome(2, "u", 4)}
    await until(lambda: kept.outcomes == accepted)
    news = kept.news
    assert (kept.queue.calls.count("pause"), kept.queue.calls.count("grant")) == (1, 1)
    kept.want(pause(2, 4, grant(2, "v", 5)), told=kept.outcomes)
    await until(lambda: kept.outcomes == {outcome(2, "v", 5)})
    assert kept.news > news


@pytest.mark.parametrize("paused", [True, False])
async def test_a_grant_whose_answer_was_lost_is_told_before_the_next(kept: Kept, paused: bool) -> None:
    def wanted(uid: str, epoch: int) -> Effect:
        then = grant(2, uid, epoch, above=3)
        return pause(2, 3, then) if paused else then

    kept.queue.records[2] = owner("giver", 3)
    kept.queue.loses = frozenset({"grant"})
    kept.want(wanted("u", 4))
    await until(lambda: kept.worker.facts.problem)
    kept.want(wanted("v", 5))
    kept.want(wanted("u", 6))
    kept.queue.loses = frozenset()
    accepted = {outcome(2, "u", 4)}
    await until(lambda: kept.outcomes)
    assert (kept.outcomes, kept.queue.records[2]) == (accepted, ("u", 4, False)), "it is not shut out"
    kept.want(wanted("u", 6), told=kept.outcomes)
    await until(lambda: kept.outcomes)
    assert kept.outcomes == {outcome(2, "u", 6)}, "nothing followed from that"


async def test_a_grant_made_by_another_operator_is_told_before_the_next(keep: Keep) -> None:
    queue = MemoryQueue(partitions=4)
    queue.records[2] = owner("u", 4)
    one = keep(queue)
    await until(lambda: one.worker.facts.partitions == 4)
    one.want(grant(2, "v", 5, above=3))
    await until(lambda: one.outcomes)
    assert one.outcomes == {outcome(2, "u", 4)}
    assert "grant" not in queue.calls


@pytest.mark.parametrize("record", [owner("u", 3), owner("u", 5), Ownership(None, Epoch(4))])
async def test_a_known_refused_or_ownerless_record_is_no_lost_answer(
    keep: Keep,
    record: Ownership,
) -> None:
    queue = MemoryQueue(partitions=4)
    queue.records[2] = record
    one = keep(queue)
    await until(lambda: one.worker.facts.partitions == 4)
    one.want(grant(2, "v", 5, above=3))
    await until(lambda: one.outcomes)
    assert "grant" in queue.calls


async def test_what_a_hand_off_waits_for_is_news_with_the_first_answer_only(kept: Kept) -> None:
    kept.queue.left[2] = 2
    await until(lambda: kept.worker.facts.partitions is not None)
    before = kept.news
    kept.want(pause(2, 3))
    await until(lambda: kept.unacknowledged == {partition(2): 2})
    assert kept.news == before + 1
    kept.queue.left[2] = 1
    await until(lambda: kept.unacknowledged == {partition(2): 1})
    assert kept.news == before + 1, "every answer would wake the loop, and a hand-off has many"
    kept.want()
    assert kept.unacknowledged == {}


async def test_a_queue_that_is_down_is_reported_and_its_effects_follow_later(kept: Kept) -> None:
    await until(kept.lag)
    assert kept.worker.facts.partitions == 4
    kept.queue.down = True
    kept.want(grant(0, "u", 3))
    await until(lambda: kept.worker.facts.problem is not None)
    problem = kept.worker.facts.problem
    assert problem is not None
    assert (problem.reason, problem.message) == (Reason.QUEUE_UNREACHABLE, "the queue is down; start it")
    assert kept.worker.facts.partitions == 4, "it is believed to be as it was last seen"
    assert kept.lag() == {}
    kept.queue.down = False
    await until(lambda: kept.outcomes)
    assert kept.worker.facts.problem is None
    assert kept.connections >= 2, "its Secret may have changed"


async def test_a_restarted_server_shows_its_records_again(kept: Kept) -> None:
    await until(lambda: kept.worker.facts.partitions == 4)
    kept.queue.down = True
    kept.want(grant(0, "u", 3))
    await until(lambda: kept.worker.facts.problem is not None)
    kept.queue.run, kept.queue.down = "run-2", False
    kept.queue.records[1] = owner("rolled-back", 1)
    await until(lambda: kept.worker.facts.check.incarnation == "run-2")
    assert kept.worker.facts.owners[1] == owner("rolled-back", 1)


async def test_a_change_of_the_count_is_continued_until_it_is_done(keep: Keep) -> None:
    queue = MemoryQueue(partitions=6)
    queue.steps = [Resizing(6, 4, (4, 5)), Resizing(6, 4, (5,))]
    one = keep(queue)
    await until(lambda: one.worker.facts.resizing == Resizing(6, 4, (5,)))
    assert (one.worker.facts.partitions, one.worker.facts.problem) == (6, None)
    queue.steps = []
    await until(lambda: one.worker.facts.resizing is None)
    assert one.worker.facts.partitions == 4


async def test_a_change_goes_on_though_there_is_no_room_for_the_next(keep: Keep) -> None:
    queue = MemoryQueue(partitions=6)
    queue.steps = [Resizing(6, 4, (5,))]
    one = keep(queue)
    one.worker.ask_for(None)
    await until(lambda: one.worker.facts.resizing == Resizing(6, 4, (5,)))


async def test_a_change_with_more_to_do_at_once_does_not_rest(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_worker, "REST", 1e12)
    queue = MemoryQueue(partitions=6)
    queue.steps = [Resizing(6, 4, (5,)), *(Resizing(6, 4, (), more=True) for _ in range(3)), Resizing(6, 4, (4,))]
    one = keep(queue)
    await until(lambda: one.worker.facts.resizing == Resizing(6, 4, (4,)))


async def test_a_change_goes_on_after_its_queue_was_away(keep: Keep) -> None:
    queue = MemoryQueue(partitions=6)
    queue.steps = [Resizing(6, 4, (5,))]
    one = keep(queue)
    await until(lambda: one.worker.facts.resizing)
    queue.down = True
    await until(lambda: one.worker.facts.problem)
    assert one.worker.facts.partitions == 6
    queue.steps, queue.down = [], False
    await until(lambda: one.worker.facts.partitions == 4)
    assert (one.worker.facts.resizing, one.worker.facts.problem) == (None, None)


async def test_another_groups_queue_is_a_conflict_until_it_is_released(keep: Keep) -> None:
    queue = MemoryQueue()
    queue.conflict = "the queue belongs to shop/first: delete that group"
    one = keep(queue)
    await until(lambda: one.worker.facts.problem is not None)
    assert one.worker.facts.problem is not None
    assert one.worker.facts.problem.reason is Reason.CONFLICT
    assert one.worker.facts.partitions is None, "nothing may be granted there"
    queue.conflict = None
    await until(lambda: one.worker.facts.partitions == 4)


async def test_the_queues_counters_are_unknown_before_the_first_look(keep: Keep) -> None:
    queue = MemoryQueue()
    queue.down = True
    one = keep(queue)
    await until(lambda: one.worker.facts.problem is not None)
    assert (one.worker.facts.check.stale_refused, one.worker.facts.check.dead_letters) == (None, None)
    queue.down = False
    await until(lambda: one.worker.facts.problem is None)
    assert (one.worker.facts.check.stale_refused, one.worker.facts.check.dead_letters) == ({0: 2}, {0: 1})


async def test_a_look_that_swallows_its_cancellation_does_not_keep_a_stopped_worker(kept: Kept) -> None:
    """As a library may swallow it: the task group around it passes it on only once."""
    asked, lost = asyncio.Event(), asyncio.Event()

    async def check() -> QueueCheck:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.set()
        return QueueCheck()

    await until(lambda: kept.worker.facts.partitions is not None)
    kept.queue.check = check  # type: ignore[method-assign]
    kept.worker.ask_for(9)
    await until(asked.is_set)
    kept.worker.stop()
    kept.task.cancel()
    await asyncio.wait({kept.task}, timeout=PATIENCE)
    assert lost.is_set() and kept.task.done()


async def test_a_queue_is_released_after_a_claim_under_way(kept: Kept) -> None:
    """One that arrives later would make the queue the group's again, which may be gone by then."""
    began, goes_on, done = asyncio.Event(), asyncio.Event(), []

    async def ensure(count: int | None) -> None:
        began.set()
        try:
            await goes_on.wait()
        finally:
            done.append("claimed" if goes_on.is_set() else "given up")

    async def release() -> bool:
        done.append("released")
        return True

    await until(lambda: kept.worker.facts.partitions is not None)
    kept.queue.ensure = ensure  # type: ignore[method-assign]
    kept.queue.release = release  # type: ignore[method-assign]
    kept.worker.ask_for(9)
    await until(began.is_set)
    kept.worker.leave(patient=True)
    asyncio.get_running_loop().call_later(0.1, goes_on.set)
    await until(lambda: kept.worker.ended)
    assert done == ["claimed", "released"]


async def test_a_queue_that_is_released_in_parts_is_not_in_trouble(kept: Kept) -> None:
    """It is not given up for lost meanwhile."""
    parts, troubled, worker = [False, None, False, False, True], [], kept.worker

    async def release() -> bool:
        troubled.append(worker.troubled_since is not None)
        if (part := parts.pop(0)) is None:
            raise QueueUnreachable("it is away")
        return part

    await until(lambda: worker.facts.partitions is not None)
    kept.queue.release = release  # type: ignore[method-assign]
    worker.leave(patient=True)
    await until(lambda: worker.ended)
    assert troubled == [False, False, True, False, False]
    assert not parts


async def test_the_first_incarnation_is_kept_until_the_queue_moves(kept: Kept) -> None:
    await until(kept.lag)
    kept.queue.run = "run-2"
    kept.worker.ask_for(6)
    await until(lambda: kept.worker.facts.check.incarnation == "run-2")
    assert kept.worker.begun_with == "run-1"
    kept.worker.reconnect(kept._connect)
    await until(lambda: kept.worker.begun_with == "run-2")


async def test_outcomes_at_the_queues_former_place_are_dropped(kept: Kept) -> None:
    kept.want(grant(0, "u", 4), pause(1, 3))
    await until(lambda: kept.outcomes == {outcome(0, "u", 4)} and kept.drained)
    kept.queue = MemoryQueue()
    kept.queue.run = "run-2"
    kept.queue.takes["grant"] = HOUR
    kept.worker.reconnect(kept._connect)
    await until(lambda: kept.worker.begun_with == "run-2")
    assert (kept.outcomes, kept.drained) == (set(), set())
    kept.worker.effects.go_on()
    await until(lambda: {"grant", "pause"} <= set(kept.queue.calls))


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_nothing_is_done_at_a_replaced_queue_before_the_engine_has_heard_of_it(kept: Kept, elsewhere: bool) -> None:
    kept.queue.left[1] = 1
    kept.want(pause(1, 3, grant(1, "u", 4)))
    await until(lambda: kept.unacknowledged == {partition(1): 1})
    kept.queue.run = "run-2"
    if elsewhere:
        kept.worker.reconnect(kept._connect)
    else:
        kept.worker.ask_for(6)
    await until(lambda: kept.worker.facts.check.incarnation == "run-2")
    kept.queue.left[1] = 0
    kept.want(grant(0, "u", 4), pause(1, 3, grant(1, "u", 4)))
    await kept.looked_for(7)
    assert "grant" not in kept.queue.calls
    kept.worker.effects.go_on()
    await until(lambda: {one.partition for one in kept.outcomes} == {partition(0), partition(1)})


@pytest.mark.parametrize("moved", [True, False])
async def test_nothing_is_done_at_an_unknown_server_before_the_engine_has_heard_of_it(keep: Keep, moved: bool) -> None:
    queue = MemoryQueue(partitions=4)
    queue.down = moved
    one = keep(queue)
    one.worker.effects.incarnation = "run-0"
    one.want(grant(0, "u", 4))
    if moved:
        await until(lambda: one.worker.facts.problem)
        queue.down = False
        one.worker.reconnect(one._connect)
    await until(one.lag)
    await one.looked_for(5)
    assert "grant" not in queue.calls
    one.worker.effects.go_on()
    await until(lambda: "grant" in queue.calls)


class Waiting(MemoryQueue):
    """Answers how much is outstanding when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def outstanding(self, partition: int) -> int | None:
        await super().outstanding(partition)
        await self.answers.wait()
        return self.left.get(partition, 0)


async def test_an_answer_from_a_former_queue_grants_nothing(keep: Keep) -> None:
    queue = Waiting()
    one = keep(queue)
    queue.left[1] = 1
    one.want(pause(1, 3, grant(1, "u", 4)))
    await until(lambda: "outstanding" in queue.calls)
    queue.run, queue.left[1] = "run-2", 0
    one.worker.ask_for(6)
    await until(lambda: one.worker.facts.check.incarnation == "run-2")
    queue.answers.set()
    await one.looked_for(7)
    assert "grant" not in queue.calls
    one.worker.effects.go_on()
    await until(lambda: queue.calls.count("pause") == 2 and "grant" in queue.calls)
