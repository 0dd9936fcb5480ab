"""Lag and losses of a topic; messages as entries."""

import pytest
from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entries, Entry
from baton.queues.kafka.messages import MessageEntries
from baton.queues.kafka.record import Committed
from baton.queues.kafka.topic import CutOff, cut_off, lag, lost_entries


def at(**offsets: int) -> dict[int, Committed]:
    """Return what is committed: `p0=7`."""
    return {int(name[1:]): Committed(offset, None) for name, offset in offsets.items()}


@pytest.mark.parametrize(
    ("committed", "begins", "ends", "left"),
    [
        ({"p0": 7, "p1": 9}, {0: 0, 1: 0}, {0: 10, 1: 9}, {0: 3, 1: 0}),
        ({"p0": -1}, {0: 4}, {0: 10}, {0: 6}),  # nothing was ever committed
        ({"p0": 2}, {0: 4}, {0: 10}, {0: 6}),  # retention has deleted the rest
        ({"p0": 12}, {0: 0}, {0: 10}, {0: 0}),  # the log ends before the offset
        ({"p0": 2, "p1": 2}, {}, {1: 3}, {1: 1}),  # the end of one is not known
    ],
)
def test_the_lag_is_what_lies_between_the_committed_offset_and_the_end(
    committed: dict[str, int], begins: dict[int, int], ends: dict[int, int], left: dict[int, int]
) -> None:
    assert lag(at(**committed), begins, ends) == left


def test_entries_deleted_before_they_were_committed_are_lost() -> None:
    assert lost_entries(at(p0=2, p1=9, p2=4, p3=-1), {0: 5, 1: 5, 2: 4, 3: 5}) == {0: 3}


def test_a_log_that_ends_before_the_committed_offset_was_cut_off() -> None:
    assert cut_off(at(p0=15, p1=10, p2=9, p3=-1, p4=15), {0: 10, 1: 10, 2: 10, 3: 0}, {}) == {0: CutOff(15, 10)}


def test_a_cut_is_remembered_until_the_offset_changes() -> None:
    before = {0: CutOff(15, 10)}
    assert cut_off(at(p0=15), {0: 20}, before) == before
    assert cut_off(at(p0=10), {0: 20}, before) == {}
    assert cut_off(at(p1=3), {1: 3}, before) == {}


# -- Messages of Kafka as entries.


ORDERS = QueueName("orders")
OFFSETS = [3, 4, 7, 20]  # a log has gaps


def messages() -> list[Message]:
    """The first is a tombstone, the second has headers, and the last has no key."""
    keys, values = [b"a", b"b", b"c", None], [None, b"1", b"2", b"3"]
    return [
        Message(
            topic="orders",
            partition=1,
            offset=offset,
            key=key,
            value=value,
            headers={"n": b"1"} if offset == OFFSETS[1] else None,
            timestamp=(1, 1000 + offset),
        )
        for offset, key, value in zip(OFFSETS, keys, values, strict=True)
    ]


def test_an_entry_has_the_fields_of_its_message() -> None:
    read = MessageEntries(ORDERS, 1, Epoch(5), messages(), OFFSETS, 4)
    tombstone, second, _, last = read
    assert tombstone == Entry(ORDERS, 1, "3", b"a", None, 1003, Epoch(5), True, {})  # type: ignore[arg-type] # as it says
    assert second == Entry(ORDERS, 1, "4", b"b", b"1", 1004, Epoch(5), False, {"n": b"1"})
    assert last == Entry(ORDERS, 1, "20", None, b"3", 1020, Epoch(5), False, {})  # type: ignore[arg-type] # likewise


def test_aggregates_match_the_entries() -> None:
    for again in (0, 4, 5, 100):
        read = MessageEntries(ORDERS, 1, Epoch(5), messages(), OFFSETS, again)
        each = Entries(list(read))
        assert (read.offsets, read.keys, read.values) == (each.offsets, each.keys, each.values)
        assert read.redelivered == each.redelivered == sum(offset < again for offset in OFFSETS)


def test_an_entry_does_not_keep_the_others_in_memory() -> None:
    read = MessageEntries(ORDERS, 1, Epoch(5), messages(), OFFSETS, 0)
    assert read.sources not in (*read.make.args, *read.make.keywords.values())  # type: ignore[attr-defined] # of a partial
