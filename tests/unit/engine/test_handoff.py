"""Rules 3 and 5: the hand-off of one partition, and nothing that sticks."""

from dataclasses import replace

from baton.api.group import GroupRebalance, Protocol
from baton.engine import Grant, Pause, State, step, summary
from baton.engine.observation import GroupSpec, ObservedQueue, Outcome
from baton.engine.results import DeadlineMissed, Redirected, Revoked
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.queues.protocol import Ownership
from tests.unit.engine.group import Group, grants, partition, pauses


def handing_off(partitions: int = 2, **queue: object) -> Group:
    """a has everything, b has joined, and the highest half is on its way to b."""
    group = Group(partitions, GroupSpec(delay=2), **queue).start("a")
    group.now = 10
    group.join("b").settle(10)
    group.settle(12)
    group.events.clear()
    return group


def test_only_moving_partitions_are_paused_at_the_givers_epoch() -> None:
    group = handing_off(4)
    done = group.step()
    assert pauses(done) == [2, 3]
    assert {effect.epoch for effect in done.effects} == {1}
    assert done.wake_at == 15


def test_a_pause_names_the_next_owner() -> None:
    group = handing_off()
    (pause,) = group.step().effects
    assert isinstance(pause, Pause) and pause.then == Grant(partition(1), MemberId("b"), Uid("uid-b"), Epoch(2), Epoch(1))


def test_a_grant_has_the_epoch_above_which_the_queues_owner_is_new() -> None:
    group = coming_back()
    (grant,) = group.step(10.4).effects
    assert isinstance(grant, Grant) and (grant.epoch, grant.above) == (4, 1)
    group = Group(1, GroupSpec(delay=0), incarnation="run-1").start("a")
    group.queues[QueueName("orders")] = replace(group.queues[QueueName("orders")], incarnation="run-2")
    (grant,) = group.step(10).effects
    assert isinstance(grant, Grant) and (grant.epoch, grant.above) == (2, None), "it works on"


def test_a_grant_by_the_queue_counts_as_release_and_grant() -> None:
    group = handing_off()
    group.drained.add((partition(1), Epoch(1)))
    group.step(12.5, frozenset({Outcome(partition(1), Ownership(Uid("uid-b"), Epoch(2)))}))
    assert group.owners() == "ab"
    assert group.moved() == ["release 1 a consumer", "grant 1 b 2"]


def granted_at_queue(group: Group, number: int, member: str, epoch: int) -> frozenset[Outcome]:
    """The queue accepted a grant, and the ledger had another receiver, or none, before that was known."""
    group.drained.add((partition(number), Epoch(epoch - 1)))
    return frozenset({Outcome(partition(number), Ownership(Uid(f"uid-{member}"), Epoch(epoch)))})


def test_a_late_grant_of_a_cancelled_hand_off_makes_an_owner() -> None:
    group = handing_off()
    group.terminate("a").terminate("b").settle(12.2)
    assert group.state.moves[partition(1)].receiver is None, "it waits for the next member"
    accepted = granted_at_queue(group, 1, "b", 2)
    group.settle(12.3)
    assert (group.owners(), partition(1) in group.state.moves) == ("a-", False), "a has released it"
    group.events.clear()
    group.step(12.4, accepted)
    assert (group.owners(), group.state.records[partition(1)].epoch) == ("ab", 2)
    assert group.moved() == ["grant 1 b 2"]
    group.step(12.5, accepted)
    assert not group.events, "it is told once"
    assert group.state.holddown is not None, "it is left with who is stopping"
    done = group.step(15)
    assert pauses(done) == [0, 1]
    assert group.moved() == ["revoke 0 a", "revoke 1 b"]


def test_a_late_grant_of_a_redirected_hand_off_is_passed_on() -> None:
    group = handing_off()
    group.terminate("b").settle(12.2)
    assert (group.state.moves[partition(1)].giver, group.state.moves[partition(1)].receiver) == ("a", "a")
    group.events.clear()
    done = group.step(12.3, granted_at_queue(group, 1, "b", 2))
    assert group.owners() == "ab"
    assert group.moved() == ["release 1 a consumer", "grant 1 b 2", "revoke 1 b"]
    (pause,) = done.effects
    assert isinstance(pause, Pause) and pause.then is not None
    assert (pause.epoch, pause.deadline, pause.then.member, pause.then.epoch) == (2, 15.3, "a", 3)
    group.release("b", 1).settle(12.4)
    assert (group.owners(), group.state.records[partition(1)].epoch) == ("aa", 3)


def test_a_late_grant_without_another_receiver_is_kept() -> None:
    group = handing_off()
    group.terminate("a").terminate("b").settle(12.2)
    assert (group.state.moves[partition(1)].giver, group.state.moves[partition(1)].receiver) == ("a", None)
    group.events.clear()
    group.step(12.3, granted_at_queue(group, 1, "b", 2))
    assert (group.owners(), partition(1) in group.state.moves) == ("ab", False)
    assert group.moved() == ["release 1 a consumer", "grant 1 b 2"]


def test_a_late_grant_of_an_unowned_partition_is_passed_on() -> None:
    group = Group(2, GroupSpec(delay=2), max_handoff=3.0).start("a", "b")
    group.join("c").leave("b").step(10)
    assert group.state.moves[partition(1)].receiver == "c", "it takes the slot of b"
    group.terminate("c")
    assert grants(group.step(10.1)) == [(1, "a", 3)]
    group.events.clear()
    late = frozenset({Outcome(partition(1), Ownership(Uid("uid-c"), Epoch(2)))})
    done = group.step(10.2, late)
    assert (group.owners(), group.moved()) == ("ac", ["grant 1 c 2", "revoke 1 c"])
    (pause,) = done.effects
    assert isinstance(pause, Pause) and pause.then is not None
    assert (pause.epoch, pause.deadline, pause.then.member, pause.then.epoch) == (2, 13.2, "a", 3)
    before = group.state
    group.step(10.3, late)
    assert group.state == before, "it is told once"
    group.release("c", 1).settle(10.4)
    assert (group.owners(), group.state.records[partition(1)].epoch) == ("aa", 3)


def test_an_answer_to_an_earlier_grant_makes_no_owner() -> None:
    group = Group(2, GroupSpec(delay=2)).start("a", "b")
    group.step_aside("b").step(10)
    group.come_back("b").terminate("b").join("c")
    assert grants(group.step(10.1)) == [(1, "c", 2)]
    before = group.state
    group.step(10.2, frozenset({Outcome(partition(1), Ownership(Uid("uid-b"), Epoch(1)))}))
    assert group.state == before


def test_a_late_grant_at_a_restarted_server_is_repeated_without_a_pause() -> None:
    group = handing_off(incarnation="run-1")
    group.queues[QueueName("orders")] = replace(group.queues[QueueName("orders")], incarnation="run-2")
    group.step(12.1)
    assert group.state.moves[partition(1)].epoch == 3
    group.events.clear()
    done = group.step(12.2, granted_at_queue(group, 1, "b", 2))
    assert (group.owners(), pauses(done)) == ("ab", [])
    assert grants(done) == [(0, "a", 2)]
    assert group.moved() == ["release 1 a consumer", "grant 1 b 2"]
    group.settle(12.3)
    assert (group.owners(), group.state.records[partition(1)].epoch, group.state.totals.moves) == ("ab", 2, 1)


def test_a_late_grant_whose_receiver_is_chosen_again_keeps_its_epoch() -> None:
    group = Group(2, GroupSpec(delay=0))
    assert grants(group.join("a").step(0)) == [(0, "a", 1), (1, "a", 1)]
    assert grants(group.join("b").step(0.1)) == [(0, "a", 1), (1, "b", 2)]
    assert grants(group.leave("b").step(0.2)) == [(0, "a", 1), (1, "a", 3)]
    done = group.step(0.3, granted_at_queue(group, 1, "a", 1))
    assert (pauses(done), grants(done)) == ([], [(0, "a", 1)]), "its reads at that epoch are still accepted"
    assert partition(1) not in group.state.moves
    group.settle(0.4)
    assert (group.owners(), group.state.records[partition(1)].epoch) == ("aa", 1)
    group.join("b").step(0.5)
    group.settle(0.6)
    group.release("a", 1).settle(0.7)
    assert (group.owners(), group.state.records[partition(1)].epoch) == ("ab", 4), "b had 2 in the ledger"
    assert not group.state.epoch_tombstones


def coming_back() -> Group:
    """a had the partition at epoch 1, and went. It came back and was granted it again at 2, which has no answer yet. Then b was
    to have it at 3, and now a again at 4."""
    group = Group(1, GroupSpec(delay=0)).start("a")
    group.step_aside("a").step(10)
    assert grants(group.come_back("a").step(10.1)) == [(0, "a", 2)]
    assert grants(group.step_aside("a").join("b").step(10.2)) == [(0, "b", 3)]
    assert grants(group.leave("b").come_back("a").step(10.3)) == [(0, "a", 4)]
    group.events.clear()
    return group


def test_a_last_owner_keeps_the_epoch_of_a_late_grant() -> None:
    group = coming_back()
    late = frozenset({Outcome(partition(0), Ownership(Uid("uid-a"), Epoch(2)))})
    done = group.step(10.4, late)
    assert (group.owners(), done.effects, group.moved()) == ("a", (), ["grant 0 a 2"]), "it is not shut out"
    before = group.state
    assert group.step(10.5, late).effects == () and group.state == before, "it is told once"
    group.step_aside("a").step(11)
    assert grants(group.come_back("a").step(11.1)) == [(0, "a", 5)], "the others stood in the ledger"


def test_the_last_owners_old_epoch_is_no_grant_of_the_next_hand_off() -> None:
    group = coming_back()
    before = group.state
    done = group.step(10.4, frozenset({Outcome(partition(0), Ownership(Uid("uid-a"), Epoch(1)))}))
    assert (grants(done), group.state) == ([(0, "a", 4)], before)


def test_no_epoch_of_the_ledger_is_reused_after_a_late_grant() -> None:
    group = coming_back()
    group.terminate("a").step(10.4)
    assert (group.owners(), group.state.moves) == ("-", {})
    group.step(10.5, frozenset({Outcome(partition(0), Ownership(Uid("uid-a"), Epoch(2)))}))
    assert group.owners() == "a"
    (pause,) = group.join("c").step(10.6).effects
    assert isinstance(pause, Pause) and pause.then is not None
    assert (pause.epoch, pause.then.member, pause.then.epoch) == (2, "c", 5)


def test_a_late_answer_after_the_release_makes_no_owner() -> None:
    group = handing_off(max_handoff=0.0)
    group.terminate("a").terminate("b")
    group.step(12.1, granted_at_queue(group, 1, "b", 2))
    group.settle(15)
    assert group.owners() == "--"
    before = group.state
    group.step(15.1, granted_at_queue(group, 1, "b", 2))
    assert group.state == before


def test_the_givers_own_grant_ends_no_hand_off() -> None:
    group = handing_off()
    before = group.state
    group.step(12.2, frozenset({Outcome(partition(1), Ownership(Uid("uid-a"), Epoch(1)))}))
    assert group.state == before


def test_a_fenced_grant_or_a_vanished_receiver_makes_no_owner() -> None:
    group = handing_off()
    group.terminate("b").settle(12.2)
    late = granted_at_queue(group, 1, "b", 2)
    group.release("a", 1).settle(12.3)
    assert (group.owners(), group.state.records[partition(1)].epoch) == ("aa", 3)
    before = group.state
    group.step(12.4, late)
    assert group.state.records == before.records and group.state.moves == before.moves
    group = handing_off()
    group.leave("b").settle(12.2)
    group.step(12.3, granted_at_queue(group, 1, "b", 2))
    assert group.state.records[partition(1)].owner == "a"


def test_a_late_answer_of_an_unfenced_queue_makes_no_owner() -> None:
    group = handing_off(fenced=False)
    group.terminate("a").terminate("b").settle(12.2)
    group.step(12.3, granted_at_queue(group, 1, "b", 2))
    assert group.owners() == "a-"


def test_the_ledger_has_a_move_before_it_is_paused() -> None:
    group = handing_off()
    flight = next(iter(summary(group.state).in_flight.values()))
    assert (flight.giver, flight.receiver, flight.epoch, flight.deadline) == ("a", "b", 2, 15)
    assert flight.why == "b joined"


def test_a_drained_partition_is_granted() -> None:
    group = handing_off()
    group.drained.add((partition(1), Epoch(1)))
    assert grants(group.step(12.5)) == [(1, "b", 2)]


def test_a_drain_report_of_another_epoch_frees_nothing() -> None:
    group = handing_off()
    group.drained.add((partition(1), Epoch(2)))
    assert grants(group.step(12.5)) == []


def test_a_refused_grant_is_repeated_above_the_record() -> None:
    group = handing_off()
    group.records[partition(1)] = Ownership(Uid("stranger"), Epoch(40))
    group.release("a", 1).settle(12.5)
    assert group.records[partition(1)] == ("uid-b", 41, False)
    assert group.state.records[partition(1)].epoch == 41


def test_a_grant_is_repeated_until_its_outcome_is_seen() -> None:
    group = handing_off()
    group.release("a", 1)
    assert grants(group.step(12.5)) == grants(group.step(13)) == [(1, "b", 2)]
    done = group.step(14, frozenset({Outcome(partition(1), Ownership(Uid("uid-b"), Epoch(2)))}))
    assert done.effects == ()


def test_a_move_that_was_replanned_goes_to_the_new_receiver() -> None:
    group = handing_off(3)
    group.now = 12.5
    group.join("c").step(12.5)
    group.settle(14.5)
    receivers = {flight.receiver for flight in summary(group.state).in_flight.values()}
    assert receivers == {"b", "c"}
    for number in (1, 2):
        group.release("a", number)
    group.settle(14.6)
    assert sorted(group.owners()) == ["a", "b", "c"]
    assert group.state.totals.moves == group.state.totals.lower_bound == 2


def test_eager_grants_nothing_before_everything_is_released() -> None:
    group = Group(4, GroupSpec(delay=0, protocol=Protocol.EAGER)).start("a", "b")
    group.now = 10
    group.join("c").settle(10)
    assert pauses(done := group.step()) == [0, 1, 2, 3]
    assert {effect.then for effect in done.effects if isinstance(effect, Pause)} == {None}
    for name, number in (("a", 0), ("b", 1), ("a", 2)):
        group.release(name, number)
    assert grants(group.step(11)) == []
    group.release("b", 3).settle(11.5)
    assert group.owners() == "abac"
    assert group.state.totals.moves == 1
    assert all(record.epoch == 2 for record in group.state.records.values())


def test_a_paused_group_finishes_and_begins_nothing() -> None:
    group = Group(8, GroupSpec(delay=0, rebalance=GroupRebalance(max_concurrent_handoffs=1))).start("a")
    group.now = 10
    group.join("b").settle(10)
    group.spec = replace(group.spec, paused=True)
    group.release("a", 4).settle(11)
    assert group.owners() == "aaaabaaa"
    assert group.step(12).effects == ()
    assert summary(group.state).state is State.PAUSED
    group.spec = replace(group.spec, paused=False)
    assert pauses(group.step(13)) == [5]


def test_a_step_at_rest_returns_the_same_state() -> None:
    group = Group().start("a", "b")
    state = group.step(60).state
    assert step(state, group.observe(), 61).state is state


def test_a_pod_that_drops_an_unfenced_queue_is_waited_for() -> None:
    group = Group(2, GroupSpec(delay=0), fenced=False)
    group.queues[QueueName("pay")] = ObservedQueue(1)
    group.start("a", "b")
    holder = group.owners()[0]
    group.members[MemberId(holder)] = replace(group.members[MemberId(holder)], subscribed=frozenset({QueueName("pay")}))
    before = group.owners()
    group.settle(10)
    assert group.owners() == before, "it may still be at work there"
    assert any(word == f"revoke 0 {holder}" for word in group.moved())
    group.release(holder, 0).settle(11)
    assert holder not in group.owners()


def test_a_deadline_from_a_fast_clock_is_bounded_by_its_length() -> None:
    group = handing_off()
    assert group.step(4).wake_at == 7  # the next operator's clock is eight seconds behind


def test_events_name_the_receiver_of_a_hand_off() -> None:
    group = Group(4).start("a", "b")
    group.join("c").settle(100)
    (revoked,) = [one for one in group.settle(105).events if isinstance(one, Revoked)]
    assert (revoked.member, revoked.receiver, revoked.why) == ("b", "c", "c joined")
    turned = Redirected(partition(3), MemberId("b"), MemberId("b"), MemberId("c"), "c is gone")
    assert turned in group.leave("c").step(106).events


def test_a_lost_hand_off_returns_to_its_giver_while_paused() -> None:
    group = handing_off()
    group.spec = replace(group.spec, paused=True)
    group.leave("b").settle(13)
    group.release("a", 1).settle(14)
    assert group.owners() == "aa"


def test_a_giver_that_misses_the_deadline_of_what_comes_back_to_it_is_granted_it_again() -> None:
    group = handing_off()
    group.leave("b").settle(13)
    group.settle(group.step(13).wake_at)
    assert [one for one in group.events if isinstance(one, DeadlineMissed)] == [
        DeadlineMissed(partition(1), MemberId("a"), taken=False, again=True)
    ]
    assert group.owners() == "aa"
    assert group.records[partition(1)].epoch > 1


def test_a_move_in_the_last_step_of_a_rebalance_counts_for_the_next() -> None:
    group = Group(4, GroupSpec(delay=0)).start("a", "b")
    group.join("c").step(60)
    [grant] = [effect for effect in group.release("b", 3).step(61).effects if isinstance(effect, Grant)]
    group.leave("c").step(62, outcomes=frozenset({group.carry_out(grant)}))
    group.settle(63)
    assert group.owners() == "abab"
    assert group.state.totals.moves == group.state.totals.lower_bound == 2
