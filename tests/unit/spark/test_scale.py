import json

import pytest

from baton.model import MemberId
from baton.model.ledger import LedgerError, MemberEntry
from baton.spark.fleet_loop import Order, order
from baton.spark.ledger import RequestedScale, parse_scale
from tests.unit.spark.builders import entry, executor

NOBODY: frozenset[MemberId] = frozenset()


def victims(*numbers: int) -> frozenset[MemberId]:
    return frozenset(MemberId(f"exec-{number}") for number in numbers)


def by_member(*entries: MemberEntry) -> dict[MemberId, MemberEntry]:
    return {entry.member: entry for entry in entries}


def test_a_ledger_that_asks_for_no_size_leaves_the_fleet_alone() -> None:
    assert parse_scale(None) is None
    assert parse_scale(json.dumps({"generation": 3})) is None


def test_the_size_and_the_victims_are_read_from_the_group_key() -> None:
    assert parse_scale(json.dumps({"scale": {"replicas": 4, "victims": ["exec-3"]}})) == RequestedScale(4, victims(3))
    assert parse_scale(json.dumps({"scale": {"replicas": 0}})) == RequestedScale(0)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"of": ' + "[" * 100_000,
        '{"scale": 3}',
        '{"scale": {"replicas": "4"}}',
        '{"scale": {"replicas": -1}}',
        '{"scale": {"replicas": true}}',
        '{"scale": {"replicas": 2147483648}}',
        '{"scale": {"replicas": 4, "victims": null}}',
        '{"scale": {"replicas": 4, "victims": 3}}',
        '{"scale": {"replicas": 4, "victims": "exec-3"}}',
        '{"scale": {"replicas": 4, "victims": [["exec-3"]]}}',
    ],
)
def test_a_size_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(LedgerError, match="group"):
        parse_scale(text)


def test_growing_asks_for_more_and_ends_nobody() -> None:
    assert order(RequestedScale(4), [executor(1), executor(2)], {}, NOBODY) == Order(4)


def test_a_victim_stays_while_its_key_owns_something() -> None:
    ledger = by_member(entry("exec-1", {0: 1}), entry("exec-2", {1: 1}))
    assert order(RequestedScale(1, victims(2)), [executor(1), executor(2)], ledger, NOBODY) == Order(2)


def test_a_victim_stays_while_it_lets_go() -> None:
    ledger = by_member(entry("exec-1", {0: 1}), entry("exec-2", {}, {1: 1}))
    assert order(RequestedScale(1, victims(2)), [executor(1), executor(2)], ledger, NOBODY) == Order(2)


def test_a_victim_stays_while_a_batch_has_rows_of_it() -> None:
    ledger = by_member(entry("exec-2"))
    assert order(RequestedScale(1, victims(2)), [executor(1), executor(2)], ledger, victims(2)) == Order(2)


def test_a_victim_that_has_handed_off_goes() -> None:
    ledger = by_member(entry("exec-1", {0: 1}), entry("exec-2"))
    assert order(RequestedScale(1, victims(2)), [executor(1), executor(2)], ledger, NOBODY) == Order(1, ("2",))


def test_a_victim_without_a_key_goes() -> None:
    assert order(RequestedScale(0, victims(2)), [executor(2)], {}, NOBODY) == Order(0, ("2",))


def test_a_victim_that_is_already_gone_is_not_waited_for() -> None:
    assert order(RequestedScale(1, victims(9)), [executor(1)], {}, NOBODY) == Order(1)


def test_while_a_victim_drains_a_crashed_executor_is_still_replaced() -> None:
    ledger = by_member(entry("exec-3", {0: 1}))
    assert order(RequestedScale(2, victims(3)), [executor(1), executor(3)], ledger, NOBODY).target == 3
