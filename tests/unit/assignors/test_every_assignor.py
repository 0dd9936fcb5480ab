"""What holds for each of them."""

from collections.abc import Mapping
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.assignors import Request, UnknownAssignorError, get, names
from tests.ids import a_request
from tests.unit.assignors.worlds import all_partitions, requests

K = TypeVar("K")
V = TypeVar("V")
EVERY_ONE = pytest.mark.parametrize("name", names())


@EVERY_ONE
@given(request_=requests(contested=True, zones=True), shuffle=st.randoms())
def test_each_partition_goes_to_one_of_its_readers_however_members_are_listed(
    name: str, request_: Request, shuffle: Random
) -> None:
    def shuffled(mapping: Mapping[K, V]) -> dict[K, V]:
        items = list(mapping.items())
        shuffle.shuffle(items)
        return dict(items)

    answer = get(name)(request_)
    given_out = [partition for part in (answer.assignment, answer.withheld) for hand in part.values() for partition in hand]
    read = frozenset().union(*(member.subscribed for member in request_.members.values()))
    assert sorted(given_out) == [partition for partition in all_partitions(request_.queues) if partition.queue in read]
    assert all(partition.queue in request_.members[owner].subscribed for partition, owner in answer.owners().items())
    assert answer.assignment.keys() == request_.members.keys()
    assert get(name)(Request(shuffled(request_.queues), shuffled(request_.members), shuffled(request_.zones))) == answer


@EVERY_ONE
def test_without_members_nothing_is_assigned(name: str) -> None:
    assert get(name)(a_request({"orders": 3}, {})).assignment == {}


def test_an_unknown_name_lists_those_that_exist() -> None:
    with pytest.raises(UnknownAssignorError, match=r"no assignor 'stickiest'; choose one of average, .*sticky"):
        get("stickiest")
