"""The ledger of a plan would be too large: the plan waits, and what is in flight does not."""

from dataclasses import replace

from baton.engine import State
from baton.engine.observation import GroupSpec, HeldBack
from baton.engine.state_machine import state_of
from baton.model.ids import OnDeadline
from tests.unit.engine.group import Group, grants, pauses


def held(how: HeldBack, partitions: int = 4, spec: GroupSpec | None = None, **queue: object) -> Group:
    """a and b share four partitions; c joins, its plan begins, and from then on another plan would not fit."""
    group = Group(partitions, spec, **queue).start("a", "b").join("c")
    group.settle(at=20)
    group.settle(at=25)
    group.held_back = how
    group.events.clear()
    return group


def test_a_hand_off_in_flight_ends_at_its_deadline() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how)
        assert group.owners() == "abab"
        group.settle(at=27)
        group.settle(at=28)
        assert group.moved() == ["miss 3 b", "grant 3 c 2"], how
        assert group.owners() == "abac"


def test_a_hand_off_that_is_forced_ends_at_its_deadline() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how, fenced=False, on_deadline=OnDeadline.FORCE)
        group.settle(at=28)
        assert group.owners() == "abac", how


def test_a_release_is_heard() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how).release("b", 3)
        group.settle(at=26)
        assert group.owners() == "abac", how


def test_a_hand_off_whose_receiver_vanishes_goes_back() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how).leave("c").release("b", 3)
        group.settle(at=26)
        assert group.owners() == "abab", how


def test_a_plan_is_not_made_before_there_is_room() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how).release("b", 3).join("d")
        done = group.settle(at=26)
        assert group.owners() == "abac"
        assert done.wake_at is None
        group.settle(at=90)
        assert state_of(group.state) is State.READY
        assert group.owners() == "abac", how
        group.held_back = HeldBack.NOTHING
        group.settle(at=100)
        assert state_of(group.state) is State.HOLDDOWN
        done = group.settle(at=105)
        assert pauses(done) == [2], how  # of b's two


def test_a_holddown_that_ended_meanwhile_is_followed_by_its_plan_at_once() -> None:
    group = Group().start("a", "b").join("c")
    group.settle(at=20)
    group.held_back = HeldBack.PLANS
    assert group.settle(at=25).wake_at is None
    assert group.owners() == "abab"
    group.held_back = HeldBack.NOTHING
    assert pauses(group.settle(at=60)) == [3]


def test_a_queue_that_grows_waits_for_room() -> None:
    group = Group().start("a", "b").resize(6)
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group.held_back = how
        assert grants(group.settle(at=20)) == []
        assert group.owners() == "abab"
    group.held_back = HeldBack.NOTHING
    group.settle(at=21)
    assert group.owners() == "ababab"


def test_a_newcomer_takes_a_vacant_slot_where_no_plan_fits() -> None:
    group = Group().start("a", "b").leave("b")
    group.settle(at=20)
    group.held_back = HeldBack.PLANS
    group.join("c").settle(at=21)
    assert group.owners() == "acac"


def test_nobody_takes_a_slot_where_nothing_new_fits() -> None:
    group = Group().start("a", "b").leave("b")
    group.settle(at=20)
    group.held_back = HeldBack.ALL
    group.join("c").settle(at=21)
    assert group.owners() == "a-a-"
    group.held_back = HeldBack.NOTHING
    group.settle(at=22)
    assert group.owners() == "acac"


def test_what_waits_for_its_turn_has_it_where_no_plan_fits() -> None:
    group = held(HeldBack.PLANS, 8, GroupSpec(max_concurrent_handoffs=1))
    assert len(group.state.waiting) == 1
    for _ in range(2):
        group.settle(at=group.now + 3)
    assert not group.state.waiting
    assert sorted(group.owners()) == sorted("aaabbbcc")


def test_a_changed_fact_is_a_trigger_when_there_is_room() -> None:
    group = Group().start("a", "b")
    group.held_back = HeldBack.PLANS
    group.spec = replace(group.spec, assignors=("range",))
    group.settle(at=20)
    assert state_of(group.state) is State.READY
    group.held_back = HeldBack.NOTHING
    group.settle(at=21)
    assert state_of(group.state) is State.HOLDDOWN


def test_a_group_that_is_paused_where_no_plan_fits_is_paused() -> None:
    group = Group().start("a", "b")
    group.held_back = HeldBack.PLANS
    group.spec = replace(group.spec, paused=True)
    group.settle(at=20)
    assert state_of(group.state) is State.PAUSED


def test_owners_are_asserted_again_where_that_fits() -> None:
    group = Group(incarnation="1").start("a", "b")
    group.queues = {name: replace(queue, incarnation="2") for name, queue in group.queues.items()}
    group.held_back = HeldBack.ALL
    assert grants(group.step(at=20)) == []
    group.held_back = HeldBack.PLANS
    assert [number for number, *_ in grants(group.step(at=21))] == [0, 1, 2, 3]
