"""Pods that take no part, and may still work: where nothing fences, only their word or their end frees what they have."""

from collections import Counter
from dataclasses import replace

import pytest

from baton.api.group import Protocol
from baton.engine import State
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.engine.state_machine import state_of
from baton.model.ids import Epoch, MemberId, OnDeadline, QueueName, Uid
from baton.model.session import Release
from tests.unit.engine.group import Group, grants, pauses


def external(spec: GroupSpec | None = None, partitions: int = 2) -> Group:
    return Group(partitions, spec, fenced=False)


def test_who_is_back_within_the_delay_keeps_its_partition_at_its_epoch() -> None:
    group = external().start("a", "b").join("c")
    group.settle(at=20)
    group.step_aside("a")
    assert pauses(group.settle(at=21)) == []
    assert group.owners() == "ab"
    assert state_of(group.state) is State.HOLDDOWN
    group.come_back("a").settle(at=23)
    assert (group.owners(), group.moved(), state_of(group.state)) == ("ab", [], State.READY)


def test_a_standby_takes_over_after_the_holddown_and_only_with_its_word() -> None:
    group = external().start("a", "b").join("c")
    group.settle(at=20)
    group.step_aside("a").settle(at=21)
    assert pauses(group.settle(at=26)) == [0]
    group.settle(at=60)
    assert group.owners() == "ab"
    word = Release(Uid("uid-a"), QueueName("orders"), 0, Epoch(1))
    group.releases.add(word)
    group.settle(at=61)
    assert group.owners() == "cb"


def test_the_end_of_its_session_or_its_pod_frees_its_partition() -> None:
    group = external().start("a", "b").join("c")
    group.settle(at=20)
    group.step_aside("a").settle(at=21)
    del group.away[MemberId("a")]
    group.settle(at=22)
    assert group.owners() == "cb"


def test_another_pod_of_its_name_is_another_pod() -> None:
    group = external().start("a", "b")
    group.step_aside("a").settle(at=20)
    group.away[MemberId("a")] = Uid("uid-2")
    group.settle(at=21)
    assert group.owners() == "-b"


def test_what_a_queue_can_fence_goes_at_once_to_whoever_comes() -> None:
    group = external()
    group.queues[QueueName("pay")] = ObservedQueue(2)
    group.start("a", "b").step_aside("a").settle(at=20)
    assert (group.owners(), group.owners("pay")) == ("ab", "-b")
    group.join("c").settle(at=21)
    assert (group.owners(), group.owners("pay")) == ("ab", "cb")


def test_a_static_member_that_is_not_ready_is_not_told_to_let_go() -> None:
    group = external(GroupSpec(session_timeout=30))
    group.join("a", instance="a").join("b", instance="b").start()
    assert pauses(group.step_aside("a").settle(at=20)) == []
    assert state_of(group.state) is State.HOLDDOWN
    group.come_back("a", instance="a").settle(at=40)
    assert (group.owners(), group.moved(), state_of(group.state)) == ("ab", [], State.READY)


def test_a_static_members_word_is_waited_for_when_its_term_has_ended() -> None:
    group = external(GroupSpec(session_timeout=30))
    group.join("a", instance="a").join("b", instance="b").start()
    group.step_aside("a").settle(at=20)
    assert pauses(group.settle(at=50)) == [0]
    group.settle(at=60)
    assert group.owners() == "ab"


def test_the_older_of_two_pods_with_one_identity_is_waited_for() -> None:
    group = external(GroupSpec(session_timeout=30), partitions=1)
    group.join("a", instance="i").start()
    group.now = 20
    assert pauses(group.join("b", instance="i").settle()) == [0]
    group.settle(at=40)
    assert group.owners() == "a"
    assert grants(group.leave("a").step(at=41)) == [(0, "b", 2)]
    group.settle()
    assert group.owners() == "b"
    assert group.state.totals.moves == 0, "it is the same static member"


def test_a_hand_off_that_waits_for_its_word_goes_on_waiting() -> None:
    group = external(partitions=2).start("a").join("b")
    group.settle(at=20)
    assert pauses(group.settle(at=25)) == [1]
    group.step_aside("a").settle(at=30)
    group.settle(at=60)
    assert group.owners() == "aa"


def test_with_force_its_word_is_waited_for_until_the_deadline() -> None:
    group = Group(2, fenced=False, on_deadline=OnDeadline.FORCE).start("a", "b").join("c")
    group.settle(at=20)
    group.step_aside("a").settle(at=21)
    group.settle(at=26)
    assert group.owners() == "ab"
    group.settle(at=29)
    assert group.owners() == "cb"


@pytest.mark.parametrize("fenced", [True, False])
def test_the_last_member_keeps_what_it_has_until_the_holddown_ends(fenced: bool) -> None:
    group = Group(2, fenced=fenced).start("a").step_aside("a")
    group.settle(at=20)
    assert group.owners() == ("--" if fenced else "aa")
    group.come_back("a").settle(at=24)
    assert group.owners() == "aa"


def test_a_deadline_counts_only_for_the_move_that_it_was_the_end_of() -> None:
    """Eager: a is to have its partition again, at its deadline without its word; then it is to go to somebody else."""
    group = external(GroupSpec(protocol=Protocol.EAGER), partitions=4).start("a", "b").join("c")
    group.settle(at=20)
    group.settle(at=25)
    group.step(at=28)
    again = [p for p, move in group.state.moves.items() if move.receiver == move.giver == "a"]
    assert again and all(group.state.moves[p].missed for p in again)
    group.terminate("a").step(at=29)
    group.releases |= {Release(Uid("uid-b"), QueueName("orders"), n, Epoch(1)) for n in range(4)}
    group.settle(at=30)
    assert {group.state.records[p].owner for p in again} == {"a"}


def test_a_hand_off_of_a_queue_that_is_let_go_of_is_forced_for_nobody_only() -> None:
    """Paused, the hand-off in flight is finished before the queue is let go of: its receiver is to wait for the giver's word."""
    group = external().start("a").join("b")
    group.settle(at=20)
    group.settle(at=25)
    group.queues = {name: replace(queue, partitions=0, given_up=True) for name, queue in group.queues.items()}
    group.spec = replace(group.spec, paused=True)
    group.settle(at=40)
    assert group.owners() == "aa"
    group.spec = replace(group.spec, paused=False)
    group.settle(at=41)
    group.settle(at=45)
    assert group.state.records == {}


def test_who_is_away_and_has_let_go_of_everything_has_no_key_from_then_on() -> None:
    """Its slot keeps what it had of a queue that fences. The same observation twice changes nothing (rule 10)."""
    group = Group(2)
    pay = QueueName("pay")
    group.queues[pay] = ObservedQueue(1, fenced=False)
    group.start("a")
    group.queues[pay] = ObservedQueue(0, fenced=False, given_up=True)
    group.step(at=20)
    group.queues[pay] = ObservedQueue(1, fenced=False)
    group.step(at=21)
    group.release("a", 0, "pay").step_aside("a").step(at=22)
    once = group.state
    assert (group.owners("pay"), set(once.known)) == ("-", set())
    assert {one.number for slot in once.member_slots for one in slot.vacated or ()} == {0, 1}
    group.step(at=22)
    assert group.state == once


def test_another_name_of_a_static_member_counts_in_a_plan() -> None:
    """d takes the place of a, which still has to let go. A plan of that moment moves no more than if d had all of a's."""
    group = external(GroupSpec(session_timeout=30), partitions=6)
    group.join("a", instance="i").join("b", instance="j").start()
    group.now = 22
    group.join("d", instance="i").settle()
    group.now = 24
    group.join("c").settle()
    group.settle(at=29)
    group.releases = {
        Release(Uid(f"uid-{name}"), QueueName("orders"), number, Epoch(1)) for name in ("a", "b") for number in range(6)
    }
    group.settle(at=30)
    assert Counter(group.owners()) == {"b": 2, "c": 2, "d": 2}
    assert (group.state.totals.moves, group.state.totals.lower_bound) == (2, 2)
