"""A member's key of the ledger, and partitions as short text."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.model import Epoch, MemberId, Uid, format_grants, format_numbers, parse_grants, parse_numbers
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.ranges import GrantSpans, count_named
from tests.ids import by_queue, epochs

ENTRY = MemberEntry(
    group="shop/orders",
    member=MemberId("orders-exec-3"),
    uid=Uid("u-1"),
    generation=17,
    active=True,
    owned=by_queue({"orders": epochs({0: 12, 1: 12, 7: 17})}),
    revoking=by_queue({"orders": epochs({5: 12})}),
)


def test_an_entry_has_the_documented_form() -> None:
    assert json.loads(ENTRY.to_json()) == {
        "group": "shop/orders",
        "member": "orders-exec-3",
        "uid": "u-1",
        "generation": 17,
        "active": True,
        "owned": {"orders": "0-1@12,7@17"},
        "revoking": {"orders": "5@12"},
    }


def test_an_entry_survives_being_written_and_read() -> None:
    assert MemberEntry.from_json(ENTRY.to_json()) == ENTRY


def test_a_queue_without_partitions_is_left_out() -> None:
    standby = MemberEntry("shop/orders", MemberId("m"), Uid("u"), 1, active=False, owned=by_queue({"orders": epochs({})}))
    assert json.loads(standby.to_json())["owned"] == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"uid": None}, "uid"),
        ({"generation": True}, "generation"),
        ({"owned": {"orders": "x"}}, "owned"),
        ({"active": 1}, "active"),
    ],
)
def test_a_broken_entry_is_refused_with_the_field_named(change: dict[str, object], field: str) -> None:
    text = json.dumps(json.loads(ENTRY.to_json()) | change)
    with pytest.raises(LedgerError, match=field):
        MemberEntry.from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_an_entry_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(LedgerError):
        MemberEntry.from_json(text)


# -- Partitions and grants as text.


numbers = st.frozensets(st.integers(0, 300))
grants = st.dictionaries(st.integers(0, 300), st.integers(1, 5).map(Epoch))


@given(numbers)
def test_partitions_survive_being_written_and_read(partitions: frozenset[int]) -> None:
    assert parse_numbers(format_numbers(partitions)) == partitions


@given(grants)
def test_grants_survive_being_written_and_read(held: dict[int, Epoch]) -> None:
    assert parse_grants(format_grants(held)) == held


def test_consecutive_partitions_share_a_range_only_under_one_epoch() -> None:
    assert format_grants(epochs({0: 12, 1: 12, 2: 12, 3: 12, 7: 17})) == "0-3@12,7@17"
    assert format_grants(epochs({0: 1, 1: 2})) == "0@1,1@2"
    assert format_numbers([7, 0, 1, 2]) == "0-2,7"


def test_nothing_is_the_empty_text() -> None:
    assert format_grants({}) == "" and parse_grants("") == {}
    assert format_numbers([]) == "" and parse_numbers("") == frozenset()


@pytest.mark.parametrize("text", ["3", "3@", "@3", "3-1@2", "a@1", "0-1@2,1@3", "-1@2", "0-99999999@1", "1@" + "9" * 30, "٣@1"])
def test_a_malformed_grant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_grants(text)


@pytest.mark.parametrize("text", ["x", "3-1", "1-", "-1", "99999999"])
def test_a_malformed_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_numbers(text)


@given(grants)
def test_named_partitions_are_counted_without_expanding(held: dict[int, Epoch]) -> None:
    assert count_named(format_grants(held)) == len(held)
    assert count_named(format_numbers(held)) == len(held)


@given(st.text("0123456789-,@ x", max_size=40))
def test_malformed_text_can_be_counted(text: str) -> None:
    assert count_named(text) >= 0


@given(grants, st.integers(0, 300), st.integers(1, 5).map(Epoch))
def test_spans_name_the_partitions_of_the_text(held: dict[int, Epoch], number: int, epoch: Epoch) -> None:
    assert GrantSpans.read(format_grants(held)).names(number, epoch) is (held.get(number) == epoch)


def test_grants_are_counted_before_they_are_made() -> None:
    assert count_named(",".join(["0-999999@1"] * 1000)) == 1_000_000_000
    with pytest.raises(ValueError, match="more than 1,000,000 partitions are named at once"):
        parse_grants("0-999999@1,0-999999@2")
    with pytest.raises(ValueError, match="more than 1,000,000 partitions are named at once"):
        parse_numbers("0-999999," * 1000)


def test_spans_are_bounded_by_the_text() -> None:
    text = ",".join(f"0-1000000@{epoch}" for epoch in range(1, 1001))
    tracemalloc.start()
    try:
        spans = GrantSpans.read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(text)
    assert spans.names(999_999, Epoch(1000)) and not spans.names(999_999, Epoch(1001))
