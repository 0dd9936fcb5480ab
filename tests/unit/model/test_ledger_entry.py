import json

import pytest

from baton.model import MemberId, Uid
from baton.model.ledger import LedgerError, MemberEntry
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


def test_an_entry_reads_as_the_design_fixes_it() -> None:
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


def test_a_queue_of_which_nothing_is_held_is_left_out() -> None:
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
def test_what_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(LedgerError):
        MemberEntry.from_json(text)
