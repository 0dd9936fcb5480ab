"""A ledger without room: parts of a plan, and decisions that wait."""

from collections import Counter
from dataclasses import replace
from string import ascii_letters
from typing import Any

import pytest

from baton.api.group import Approval, GroupRebalance, Protocol
from baton.engine import Grant, State, Step, dump, load
from baton.engine.draft import Draft
from baton.engine.member_slots import expire_reserved_slots
from baton.engine.observation import GroupSpec, HeldBack, ObservedQueue, Outcome
from baton.engine.plan import TO_GRANT
from baton.engine.results import StandsBy, StateChanged
from baton.engine.state_machine import state_of
from baton.engine.step import OF_A_PART, SIZE_LIMIT, TooLarge, fitting_step, size
from baton.model.ids import OnDeadline, QueueName
from baton.queues.protocol import Ownership
from tests.bench.fleet import Fleet
from tests.unit.engine.group import Group, grants, partition, pauses

# The ledger of a plan would be too large: the plan waits, and what is in flight does not.


def held(how: HeldBack, partitions: int = 4, spec: GroupSpec | None = None, **queue: object) -> Group:
    """a and b share four partitions; c joins, its plan begins, and from then on another plan would not fit."""
    group = Group(partitions, spec, **queue).start("a", "b").join("c")
    group.settle(at=20)
    group.settle(at=25)
    group.held_back = how
    group.events.clear()
    return group


def test_a_hand_off_ends_at_its_deadline_without_room() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how)
        assert group.owners() == "abab"
        group.settle(at=27)
        group.settle(at=28)
        assert group.moved() == ["miss 3 b", "grant 3 c 2"], how
        assert group.owners() == "abac"


def test_a_forced_hand_off_ends_at_its_deadline_without_room() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how, fenced=False, on_deadline=OnDeadline.FORCE)
        group.settle(at=28)
        assert group.owners() == "abac", how


def test_a_release_counts_without_room() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how).release("b", 3)
        group.settle(at=26)
        assert group.owners() == "abac", how


def test_a_lost_hand_off_returns_without_room() -> None:
    for how in (HeldBack.PLANS, HeldBack.ALL):
        group = held(how).leave("c").release("b", 3)
        group.settle(at=26)
        assert group.owners() == "abab", how


def test_a_plan_waits_for_room() -> None:
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


def test_a_plan_whose_holddown_ended_follows_once_there_is_room() -> None:
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


def test_a_newcomer_takes_a_vacant_slot_without_room_for_a_plan() -> None:
    group = Group().start("a", "b").leave("b")
    group.settle(at=20)
    group.held_back = HeldBack.PLANS
    group.join("c").settle(at=21)
    assert group.owners() == "acac"


def test_no_slot_is_taken_without_any_room() -> None:
    group = Group().start("a", "b").leave("b")
    group.settle(at=20)
    group.held_back = HeldBack.ALL
    group.join("c").settle(at=21)
    assert group.owners() == "a-a-"
    group.held_back = HeldBack.NOTHING
    group.settle(at=22)
    assert group.owners() == "acac"


def test_waiting_hand_offs_go_on_without_room_for_a_plan() -> None:
    group = held(HeldBack.PLANS, 8, GroupSpec(rebalance=GroupRebalance(max_concurrent_handoffs=1)))
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


def test_a_paused_group_without_room_is_paused() -> None:
    group = Group().start("a", "b")
    group.held_back = HeldBack.PLANS
    group.spec = replace(group.spec, paused=True)
    group.settle(at=20)
    assert state_of(group.state) is State.PAUSED


def test_owners_are_asserted_again_if_that_fits() -> None:
    group = Group(incarnation="1").start("a", "b")
    group.queues = {name: replace(queue, incarnation="2") for name, queue in group.queues.items()}
    group.held_back = HeldBack.ALL
    assert grants(group.step(at=20)) == []
    group.held_back = HeldBack.PLANS
    assert [number for number, *_ in grants(group.step(at=21))] == [0, 1, 2, 3]


# A plan whose hand-offs do not fit into the ledger at once is carried out in parts.


AT_ONCE = GroupSpec(delay=0.0)


class Tight(Group):
    """Its ledger has a limit. Each step is made from the ledger alone."""

    def __init__(self, partitions: int, spec: GroupSpec = AT_ONCE, **queue: Any) -> None:
        super().__init__(partitions, spec, **queue)
        self.limit = SIZE_LIMIT
        self.sizes: list[int] = []
        self.too_large: TooLarge | None = None

    @property
    def bytes(self) -> int:
        return size(dump(self.state))

    def step(self, at: float | None = None, outcomes: frozenset[Outcome] = frozenset()) -> Step:
        self.now = self.now if at is None else at
        state = load(dump(self.state)) if self.state.facts else self.state
        made = fitting_step(state, self.observe(outcomes), self.now, self.limit)
        self.state, self.too_large = made.step.state, made.too_large
        self.events += made.step.events
        self.sizes.append(self.bytes)
        return made.step

    def to_rest(self) -> int:
        """Until nothing moves; returns the number of parts."""
        for parts in range(100):
            if not pauses(self.settle()):
                return parts
            self.release_all()
        raise AssertionError("it does not come to rest")

    def loads(self) -> list[int]:
        return sorted(Counter(record.owner for record in self.state.records.values()).values())


def names(first: int, last: int) -> list[str]:
    return list(ascii_letters[first:last])


def growing(spec: GroupSpec = AT_ONCE, partitions: int = 120, **queue: Any) -> Tight:
    """Four members, and twenty more for whose hand-offs there is no room at once, but for what is when they are done."""
    group, twin = Tight(partitions, spec, **queue), Tight(partitions, **queue)
    for one in (group, twin):
        one.start(*names(0, 4)).join(*names(4, 24))
    twin.to_rest()
    group.limit = twin.bytes + 300
    assert max(twin.sizes) > group.limit + group.limit // OF_A_PART
    group.sizes.clear()
    return group


def test_all_parts_together_are_the_plan() -> None:
    group = growing()
    assert group.to_rest() > 1
    assert group.loads() == [5] * 24
    assert group.state.totals.moves == 120 - 4 * 5 == group.state.totals.lower_bound
    assert state_of(group.state) is State.READY and group.state.holddown is None


def test_parts_keep_the_ledger_within_its_limit() -> None:
    group = growing()
    while pauses(group.settle()):
        assert group.too_large is None
        assert state_of(group.state) is State.REBALANCING
        group.release_all()
    assert max(group.sizes) <= group.limit + group.limit // OF_A_PART


def test_a_step_in_the_middle_of_a_part_begins_nothing_more() -> None:
    group = growing()
    begun = pauses(group.settle())
    assert pauses(group.settle(group.now + 1)) == begun
    assert group.too_large is None


def test_a_member_that_waits_for_a_part_is_no_standby() -> None:
    group = growing()
    group.settle()
    group.release_all().to_rest()
    assert not [event for event in group.events if isinstance(event, StandsBy)]


def test_partitions_without_a_live_owner_come_first() -> None:
    group = growing()
    gone = {of for of, record in group.state.records.items() if record.owner == "d"}
    group.leave("d")
    done = group.step()
    granted = {effect.partition for effect in done.effects if isinstance(effect, Grant)}
    assert granted == gone
    assert group.state.holddown is not None and group.state.holddown.rest


def test_the_next_part_does_not_wait_for_a_silent_giver() -> None:
    group = growing(fenced=False, max_handoff=3)
    begun = set(pauses(group.settle()))
    stuck = min(begun)
    for of, move in group.state.moves.items():
        if of.number != stuck and move.giver is not None:
            group.release(move.giver, of.number)
    assert pauses(group.settle()) == [stuck]
    later = set(pauses(group.settle(group.now + 3)))
    assert later > {stuck}


@pytest.mark.parametrize("at_once", [0, 1], ids=["all at once", "one at a time"])
def test_the_next_part_does_not_wait_for_a_silent_queue(at_once: int) -> None:
    group = growing(GroupSpec(delay=0.0, rebalance=GroupRebalance(max_concurrent_handoffs=at_once)), max_handoff=3)
    begun = group.step()
    of_part, began = {*group.state.moves, *group.state.waiting}, group.now
    assert begun.wake_at == began + 3
    stuck = group.step(began + 3)  # no grant is answered
    assert grants(stuck) and {*group.state.moves, *group.state.waiting} == of_part
    assert stuck.wake_at == began + 3 + TO_GRANT
    group.limit += 300  # as when hand-offs of another queue have ended
    group.step(stuck.wake_at)
    assert {*group.state.moves, *group.state.waiting} > of_part
    group.release_all().to_rest()
    assert group.loads() == [5] * 24


def test_a_reserved_slot_expires_while_a_part_runs() -> None:
    group = growing(GroupSpec(delay=0.0, session_timeout=2.0), max_handoff=3)
    group.step()
    assert group.state.holddown is not None and group.state.holddown.rest
    slot, other, *others = group.state.member_slots
    slot = replace(slot, instance="one", vacated=frozenset({partition(0)}), expires=group.now + 2, length=2.0)
    other = replace(other, vacated=frozenset({partition(1)}))
    group.state = replace(group.state, member_slots=[slot, other, *others])
    draft = Draft(group.state, group.observe(), group.now + 2)
    expire_reserved_slots(draft)
    assert draft.plan_now == f"{slot.member} did not come back in time"


def test_a_plan_that_would_not_fit_at_rest_is_refused() -> None:
    group = growing()
    group.limit -= 400
    assert pauses(group.settle()) == []
    assert group.too_large is not None
    assert set(group.owners()) and len(group.state.known) == 4


def test_eager_is_not_carried_out_in_parts() -> None:
    group = growing(GroupSpec(delay=0.0, protocol=Protocol.EAGER))
    assert pauses(group.settle()) == []
    assert group.too_large is not None


def test_parts_begin_with_moves_that_need_no_approval() -> None:
    group = growing(GroupSpec(delay=0.0, approval=Approval.MANUAL))
    group.leave("d")
    done = group.step()
    assert grants(done) and not pauses(done)
    assert group.state.proposal is None


def test_slots_are_taken_in_parts() -> None:
    group = Tight(200)
    group.start(*names(0, 20))
    group.spec = GroupSpec(delay=60.0)
    group.limit = group.bytes + 1_000
    group.leave(*names(0, 20)).join(*names(20, 40))
    first = grants(group.step())
    assert 0 < len(first) < 200 and group.too_large is None
    group.settle()
    assert group.loads() == [10] * 20
    assert max(group.sizes[-5:]) <= group.limit + group.limit // OF_A_PART
    assert state_of(group.state) is State.READY


def test_new_partitions_are_placed_in_parts() -> None:
    group, twin = Tight(40), Tight(400)
    for one in (group, twin):
        one.start(*names(0, 20))
    group.limit = twin.bytes + 250
    group.resize(400)
    assert 0 < len(grants(group.step())) < 360
    group.to_rest()
    assert group.loads() == [20] * 20


def test_an_exclusive_queue_moves_as_a_whole() -> None:
    group = growing()
    group.queues[QueueName("only")] = ObservedQueue(6, exclusive=True)
    group.limit += 400
    while pauses(group.settle()):
        assert len(set(group.owners("only"))) == 1
        group.release_all()
    assert len(set(group.owners("only"))) == 1


def test_a_plan_for_a_large_group_is_carried_out_in_parts() -> None:
    """Of 700 some die, and twice as many join. Carried out at once, that would need more than there is room for."""
    fleet, dead, limit = Fleet(700, 4_000), 100, SIZE_LIMIT // 5
    fleet.settle()
    fleet.members += 2 * dead
    outcomes: frozenset[Outcome] = frozenset()
    before, largest = fleet.state.totals, 0
    for _ in range(20):
        pods, leases = fleet.facts()
        made = fitting_step(fleet.state, fleet.observe((pods[dead:], leases[dead:]), outcomes), fleet.now, limit)
        assert made.too_large is None
        largest = max(largest, size(made.texts or {}))
        fleet.state = made.step.state
        fleet.release()
        outcomes = frozenset(Outcome(e.partition, Ownership(e.uid, e.epoch)) for e in made.step.effects if isinstance(e, Grant))
        if not fleet.state.moves:
            if made.step.wake_at is None:
                break
            fleet.now = made.step.wake_at
    assert limit < largest <= limit + limit // OF_A_PART
    loads = Counter(record.owner for record in fleet.state.records.values())
    assert set(loads.values()) == {5} and len(loads) == 800
    totals = fleet.state.totals
    assert totals.moves - before.moves == totals.lower_bound - before.lower_bound


# Queues that cannot fence: their grants are in the ledger that decides them.


def test_a_queue_that_cannot_fence_has_its_grants_in_the_step_that_decides_them() -> None:
    group = Tight(2, fenced=False).join("a", "b")
    made = group.step()
    assert (group.owners(), made.effects) == ("ab", ())
    assert [one.state for one in made.events if isinstance(one, StateChanged)] == [State.REBALANCING, State.READY]
    made = group.leave("a").step()
    assert (group.owners(), made.effects) == ("bb", ())


def test_grants_of_an_eager_rebalance_wait_for_all_givers_also_where_nothing_fences() -> None:
    group = Tight(4, GroupSpec(delay=0.0, protocol=Protocol.EAGER), fenced=False).join("a", "b")
    group.step()
    assert len(pauses(group.join("c").step())) == 4
    group.release("a", 0).release("a", 2).release("b", 1).step()
    assert "c" not in group.owners()
    made = group.release("b", 3).step()
    assert (made.effects, "c" in group.owners()) == ((), True)


def test_a_ledger_names_a_giver_that_missed_its_deadline_before_another_owner() -> None:
    group = Tight(2, fenced=False, max_handoff=0.0, on_deadline=OnDeadline.FORCE).join("a")
    group.step()
    assert grants(group.join("b").step()) == [(1, "b", 2)]
    assert group.owners() == "aa"
    group.settle()
    assert group.owners() == "ab"


@pytest.mark.parametrize("room", [300, 600, 1000])
def test_parts_of_a_plan_end_balanced_also_where_grants_take_no_time(room: int) -> None:
    group, twin = Tight(120, fenced=False), Tight(120, fenced=False)
    for one in (group, twin):
        one.start(*names(0, 4)).leave(*names(0, 2)).join(*names(4, 24))
    twin.to_rest()
    group.limit = twin.bytes + room
    group.to_rest()
    assert (group.too_large, len(group.loads()), group.loads()[-1]) == (None, 22, 6)


def test_a_plan_of_known_members_has_no_more_room_than_another() -> None:
    group, twin = Tight(40, fenced=False), Tight(40, fenced=False)
    for one in (group, twin):
        one.start(*names(0, 20)).resize(2000)
    twin.settle()
    before, group.limit = group.bytes, twin.bytes - 100
    group.settle()
    assert (group.bytes, group.too_large is None) == (before, False)


def test_hand_offs_of_a_queue_that_cannot_fence_keep_to_their_pace() -> None:
    spec = GroupSpec(delay=0.0, rebalance=GroupRebalance(max_concurrent_handoffs=1))
    group = Tight(400, spec, fenced=False, max_handoff=0.0, on_deadline=OnDeadline.FORCE).join("a", "b")
    group.settle()
    group.join("c", "d").step()
    assert len(group.state.moves) <= 1 and not set(group.owners()) & {"c", "d"}


def test_an_owner_whose_release_was_missed_is_gone_from_a_ledger_before_another_owner() -> None:
    group = Tight(2, fenced=False, max_handoff=2.0, on_deadline=OnDeadline.FORCE).join("a")
    group.settle()
    group.drain("a").settle()
    made = group.join("b").step(at=5)
    assert (group.owners(), len(grants(made))) == ("--", 2)
    group.settle()
    assert group.owners() == "bb"
