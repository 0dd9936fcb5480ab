"""Whether a plan would share out otherwise what members have."""

from dataclasses import replace

import pytest

from baton.engine.balance import even, evenly_spread, within_one
from baton.engine.draft import Draft
from baton.engine.observation import ObservedQueue
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.engine.group import Group


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
def test_members_are_even_in_total_and_in_each_queue_as_far_as_they_read_it(
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
def test_what_an_assignor_planned_is_evenly_spread_unless_it_makes_balances(assignor: str | None, spread: bool) -> None:
    of = draft({"a": "pq", "b": "pq"}, {"a": {"p": 3}, "b": {"q": 3}})
    assert of.facts is not None
    of.facts = replace(of.facts, assignor=assignor)
    assert evenly_spread(of, of.eligible) is spread
