"""A queue that goes and comes back while its owners work on: where nothing fences, they are waited for."""

from dataclasses import replace

import pytest

from baton.engine import State, partitions
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.engine.state_machine import state_of
from baton.model.ids import Epoch, MemberId, OnDeadline, QueueName, Uid
from baton.model.session import Release
from tests.unit.engine.group import Group, partition

ORDERS = QueueName("orders")


def external(partitions: int = 2, spec: GroupSpec | None = None, **queue: object) -> Group:
    return Group(partitions, spec, fenced=False, **queue)


def give_up(group: Group, at: float) -> None:
    """The PartitionedQueue is deleted, or not named any more, and the deadline passes without a word."""
    queue = group.queues[ORDERS]
    group.queues[ORDERS] = replace(queue, partitions=0, given_up=True)
    group.settle(at)
    group.settle(at + queue.max_handoff)
    assert group.state.records == {}


def gone(group: Group, at: float) -> None:
    """No operator saw that the PartitionedQueue was deleted."""
    del group.queues[ORDERS]
    group.settle(at)
    assert group.state.records == {}


def words(group: Group, name: str, *numbers: int, epoch: int = 1) -> None:
    group.releases |= {Release(Uid(f"uid-{name}"), ORDERS, number, Epoch(epoch)) for number in numbers}


@pytest.mark.parametrize("goes", [give_up, gone])
def test_who_has_not_let_go_when_its_queue_comes_back_is_waited_for(goes: object) -> None:
    group = external().start("a", "b").terminate("a")
    goes(group, 10)  # type: ignore[operator]
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    group.settle(at=100)
    assert group.owners() == "ab"
    assert group.state.moves[partition(0)].receiver == "b"
    words(group, "a", 0)
    group.settle(at=101)
    assert group.owners() == "bb"


@pytest.mark.parametrize("goes", [give_up, gone])
def test_a_member_gets_back_at_a_new_epoch_what_it_had(goes: object) -> None:
    group = external(4).start("a", "b")
    before = group.owners()
    goes(group, 10)  # type: ignore[operator]
    group.queues[ORDERS] = ObservedQueue(4, fenced=False)
    group.settle(at=20)
    assert len(group.state.moves) == 4
    assert all(move.receiver == move.giver for move in group.state.moves.values())
    group.settle(at=23)
    assert (group.owners(), group.state.totals.moves, state_of(group.state)) == (before, 0, State.READY)
    assert min(record.epoch for record in group.state.records.values()) > 1


def test_it_goes_on_above_the_epoch_with_which_the_partition_went() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    highest = max(group.state.epoch_tombstones.values())
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    assert len(group.state.moves) == 2
    assert all(move.epoch > highest for move in group.state.moves.values())
    assert {record.epoch for record in group.state.records.values()} == {1}, "as its owner knows it, and names it in its release"


@pytest.mark.parametrize("how", ["released", "ended", "lapsed", "another pod of its name"])
def test_who_cannot_work_on_it_any_more_is_forgotten(how: str) -> None:
    group = external().start("a", "b").step_aside("a")
    group.settle(at=10)
    give_up(group, 11)
    assert {last.member for last in group.state.unreleased.values()} == {"a", "b"}
    match how:
        case "released":
            words(group, "a", 0)
        case "another pod of its name":
            del group.away[MemberId("a")]
            group.join("a", uid="uid-2")
        case _:
            del group.away[MemberId("a")]
    group.settle(at=20)
    assert {last.member for last in group.state.unreleased.values()} == {"b"}


def test_who_ends_while_the_queue_comes_back_is_not_waited_for() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    group.leave("a").queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    assert group.owners() == "bb"
    assert group.state.unreleased == {}


def test_a_pod_that_is_away_is_waited_for_too() -> None:
    group = external().start("a", "b").step_aside("a")
    group.settle(at=10)
    gone(group, 11)
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    group.settle(at=100)
    assert group.owners() == "ab"
    del group.away[MemberId("a")]
    group.settle(at=101)
    assert group.owners() == "bb"


def test_a_pod_that_does_not_read_the_queue_any_more_is_waited_for_too() -> None:
    group = external().start("a", "b")
    gone(group, 10)
    group.members[MemberId("a")] = replace(group.members[MemberId("a")], subscribed=frozenset({QueueName("pay")}))
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    group.settle(at=60)
    assert group.owners() == "ab"
    words(group, "a", 0)
    group.settle(at=61)
    group.settle(at=70)
    assert group.owners() == "bb"


def test_on_deadline_force_does_not_wait() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    group.queues[ORDERS] = ObservedQueue(2, fenced=False, on_deadline=OnDeadline.FORCE)
    group.settle(at=20)
    group.settle(at=23)
    assert group.owners() == "bb"


def test_on_deadline_force_remembers_nobody() -> None:
    group = external(4, on_deadline=OnDeadline.FORCE).start("a", "b")
    group.resize(2).settle(10)
    group.settle(13)
    assert (len(group.state.records), group.state.unreleased) == (2, {})


def test_of_a_queue_that_fences_nobody_is_remembered() -> None:
    for goes in (give_up, gone):
        group = Group(2, incarnation="run-1").start("a", "b")
        goes(group, 10)
        assert group.state.unreleased == {}


def test_a_queue_that_fences_by_now_is_not_waited_for() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    group.queues[ORDERS] = ObservedQueue(2, incarnation="run-1")
    group.settle(at=20)
    assert group.owners() == "bb"
    assert group.state.unreleased == {}


def test_a_paused_group_gives_nothing_up() -> None:
    """A static member that stops has to let go of what is given to nobody yet. While the group is paused, its queue is not
    given up either."""
    group = external(spec=GroupSpec(session_timeout=300))
    group.join("a", instance="i").join("b", instance="j").start()
    group.terminate("a").settle(at=10)
    group.spec = replace(group.spec, paused=True)
    queue = group.queues[ORDERS]
    group.queues[ORDERS] = replace(queue, partitions=0, given_up=True)
    group.settle(at=20)
    group.settle(at=30)
    assert group.owners() == "ab"


def test_no_more_is_remembered_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MOST_WITHDRAWN", 5)
    group = external(4).start("a", "b")
    group.queues[QueueName("pay")] = ObservedQueue(3, fenced=False)
    group.settle(at=20)
    group.settle(at=30)
    group.queues = {}
    group.settle(at=40)
    assert {one.queue for one in group.state.unreleased} == {"pay"}
