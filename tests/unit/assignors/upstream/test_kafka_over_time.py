"""Kafka's tests that follow a group over several rebalances, for the sticky assignors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from baton.assignors import Member, Request, get
from baton.model import MemberId, Partition
from tests.ids import by_queue, reading

STICKY = pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])

Hands = Mapping[str, frozenset[Partition]]
Held = Mapping[MemberId, set[Partition]]


class Fleet:
    """A group whose members carry out what is assigned: what they let go of, then what was withheld until then."""

    def __init__(self, assignor: str, queues: dict[str, int]) -> None:
        self.assignor = assignor
        self.queues = by_queue(queues)
        self.members: dict[MemberId, Member] = {}
        self.generation = 0

    def join(self, name: str, *queues: str, owned: frozenset[Partition] = frozenset(), generation: int = -1) -> None:
        self.members[MemberId(name)] = Member(reading(*queues), tuple(sorted(owned)), generation)

    def leave(self, *names: str) -> None:
        for name in names:
            del self.members[MemberId(name)]

    def rebalance(self) -> Hands:
        """What everybody has when nothing is withheld any more."""
        self.generation += 1
        for _ in range(4):
            before = {name: set(member.owned) for name, member in self.members.items()}
            answer = get(self.assignor)(Request(self.queues, self.members))
            self._check_moves(before, answer.owners())
            if self.assignor == "cooperative-sticky":
                _nobody_gets_what_another_has(before, answer.assignment)
            for name, hand in answer.assignment.items():
                self.members[name] = replace(self.members[name], owned=hand, generation=self.generation)
            if not answer.withheld:
                break
        else:
            pytest.fail("something is always withheld")
        hands: Hands = {name: frozenset(member.owned) for name, member in self.members.items()}
        self._check(hands)
        return hands

    def _check_moves(self, before: Held, owners: Mapping[Partition, MemberId]) -> None:
        """No two members that could have kept theirs swap partitions of one queue."""
        newest = max(member.generation for member in self.members.values())
        moves = {
            (partition.queue, name, owners[partition])
            for name, held in before.items()
            for partition in held
            if self.members[name].generation == newest
            and partition in owners
            and owners[partition] != name
            and partition.queue in self.members[name].subscribed
        }
        assert not [move for move in moves if (move[0], move[2], move[1]) in moves]

    def _check(self, hands: Hands) -> None:
        """Everything that is read has one owner, which reads it; no single move makes two members more even."""
        read = frozenset().union(*(member.subscribed for member in self.members.values())) & self.queues.keys()
        everything = [Partition(queue, number) for queue in sorted(read) for number in range(self.queues[queue])]
        assert sorted(partition for hand in hands.values() for partition in hand) == everything
        for name, hand in hands.items():
            queues = {partition.queue for partition in hand}
            assert queues <= self.members[MemberId(name)].subscribed
            for other, member in self.members.items():
                assert not queues & member.subscribed or len(hand) - len(hands[other]) <= 1


def _nobody_gets_what_another_has(before: Held, assignment: Mapping[MemberId, Sequence[Partition]]) -> None:
    for name, hand in assignment.items():
        for partition in set(hand) - before[name]:
            assert all(partition not in held for held in before.values())


def sizes(hands: Hands, queue: str | None = None) -> list[int]:
    return sorted(sum(queue in (None, partition.queue) for partition in hand) for hand in hands.values())


@STICKY
def test_a_second_queue_is_shared_and_nobody_loses_what_it_had(assignor: str) -> None:
    fleet = Fleet(assignor, {"a": 3})
    fleet.join("c1", "a")
    fleet.join("c2", "a")
    first = fleet.rebalance()
    assert sizes(first) == [1, 2]
    fleet.queues = by_queue({"a": 3, "b": 3})
    fleet.members = {name: replace(member, subscribed=reading("a", "b")) for name, member in fleet.members.items()}
    second = fleet.rebalance()
    assert sizes(second) == [3, 3]
    assert all(first[name] <= second[name] for name in first)
    fleet.queues = by_queue({"b": 3})
    fleet.members = {name: replace(member, subscribed=reading("b")) for name, member in fleet.members.items()}
    third = fleet.rebalance()
    assert sizes(third) == [1, 2]
    assert all(third[name] <= second[name] for name in third)


@STICKY
def test_each_queue_stays_even_while_members_come_and_go(assignor: str) -> None:
    fleet = Fleet(assignor, {"a": 12, "b": 12})
    for come, go, share in (("1", "", 12), ("2", "", 6), ("34", "", 3), ("", "12", 6)):
        for name in come:
            fleet.join(name, "a", "b")
        fleet.leave(*go)
        hands = fleet.rebalance()
        assert set(sizes(hands, "a")) == set(sizes(hands, "b")) == {share}


@STICKY
def test_a_member_without_anything_takes_over_and_nobody_else_moves(assignor: str) -> None:
    fleet = Fleet(assignor, {"a": 3})
    for name in ("c1", "c2", "c3", "c4"):
        fleet.join(name, "a")
    before = fleet.rebalance()
    assert sizes(before) == [0, 1, 1, 1]
    fleet.leave("c1")
    after = fleet.rebalance()
    assert sizes(after) == [1, 1, 1]
    assert all(before[name] <= after[name] for name in after)


@STICKY
def test_nineteen_nested_subscriptions_lose_one(assignor: str) -> None:
    fleet = Fleet(assignor, {f"t{place:02}": place for place in range(1, 20)})
    for place in range(1, 20):
        fleet.join(f"c{place:02}", *(f"t{queue:02}" for queue in range(1, place + 1)))
    before = fleet.rebalance()
    fleet.leave("c10")
    after = fleet.rebalance()
    lost = len(before["c10"])
    assert sum(len(before[name] - after[name]) for name in after) <= lost


@STICKY
def test_one_of_eight_members_of_fourteen_queues_goes(assignor: str) -> None:
    fleet = Fleet(assignor, {f"t{place:02}": place for place in range(1, 15)})
    for place in range(1, 9):
        fleet.join(f"c{place}", *fleet.queues)
    before = fleet.rebalance()
    fleet.leave("c5")
    after = fleet.rebalance()
    assert sizes(after) == [15] * 7
    assert all(before[name] <= after[name] for name in after)


@STICKY
@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "different subscriptions"])
def test_a_member_comes_back_with_claims_of_an_old_generation(assignor: str, equal: bool) -> None:
    fleet = Fleet(assignor, {"a": 6, "b": 6})
    fleet.join("c1", "a", "b")
    fleet.join("c2", *("ab" if equal else "a"))
    fleet.join("c3", "a", "b")
    first = fleet.rebalance()
    assert sizes(first) == [4, 4, 4]
    fleet.leave("c3")
    second = fleet.rebalance()
    assert sizes(second) == [6, 6]
    assert first["c2"] <= second["c2"]
    assert second["c2"] & first["c3"]
    fleet.leave("c1")
    fleet.join("c3", "a", "b", owned=first["c3"], generation=1)
    assert sizes(fleet.rebalance()) == [6, 6]


@STICKY
@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "different subscriptions"])
def test_two_members_come_back_after_one_had_everything(assignor: str, equal: bool) -> None:
    reads = {"c1": "abc" if equal else "a", "c2": "abc", "c3": "abc" if equal else "ab"}
    fleet = Fleet(assignor, {"a": 4, "b": 4, "c": 4})
    for name, queues in reads.items():
        fleet.join(name, *queues)
    first = fleet.rebalance()
    assert sizes(first) == [4, 4, 4]
    fleet.leave("c1", "c3")
    assert first["c2"] <= fleet.rebalance()["c2"]
    for name in ("c1", "c3"):
        fleet.join(name, *reads[name], owned=first[name], generation=1)
    assert sizes(fleet.rebalance()) == [4, 4, 4]


@STICKY
@pytest.mark.parametrize("seed", range(10))
def test_subscriptions_that_change_at_random_swap_nothing_within_a_queue(assignor: str, seed: int) -> None:
    dice = Random(seed)
    names = [f"c{place:02}" for place in range(dice.randint(20, 40))]
    fleet = Fleet(assignor, {f"t{place:02}": place + 1 for place in range(dice.randint(10, 20))})
    for name in names:
        fleet.join(name, *dice.sample(sorted(fleet.queues), dice.randint(1, len(fleet.queues))))
    fleet.rebalance()
    for name in names:
        queues = reading(*dice.sample(sorted(fleet.queues), dice.randint(1, len(fleet.queues))))
        fleet.members[MemberId(name)] = replace(fleet.members[MemberId(name)], subscribed=queues)
    fleet.rebalance()
