"""Plans that wait for a person's approval."""

from dataclasses import replace

import pytest

from baton.api.group import Approval, GroupRebalance, Protocol
from baton.engine import State, dump, load
from baton.engine.observation import GroupSpec
from baton.engine.results import ApprovalRefused, Approved, Granted, Proposed, Withdrawn
from baton.engine.state_machine import state_of
from baton.model.ids import MemberId
from tests.unit.engine.group import Group, grants, partition, pauses

MANUAL = GroupSpec(approval=Approval.MANUAL)


def proposed(group: Group) -> str:
    assert group.state.proposal is not None
    return group.state.proposal.id


def with_proposal(spec: GroupSpec = MANUAL) -> Group:
    """a and b have two partitions each, c has joined, and one is to go to it."""
    group = Group(4, spec).start("a", "b")
    group.join("c").settle(100)
    group.settle(105)
    return group


def test_first_grants_need_no_approval() -> None:
    assert Group(4, MANUAL).start("a", "b").owners() == "abab"


def test_a_plan_that_moves_owned_partitions_is_only_proposed() -> None:
    group = with_proposal()
    assert group.owners() == "abab"
    assert group.state.moves == {} and group.state.waiting == {}
    assert state_of(group.state) is State.READY
    assert group.state.proposal is not None
    assert dict(group.state.proposal.receivers) == {partition(3): "c"}
    assert [h for h in group.events if isinstance(h, Proposed)] == [Proposed(proposed(group), 1, "c joined")]


def test_an_approved_proposal_is_carried_out() -> None:
    group = with_proposal()
    group.approved = wanted = proposed(group)
    done = group.step(200)
    assert pauses(done) == [3]
    assert done.events[:1] == (Approved(wanted, 1),)
    assert group.state.proposal is None
    group.release("b", 3)
    assert grants(group.settle()) == []
    assert group.owners() == "abac"
    assert group.state.totals.moves == group.state.totals.lower_bound == 1


def test_an_old_approval_approves_no_later_proposal() -> None:
    group = with_proposal()
    group.approved = proposed(group)
    group.settle(200)
    group.release("b", 3).settle()
    group.leave("c").settle(300)  # back to where it was before
    group.settle(305)
    assert "c" not in group.owners()
    before = group.owners()
    group.join("c").settle(400)
    group.settle(405)
    assert group.state.proposal is not None
    assert group.owners() == before
    assert not any(isinstance(h, ApprovalRefused) for h in group.events)


@pytest.mark.parametrize("known", [True, False])
def test_an_approval_of_another_id_is_refused_once(known: bool) -> None:
    group = with_proposal() if known else Group(4, MANUAL).start("a", "b")
    current = group.state.proposal.id if group.state.proposal else None
    group.approved = "monday"
    assert group.step(200).events == (ApprovalRefused("monday", current),)
    assert group.step(201).events == ()
    assert group.owners() == "abab"


def test_a_proposal_without_its_receiver_is_withdrawn() -> None:
    group = with_proposal()
    old = proposed(group)
    group.leave("c").join("d")
    done = group.step(110)
    assert Withdrawn(old, "it no longer fits the fleet and its partitions") in done.events
    assert state_of(group.state) is State.HOLDDOWN
    group.approved = old
    assert ApprovalRefused(old, None) in group.step(111).events
    group.settle(115)
    assert group.state.proposal is not None
    assert set(group.state.proposal.receivers.values()) == {"d"}
    assert proposed(group) != old


def test_a_receiver_with_another_uid_is_another_proposal() -> None:
    group = with_proposal()
    old = proposed(group)
    group.leave("c").join("c", uid="another").settle(110)
    group.settle(115)
    assert proposed(group) != old


def test_a_proposal_can_be_approved_during_a_holddown() -> None:
    group = with_proposal()
    wanted = proposed(group)
    group.join("d").settle(110)
    assert state_of(group.state) is State.HOLDDOWN
    assert proposed(group) == wanted
    group.approved = wanted
    assert pauses(group.step(111)) == [3]
    group.release("b", 3).settle()
    group.settle(115)
    assert group.owners() == "abac"
    assert group.state.proposal is not None
    assert dict(group.state.proposal.receivers) == {partition(2): "d"}


def test_a_new_plan_replaces_the_proposal() -> None:
    group = with_proposal()
    old = proposed(group)
    group.join("d").settle(110)
    group.events.clear()
    group.settle(115)
    assert [h for h in group.events if isinstance(h, Proposed)] == [Proposed(proposed(group), 2, "d joined", instead_of=old)]


def test_the_same_plan_again_is_the_same_proposal() -> None:
    group = with_proposal()
    before = group.state.proposal
    group.request = "again"
    group.settle(110)
    group.events.clear()
    group.settle(115)
    assert group.state.proposal == before
    assert not any(isinstance(h, Proposed) for h in group.events)


def test_a_manual_request_is_answered_with_a_proposal() -> None:
    group = Group(4).start("a", "b")
    group.spec = replace(MANUAL, assignors=("range",))
    group.settle(50)
    group.settle(55)
    assert group.owners() == "abab"
    assert group.state.proposal is not None
    assert group.state.proposal.receivers.keys() == {partition(1), partition(2)}


def test_unowned_partitions_are_placed_without_approval() -> None:
    group = Group(6, MANUAL).start("a", "b", "c")
    assert group.owners() == "abcabc"
    group.leave("c").join("d", "e").settle(100)
    group.settle(105)
    assert set(group.owners()) == {"a", "b", "d", "e"}
    assert [n for n, owner in enumerate(group.owners()) if owner in "ab"] == [0, 1, 3, 4]


def test_a_proposed_receiver_takes_over_a_vacant_slot() -> None:
    group = with_proposal()
    group.leave("b").settle(110)
    assert group.owners() == "acac"


def test_a_stopping_pod_does_not_wait_for_approval() -> None:
    group = Group(4, MANUAL).start("a", "b")
    group.terminate("b").settle(100)
    done = group.settle(105)
    assert pauses(done) == [1, 3]
    assert group.state.proposal is None


def test_a_queue_that_grows_or_shrinks_does_not_wait_for_approval() -> None:
    group = Group(4, MANUAL).start("a", "b")
    group.resize(6).settle(100)
    assert group.owners() == "ababab"
    assert pauses(group.resize(4).step(101)) == [4, 5]


def test_a_restart_keeps_the_proposal() -> None:
    group = with_proposal()
    again = load(dump(group.state))
    assert again.proposal == group.state.proposal
    assert group.step(500).events == ()


def test_turning_to_automatic_carries_the_proposal_out() -> None:
    group = with_proposal()
    group.spec = GroupSpec()
    assert pauses(group.step(200)) == [3]
    assert group.state.proposal is None


def test_a_proposal_approved_in_a_pause_is_carried_out_after_it() -> None:
    group = with_proposal()
    group.spec = replace(MANUAL, paused=True)
    group.step(150)
    group.approved = proposed(group)
    assert pauses(group.step(160)) == []
    group.spec = MANUAL
    assert pauses(group.step(170)) == [3]


def test_an_overtaken_proposal_is_withdrawn_while_paused() -> None:
    group = with_proposal()
    group.spec = replace(MANUAL, paused=True)
    group.leave("c").step(150)
    assert group.state.proposal is None


def test_eager_revokes_everything_only_after_approval() -> None:
    group = with_proposal(replace(MANUAL, protocol=Protocol.EAGER))
    assert group.state.moves == {}
    group.approved = proposed(group)
    assert pauses(group.step(200)) == [0, 1, 2, 3]


def test_waiting_moves_need_no_second_approval() -> None:
    spec = replace(MANUAL, rebalance=GroupRebalance(max_concurrent_handoffs=1))
    group = Group(8, spec, max_handoff=60.0).start("a", "b")
    group.join("c").settle(100)
    group.settle(105)
    group.approved = proposed(group)
    assert len(pauses(group.step(110))) == 1
    rest = dict(group.state.waiting)
    assert rest
    group.request = "now"
    group.settle(111)
    group.settle(116)
    assert group.state.proposal is None
    assert dict(group.state.waiting) == rest


def test_a_proposals_id_is_deterministic() -> None:
    assert proposed(with_proposal()) == proposed(with_proposal())


def test_a_proposed_receiver_is_not_active() -> None:
    group = with_proposal()
    assert not group.state.known[MemberId("c")].active
    assert not [h for h in group.events if isinstance(h, Granted)]


def test_a_queue_that_grows_overtakes_a_proposal() -> None:
    """The new partitions go to the member that was to get the proposed ones: then there is nothing to move any more."""
    group = with_proposal()
    group.resize(5).settle(110)
    assert group.owners() == "ababc"
    assert group.state.proposal is None
    group.settle(115)
    assert group.state.proposal is None


def test_eager_pauses_nothing_for_unowned_partitions() -> None:
    group = Group(4, replace(MANUAL, protocol=Protocol.EAGER)).start("a", "b")
    group.leave("b").settle(100)
    assert pauses(group.settle(105)) == []
    assert group.owners() == "aaaa"


def test_a_proposal_is_withdrawn_if_its_queue_becomes_exclusive() -> None:
    group = with_proposal()
    group.approved = proposed(group)
    group.queues = {name: replace(queue, exclusive=True) for name, queue in group.queues.items()}
    group.settle(200)
    assert group.state.moves == {}
    assert [type(h) for h in group.events if isinstance(h, Approved | Withdrawn)] == [Withdrawn]


def test_a_plan_after_a_pause_counts_all_its_moves() -> None:
    """b comes back in a pause, and before it has its partitions again a plan gives half of them to a newcomer."""
    group = Group(4, MANUAL).start("b").leave("b")
    group.spec = replace(MANUAL, paused=True)
    group.settle(100)
    group.join("b", "c").settle(101)
    group.spec = MANUAL
    group.settle(102)
    assert group.owners() == "bbcc"
    assert group.state.totals.moves == group.state.totals.lower_bound == 2


def test_a_partly_proposed_plan_counts_what_it_moved() -> None:
    group = Group(6, MANUAL).start("a", "b", "c").leave("c")
    group.settle(100)
    group.settle(105)
    assert group.state.totals.moves == group.state.totals.lower_bound == 2
    group.join("d").settle(200)
    group.settle(205)
    assert group.state.totals.lower_bound == 2
    group.approved = proposed(group)
    group.settle(210)
    group.settle(213)
    assert group.state.totals.moves == group.state.totals.lower_bound == 4
