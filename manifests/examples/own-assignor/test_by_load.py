"""Run with pytest. `baton plan` checks the contract of an assignor; what it is for is its author's to check."""

from fractions import Fraction

from by_load import assign

from baton.assignors import Member, Request
from baton.model import MemberId, Partition, QueueName

ORDERS, A, B = QueueName("orders"), MemberId("a"), MemberId("b")
READS = frozenset({ORDERS})


def test_the_heaviest_partition_is_alone_where_that_is_more_even() -> None:
    weights = {ORDERS: (Fraction(3), Fraction(1), Fraction(1), Fraction(1))}
    answer = assign(Request({ORDERS: 4}, {A: Member(READS), B: Member(READS)}, weights=weights))
    assert [len(answer.assignment[name]) for name in (A, B)] == [1, 3]


def test_of_equal_members_the_owner_keeps_a_partition() -> None:
    owner = Member(READS, owned=(Partition(ORDERS, 0),))
    assert assign(Request({ORDERS: 1}, {A: Member(READS), B: owner})).assignment[B] == (Partition(ORDERS, 0),)
