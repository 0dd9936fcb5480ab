"""A request of `baton plan` is read at a cost that follows from its size."""

import json
import tracemalloc

import pytest

from baton.assignors.fields import RequestError
from baton.cli.plan import parse_request

MANY = 200_000
MEMBER = {"subscribed": ["orders"]}
REQUEST = {"assignor": "range", "queues": {"orders": 6}, "members": {"a": MEMBER}}


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"members": {"a": {"subscribed": [1] * MANY}}}, "members.a.subscribed[0]"),
        ({"members": {"a": MEMBER | {"owned": [1] * MANY}}}, "members.a.owned[0]"),
        ({"zones": {"orders": [1] * MANY}}, "zones.orders[0]"),
        ({"weights": {"orders": ["much"] * MANY}}, "weights.orders[0]"),
    ],
)
def test_the_first_fault_of_a_long_list_is_told_and_the_others_are_not_collected(more: dict[str, object], field: str) -> None:
    line = json.dumps(REQUEST | more)
    tracemalloc.start()
    try:
        with pytest.raises(RequestError) as refused:
            parse_request(line)
        assert tracemalloc.get_traced_memory()[1] < 50 * len(line)
    finally:
        tracemalloc.stop()
    assert str(refused.value).startswith(f"{field}: ")
