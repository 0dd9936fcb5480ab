"""What the ledger says and what the queue says, put together by epochs."""

import pytest

from baton.consumer.assignments import merged, unconfirmed
from baton.model.ledger import MemberEntry
from tests.unit.consumer.told_and_heard import FIVE, UID, entry, grants, record


@pytest.mark.parametrize(
    ("told", "says", "owned", "revoking"),
    [
        pytest.param(None, "me@1", "5@1", "", id="granted before the ledger names the pod"),
        pytest.param(entry("1@1"), "me@3", "1@1,5@3", "", id="granted before the ledger names the partition"),
        pytest.param(entry("5@2"), "me@3", "5@3", "", id="granted again"),
        pytest.param(entry("", "5@2"), "me@3", "5@3", "", id="called back and granted again"),
        pytest.param(entry("5@2"), "me@2 paused", "", "5@2", id="called back"),
        pytest.param(entry("5@2"), "me@3 paused", "", "5@3", id="granted again and called back"),
        pytest.param(entry("5@2"), "other@3", "", "", id="lost"),
        pytest.param(entry("1@1,5@2"), "nobody@3", "1@1", "", id="withdrawn"),
        pytest.param(entry("", "5@2"), "other@3", "", "", id="handed off"),
    ],
)
def test_a_queue_that_is_newer_counts(told: MemberEntry | None, says: str, owned: str, revoking: str) -> None:
    records = {FIVE: record(says)}
    assert unconfirmed(records, told, UID) == records
    found = merged(told or entry(), records, UID)
    assert grants(found) == grants(entry(owned, revoking))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        pytest.param(entry("5@3"), "me@3", id="the same"),
        pytest.param(entry("", "5@3"), "me@3 paused", id="the same, called back"),
        pytest.param(entry("", "5@3"), "me@3", id="called back since"),
        pytest.param(entry("5@4"), "me@3 paused", id="granted again since"),
        pytest.param(entry("", "5@4"), "other@3", id="granted and called back since"),
        pytest.param(entry("1@1"), "other@3", id="not ours, as the ledger has it"),
        pytest.param(None, "nobody@3", id="nobody's, and there is no entry"),
    ],
)
def test_a_ledger_that_is_as_new_counts(told: MemberEntry | None, says: str) -> None:
    assert not unconfirmed({FIVE: record(says)}, told, UID)
