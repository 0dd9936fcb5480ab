"""Run with pytest. `baton plan` checks the contract of an assignor; what it is for is its author's to check."""

from fractions import Fraction

from by_load import assign

from baton.assignors import Member, Request
from baton.model import Partition

READS = frozenset({"orders"})


def test_the_heaviest_partition_is_alone_where_that_is_more_even() -> None:
    weights = {"orders": (Fraction(3), Fraction(1), Fraction(1), Fraction(1))}
    answer = assign(Request({"orders": 4}, {"a": Member(READS), "b": Member(READS)}, weights=weights))
    assert [len(answer.assignment[name]) for name in "ab"] == [1, 3]


def test_of_equal_members_the_owner_keeps_a_partition() -> None:
    owner = Member(READS, owned=(Partition("orders", 0),))
    assert assign(Request({"orders": 1}, {"a": Member(READS), "b": owner})).assignment["b"] == (Partition("orders", 0),)
