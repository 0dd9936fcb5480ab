"""Rule 2: what balanced and settled mean, and when a group is at rest."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import cast

import pytest

from baton.api.group import Approval, GroupRebalance
from baton.engine import Summary, step, summary
from baton.engine.balance import even, evenly_spread, within_one
from baton.engine.draft import Draft
from baton.engine.observation import GroupSpec, HeldBack, ObservedQueue
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.engine.group import Group

# Whether a plan would share out otherwise what members have.


def draft(reads: dict[str, str], has: dict[str, dict[str, int]], exclusive: str = "") -> Draft:
    """`reads`: by member the letters of its queues. `has`: by member and queue, how many partitions."""
    sizes = {queue: sum(of.get(queue, 0) for of in has.values()) for queue in "pqr"}
    group = Group()
    group.queues = {QueueName(queue): ObservedQueue(size, exclusive=queue in exclusive) for queue, size in sizes.items() if size}
    for member, queues in reads.items():
        group.join(member, subscribed=frozenset(map(QueueName, queues)))
    group.settle()
    made = Draft(group.state, group.observe(), 0.0)
    made.eligible = dict(group.members)
    for queue in group.queues:
        numbers = iter(range(sizes[queue]))
        for member, of in has.items():
            for number in (next(numbers) for _ in range(of.get(queue, 0))):
                made.records[Partition(queue, number)] = PartitionRecord(Epoch(1), MemberId(member), MemberId(member))
                made.owned[MemberId(member)].add(Partition(queue, number))
    made.moves.clear()
    return made


@pytest.mark.parametrize(
    ("reads", "has", "is_even", "totals"),
    [
        ({"a": "p", "b": "p"}, {"a": {"p": 2}, "b": {"p": 1}}, True, True),
        ({"a": "p", "b": "p"}, {"a": {"p": 3}, "b": {"p": 1}}, False, False),
        ({"a": "pq", "b": "pq"}, {"a": {"p": 3}, "b": {"q": 3}}, False, True),
        ({"a": "pq", "b": "pq"}, {"a": {"p": 2, "q": 1}, "b": {"p": 1, "q": 2}}, True, True),
        ({"a": "pq", "b": "q"}, {"a": {"p": 3}, "b": {"q": 3}}, True, True),
        ({"a": "pq", "b": "q"}, {"a": {"p": 4, "q": 1}, "b": {"q": 3}}, False, False),
        ({"a": "pq", "b": "qr", "c": "r"}, {"a": {"p": 3}, "b": {"q": 2}, "c": {"r": 1}}, True, True),
        ({"a": "pq", "b": "qr", "c": "r"}, {"a": {"q": 3}, "b": {"r": 2}, "c": {"r": 1}}, False, True),
        ({"a": "p", "b": "p"}, {"a": {"p": 2}}, False, False),
        ({}, {}, True, True),
    ],
)
def test_members_are_even_in_total_and_in_each_queue(
    reads: dict[str, str], has: dict[str, dict[str, int]], is_even: bool, totals: bool
) -> None:
    made = draft(reads, has)
    members = [MemberId(member) for member in reads]
    assert even(made, members) is is_even
    assert within_one(made, members) is totals


def test_exclusive_queues_do_not_count() -> None:
    made = draft({"a": "pq", "b": "pq"}, {"a": {"p": 9, "q": 1}, "b": {"q": 1}}, exclusive="p")
    assert even(made, [MemberId("a"), MemberId("b")])


@pytest.mark.parametrize(("assignor", "spread"), [("solace", False), ("range", True), (None, False)])
def test_only_a_balancing_assignors_plan_must_be_even(assignor: str | None, spread: bool) -> None:
    of = draft({"a": "pq", "b": "pq"}, {"a": {"p": 3}, "b": {"q": 3}})
    assert of.facts is not None
    of.facts = replace(of.facts, assignor=assignor)
    assert evenly_spread(of, of.eligible) is spread


# What may be waited for: a group is settled when nothing moves, waits or is held down, and everybody has what is theirs.


def words(group: Group) -> tuple[bool, bool]:
    """Balanced, settled."""
    whole: Summary = summary(group.state)
    return whole.balanced, whole.settled


def test_a_group_that_has_been_served_is_settled() -> None:
    assert words(Group().start("a", "b")) == (True, True)


def test_a_group_just_read_from_its_ledger_is_not_settled() -> None:
    group = Group().start("a", "b")
    group.state = replace(group.state, view=None)
    assert words(group) == (False, False)


@pytest.mark.parametrize("partitions", [4, 12])
def test_a_group_is_unsettled_in_a_holddown_or_rebalance(partitions: int) -> None:
    group = Group(partitions).start("a", "b").join("c")
    group.settle(at=20)
    assert words(group) == (False, False)
    group.settle(at=25)
    assert words(group) == (False, False)
    group.settle(at=28)
    assert words(group) == (True, True)


def test_a_group_with_waiting_hand_offs_is_unsettled() -> None:
    group = Group(12, GroupSpec(rebalance=GroupRebalance(max_concurrent_handoffs=1))).start("a", "b").join("c")
    group.settle(at=20)
    group.settle(at=25)
    while group.state.waiting:
        assert words(group) == (False, False)
        group.settle(at=group.now + 3)
    group.settle(at=group.now + 3)
    assert words(group) == (True, True)


ORDERS = frozenset({QueueName("orders")})
UNSETTLED: dict[str, tuple[Callable[[], Group], tuple[float, ...]]] = {
    "a proposal": (lambda: Group(spec=GroupSpec(approval=Approval.MANUAL)).start("a", "b").join("c"), (20, 25)),
    "an absent static member": (lambda: static().start().leave("b"), (20,)),
    "a stopping owner": (lambda: Group().start("a", "b").terminate("b"), (20,)),
    "no member yet": (Group, (0,)),
    "no member any more": (lambda: Group().start("a").leave("a"), (20, 25)),
    "no queue": (lambda: with_queues({}).join("a"), (0,)),
    "a queue without readers": (lambda: with_queues({"orders": 4, "pay": 2}).join("a", subscribed=ORDERS), (0, 5)),
}
"""The group, and the times of its steps from then on."""


def static() -> Group:
    return Group(spec=GroupSpec(session_timeout=30)).join("a", instance="a").join("b", instance="b")


def with_queues(sizes: dict[str, int]) -> Group:
    group = Group()
    group.queues = {QueueName(name): ObservedQueue(size) for name, size in sizes.items()}
    return group


@pytest.mark.parametrize("why", UNSETTLED)
def test_a_group_is_neither_balanced_nor_settled_with(why: str) -> None:
    make, times = UNSETTLED[why]
    group = make()
    for at in times:
        group.settle(at)
    assert words(group) == (False, False)


def test_a_paused_group_is_balanced_unless_a_member_waits() -> None:
    group = Group().start("a", "b")
    group.spec = replace(group.spec, paused=True)
    group.settle(at=20)
    assert words(group) == (True, False)
    group.join("c").settle(at=21)
    assert words(group) == (False, False)


@pytest.mark.parametrize("how", [HeldBack.PLANS, HeldBack.ALL])
def test_a_group_without_room_for_a_plan_is_not_settled(how: HeldBack) -> None:
    group = Group().start("a", "b")
    group.held_back = how
    group.settle(at=20)
    assert words(group) == (True, False)


def test_a_group_that_asserts_its_owners_is_not_settled() -> None:
    group = Group(incarnation="1").start("a", "b")
    group.queues = {name: replace(queue, incarnation="2") for name, queue in group.queues.items()}
    group.step(at=20)
    assert words(group) == (True, False), "they go on working"
    group.settle()
    assert words(group) == (True, True)


def test_a_standby_leaves_a_group_settled() -> None:
    group = Group(2).start("a", "b").join("c")
    group.settle(at=20)
    assert words(group) == (True, True)


def test_a_group_with_an_unknown_assignor_is_not_settled() -> None:
    group = Group().start("a", "b")
    group.spec = replace(group.spec, assignors=("example.com/none",))
    group.settle(at=20)
    assert words(group) == (True, False)


def test_an_exclusive_queue_with_several_active_members_is_not_balanced() -> None:
    """The receiver dies, its partitions go back to their givers, and there is no room for the plan that would put that right."""
    group = Group(6).start("a", "b", "c")
    group.queues = {name: replace(queue, exclusive=True) for name, queue in group.queues.items()}
    group.settle(at=20)
    group.settle(at=25)
    group.held_back = HeldBack.PLANS
    group.leave("a").settle(at=26)
    group.settle(at=28)
    assert set(group.owners()) == {"b", "c"}
    assert words(group) == (False, False)
    group.held_back = HeldBack.NOTHING
    group.settle(at=29)
    group.settle(at=34)
    group.settle(at=37)
    assert len(set(group.owners())) == 1
    assert words(group) == (True, True)


@pytest.mark.parametrize("how", ["paused", "no room"])
@pytest.mark.parametrize("partitions", [2, 6])
def test_a_group_with_a_postponed_resize_is_unsettled(how: str, partitions: int) -> None:
    group = Group(4).start("a", "b").resize(partitions)
    if how == "paused":
        group.spec = replace(group.spec, paused=True)
    else:
        group.held_back = HeldBack.PLANS
    group.settle(at=20)
    assert words(group) == (False, False)
    assert (summary(group.state).numbers.partitions, summary(group.state).numbers.unowned) == (partitions, max(0, partitions - 4))


# A group at rest costs what its observation costs: no partition is looked at, however many there are.


class Untouchable(Mapping[Partition, PartitionRecord]):
    """Partitions that must not be read."""

    def __getitem__(self, key: Partition) -> PartitionRecord:
        raise AssertionError(f"{key} was looked at")

    def __iter__(self) -> Iterator[Partition]:
        raise AssertionError("all partitions were looked at")

    def __len__(self) -> int:
        raise AssertionError("all partitions were looked at")


def test_a_step_without_news_reads_no_partition() -> None:
    group = Group(partitions=4).join("a", "b")
    group.settle(at=0)
    group.settle(at=5)
    rest = step(group.state, group.observe(), 6.0).state
    state = replace(rest, records=cast(dict[Partition, PartitionRecord], Untouchable()))
    assert step(state, group.observe(), 7.0).state is state
