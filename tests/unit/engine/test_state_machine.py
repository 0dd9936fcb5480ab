"""The state of a partition, in Solace's four words."""

from dataclasses import replace

from baton.api.group import GroupRebalance
from baton.engine import PartitionState, partition_state, partition_states
from baton.engine.observation import GroupSpec
from tests.unit.engine.group import Group, partition


def words(group: Group) -> list[str]:
    states = partition_states(group.state)
    assert all(partition_state(group.state, each) is state for each, state in states.items())
    return [str(state) for state in states.values()]


def test_new_partitions_are_unassigned_until_the_first_plan() -> None:
    group = Group(2).join("a")
    group.step()
    assert words(group) == ["Unassigned", "Unassigned"]
    group.step(5)
    assert words(group) == ["Unbound", "Unbound"]  # granted in the ledger, not yet taken at the queue
    group.settle()
    assert words(group) == ["Ready", "Ready"]


def test_a_moving_partition_is_paused_until_the_grant() -> None:
    group = Group(2).start("a")
    group.join("b").settle(10)
    group.settle(15)
    assert words(group) == ["Ready", "Paused"]
    group.release("a", 1).step(15.5)
    assert words(group) == ["Ready", "Paused"]
    group.settle()
    assert words(group) == ["Ready", "Ready"]


def test_a_vacant_slots_partition_is_unbound_until_the_slot_lapses() -> None:
    group = Group(2).start("a")
    group.leave("a").settle(10)
    assert words(group) == ["Unbound", "Unbound"]
    group.settle(15)
    assert words(group) == ["Unassigned", "Unassigned"]


def test_a_partition_that_waits_for_its_turn_is_ready() -> None:
    group = Group(4, GroupSpec(rebalance=GroupRebalance(max_concurrent_handoffs=1))).start("a")
    group.join("b").settle(10)
    group.settle(15)
    assert sorted(words(group)) == ["Paused", "Ready", "Ready", "Ready"]


def test_an_owner_that_is_asserted_again_is_ready() -> None:
    group = Group(1, incarnation="first").start("a")
    group.queues = {name: replace(queue, incarnation="second") for name, queue in group.queues.items()}
    group.step(10)
    assert group.state.moves[partition(0)].quiet
    assert words(group) == [PartitionState.READY]
