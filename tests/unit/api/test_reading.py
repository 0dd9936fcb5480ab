"""Statuses that another release has written, or anybody who may: what reads is read, and what does not is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.api import ConsumerGroupStatus, PartitionedQueueStatus
from baton.api.reading import LONGEST_MISTAKE, read_what_can_be

READY = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-11-22T12:00:00Z"}
MOVE = {"queue": "orders", "partition": 1, "from": "a", "to": "b", "epoch": 2}
WORDS = [
    "state",
    "members",
    "conditions",
    "type",
    "status",
    "handoffs",
    "queue",
    "proposal",
    "members",
    "id",
    "moves",
    "Ready",
    "x",
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS) | st.sampled_from([READY, MOVE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(raw=ANYTHING)
@pytest.mark.parametrize("model", [ConsumerGroupStatus, PartitionedQueueStatus])
def test_whatever_stands_there_it_is_read_as_far_as_can_be(model: type[ConsumerGroupStatus], raw: Any) -> None:
    status, mistake = read_what_can_be(model, raw, "status")
    assert isinstance(status, model)
    assert mistake is None or (mistake.startswith("status") and len(mistake) <= LONGEST_MISTAKE)


def test_of_a_list_only_the_items_that_do_not_read_are_left_out() -> None:
    raw = {
        "members": "many",
        "handoffs": [{**MOVE, "epoch": "x", "from": 3}, MOVE, {}, {**MOVE, "partition": 2}],
        "conditions": [READY],
    }
    status, mistake = read_what_can_be(ConsumerGroupStatus, raw, "status")
    assert mistake == "status.members: expected a whole number, found 'many'"
    assert [move.partition for move in status.handoffs] == [1, 2]
    assert [one.type for one in status.conditions] == ["Ready"] and "members" not in status.model_fields_set


def test_a_list_that_is_none_and_a_part_without_what_it_needs_are_left_out_whole() -> None:
    status, mistake = read_what_can_be(ConsumerGroupStatus, {"conditions": 3, "proposal": {"id": "1"}, "moves": 4}, "status")
    assert mistake is not None and "conditions" not in status.model_fields_set
    assert status.proposal is None and status.moves == 4
