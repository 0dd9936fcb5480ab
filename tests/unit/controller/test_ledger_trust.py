"""A ledger that says otherwise than the queue is not believed, and what it says is granted again above both."""

from dataclasses import replace

import pytest

from baton.controller.ledger import contradicted, in_doubt, told_of
from baton.engine.observation import ObservedQueue, OwnerRecord
from baton.engine.state import PartitionRecord
from baton.engine.step import step
from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.protocol import Owner
from tests.unit.engine.group import Group, grants, partition

ORDERS = QueueName("orders")


def found() -> tuple[Group, dict[int, Owner]]:
    """A group at rest, and what its queue has recorded."""
    group = Group(4, incarnation="run").start("a", "b")
    return group, {p.number: Owner(*record) for p, record in group.records.items()}


def test_records_that_agree_leave_the_ledger_as_it_is() -> None:
    group, records = found()
    assert not contradicted(group.state, ORDERS, records)


def test_a_grant_under_way_is_no_contradiction() -> None:
    group, records = found()
    group.join("c", "d")
    group.step(10)
    group.step(100)
    moving = next(iter(group.state.moves))
    records[moving.number] = Owner(Uid("uid-c"), group.state.moves[moving].epoch)
    assert not contradicted(group.state, ORDERS, records)


@pytest.mark.parametrize(
    "record",
    [
        Owner(Uid("uid-a"), Epoch(9)),
        Owner(Uid("uid-b"), Epoch(1)),
        Owner(Uid("uid-a"), Epoch(1), paused=True),
        Owner(None, Epoch(0)),
    ],
)
def test_another_epoch_another_owner_none_or_a_pause_is_a_contradiction(record: Owner) -> None:
    group, records = found()
    assert contradicted(group.state, ORDERS, {**records, 0: record}) == [0]


def test_a_higher_epoch_where_nobody_is_to_own_is_a_contradiction_and_a_lower_one_is_none() -> None:
    group, records = found()
    record = group.state.records[partition(0)]
    group.state = replace(
        group.state, records={**group.state.records, partition(0): PartitionRecord(record.epoch, None, record.owner)}
    )
    assert contradicted(group.state, ORDERS, records) == []
    assert contradicted(group.state, ORDERS, {**records, 0: Owner(Uid("elsewhere"), Epoch(9))}) == [0]


@pytest.mark.parametrize("forged", [0, 900])
def test_everything_is_granted_again_above_ledger_and_queue(forged: int) -> None:
    group, records = found()
    record = group.state.records[partition(0)]
    group.state = replace(
        group.state, records={**group.state.records, partition(0): PartitionRecord(Epoch(forged), record.owner, record.last)}
    )
    assert contradicted(group.state, ORDERS, records)
    group.state = in_doubt(group.state, ORDERS)
    owners = {number: OwnerRecord(one.uid, one.epoch) for number, one in records.items()}
    group.queues[ORDERS] = ObservedQueue(4, incarnation="run", owners=owners)
    granted = {number: (owner, epoch) for number, owner, epoch in grants(group.step(60))}
    assert granted == {0: ("a", max(forged, 1) + 1), 1: ("b", 2), 2: ("a", 2), 3: ("b", 2)}


def test_everything_is_granted_again_where_no_record_is_left_and_all_else_is_as_it_was_seen_last() -> None:
    group, _ = found()
    seen = group.observe(frozenset())
    rest = step(group.state, seen, 60)
    assert not grants(step(rest.state, seen, 60))
    assert [epoch for *_, epoch in grants(step(in_doubt(rest.state, ORDERS), seen, 60))] == [2] * 4


def test_in_doubt_partitions_of_a_queue_that_records_nothing_are_granted_again_once() -> None:
    group = Group(4, fenced=False).start("a", "b")
    group.state = in_doubt(group.state, ORDERS)
    assert {epoch for *_, epoch in grants(group.step(60))} == {2}
    group.settle(61)
    assert not grants(group.step(70))


SOMEBODY = "somebody else wrote at the queue orders"
OLDER = "the queue orders came back with older data"
EMPTY = "the queue orders came back empty"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({0: Owner(Uid("elsewhere"), Epoch(9))}, SOMEBODY),
        ({0: Owner(Uid("uid-a"), Epoch(3), paused=True)}, SOMEBODY),
        ({0: Owner(Uid("uid-a"), Epoch(2)), 1: Owner(Uid("elsewhere"), Epoch(9))}, SOMEBODY),
        ({0: Owner(Uid("uid-a"), Epoch(2)), 1: None}, OLDER),
        (dict.fromkeys(range(4)), EMPTY),
    ],
)
def test_what_was_found_says_what_has_happened_to_the_queue(changed: dict[int, Owner | None], said: str) -> None:
    group, _ = found()
    third = Epoch(3)
    records = {p: PartitionRecord(third, record.owner, record.last) for p, record in group.state.records.items()}
    group.state = replace(group.state, records=records)
    before = {p.number: Owner(Uid(f"uid-{record.owner}"), third) for p, record in records.items()}
    owners = {number: one for number, one in {**before, **changed}.items() if one is not None}
    wrong = contradicted(group.state, ORDERS, owners)
    assert wrong == list(changed)
    reason, note = told_of(group.state, ORDERS, owners, wrong, first=False)
    assert reason == "OwnersRestored" and note.startswith(said) and f"{len(wrong)} partition" in note


def test_a_queue_that_lost_its_data_is_told_so_also_by_an_operator_that_has_just_begun() -> None:
    group, records = found()
    assert told_of(group.state, ORDERS, {}, [0, 1, 2, 3], first=True)[1].startswith(EMPTY)
    changed = {**records, 0: Owner(Uid("uid-b"), Epoch(1))}
    assert told_of(group.state, ORDERS, changed, [0], first=True)[0] == "LedgerRebuilt"
