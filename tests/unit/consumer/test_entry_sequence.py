"""Entries in hand of a partition or a key: their order whatever their outcomes, and their attributes."""

from collections.abc import Sequence
from itertools import count
from math import inf
from types import MappingProxyType
from typing import Any

import pytest

from baton.consumer.entry import Acknowledgement, Batch, HeldEntry
from baton.consumer.outcome import ACK, KEPT, DeadLetter, Nack, Outcome, Policies
from baton.consumer.partition import EntrySequence, HeldPartition, backoff
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.entry import Entries, Entry

ORDERS = QueueName("orders")


class Heard:
    """An OutcomeListener that does nothing."""

    retry: Policies = MappingProxyType({})

    def __init__(self) -> None:
        self.outcomes: list[tuple[Sequence[HeldEntry], Outcome]] = []

    def tell(self, outcomes: Sequence[tuple[Sequence[HeldEntry], Outcome]], receipt: Acknowledgement | None = None) -> None:
        self.outcomes += outcomes

    def still_mine(self, holding: HeldPartition) -> bool:
        return True

    def time_left(self, holding: HeldPartition) -> float | None:
        return None


def holding(*values: str, by_key: bool = False) -> HeldPartition:
    """Return a sequence with entries in hand, whose keys are their first letters."""
    made = HeldPartition(Partition(ORDERS, 0), Epoch(1), Heard(), by_key)
    entries = [
        Entry(ORDERS, 0, f"{n}-0", value[:1].encode(), value.encode(), 0, Epoch(1), False) for n, value in enumerate(values)
    ]
    made.take_in(Entries(entries), 0)
    return made


def sequence(*values: str) -> EntrySequence:
    return holding(*values).sequences[None]


def told(entries: Sequence[HeldEntry]) -> list[str]:
    return [entry.value.decode() for entry in entries]


def test_entries_come_in_order_without_concurrent_ones() -> None:
    one = sequence("a", "b", "c")
    assert told(one.hand_out(2)) == ["a", "b"]
    assert not one.ready(0.0)
    assert one.ready(0.0, shared=True)
    assert told(one.hand_out(2)) == ["c"]
    assert not one.ready(0.0, shared=True)


def test_entries_not_started_go_back_to_their_place() -> None:
    one = sequence("a", "b", "c", "d")
    entries = one.hand_out(3)
    one.settle([entries[0]], ACK, 0.0)
    one.give_back(entries)
    assert told(one.hand_out(9)) == ["b", "c", "d"]
    assert one.holding.handled == ["0-0"]


def test_a_failed_entry_comes_first_again_when_due() -> None:
    one = sequence("a", "b")
    (first,) = one.hand_out(1)
    one.settle([first], Nack("no", delay=5.0), 100.0)
    assert not one.ready(104.9, shared=True)
    assert one.ready(105.0)
    assert one.hand_out(9) == [], "the queue counts it first"
    one.failed.clear()
    assert told(one.hand_out(9)) == ["a", "b"]


def test_failed_entries_are_put_back_in_order() -> None:
    one = sequence("a", "b", "c", "d")
    entries = one.hand_out(3)
    for index in (1, 2, 0):
        one.settle([entries[index]], Nack("no"), 0.0)
    assert told(list(one.waiting)) == ["a", "b", "c", "d"]


def test_a_batch_that_failed_is_put_back_in_order() -> None:
    one = sequence("a", "b", "c", "d", "e")
    entries = one.hand_out(4)
    assert one.settle([entries[3], *entries[:2]], Nack("no", delay=1.0), 10.0)
    assert told(list(one.waiting)) == ["a", "b", "d", "e"]
    assert [entry.attempt for entry in one.waiting] == [1, 1, 1, 0] and one.due == 11.0


def test_each_retry_waits_longer() -> None:
    assert [backoff(tries) for tries in (1, 2, 3, 7, 1000)] == [0.1, 0.2, 0.4, 5.0, 5.0]
    one = sequence("a")
    for expected in (0.1, 0.2, 0.4):
        (entry,) = one.hand_out(1)
        one.settle([entry], Nack("no"), 0.0)
        assert one.due == pytest.approx(expected)
        one.failed.clear()


def test_only_the_first_outcome_of_an_entry_counts() -> None:
    one = sequence("a", "b")
    first, second = one.hand_out(2)
    assert one.settle([first], ACK, 0.0)
    assert not one.settle([first], Nack("late"), 0.0)
    assert one.settle([second], DeadLetter("no"), 0.0)
    assert not one.settle([second], ACK, 0.0)
    assert (one.holding.handled, one.holding.aside) == (["0-0"], [("1-0", "no")])
    assert one.due == inf


def test_a_kept_entry_blocks_no_other_and_can_be_acknowledged_later() -> None:
    one = sequence("a", "b")
    (first,) = one.hand_out(1)
    one.settle([first], KEPT, 0.0)
    assert one.ready(0.0)
    assert one.settle([first], ACK, 0.0)
    assert one.holding.handled == ["0-0"]


def test_a_failure_in_a_revoked_partition_leaves_the_rest_to_the_next_owner() -> None:
    one = sequence("a", "b", "c")
    (first,) = one.hand_out(1)
    one.holding.begin_release()
    one.settle([first], Nack("no"), 0.0)
    assert one.idle
    assert one.holding.handled == []


def test_a_batch_bounded_in_bytes_takes_entries_that_fit() -> None:
    one = sequence("a" * 9, "b" * 9, "c" * 9)
    assert told(one.hand_out(9, most_bytes=20)) == ["a" * 9, "b" * 9]  # the keys have a byte each
    assert one.hand_out(9, most_bytes=9) == []


def test_each_key_has_a_sequence_that_is_dropped_when_empty() -> None:
    one = holding("a1", "b1", "a2", by_key=True)
    assert {key: told(list(each.waiting)) for key, each in one.sequences.items()} == {b"a": ["a1", "a2"], b"b": ["b1"]}
    for each in list(one.ready(0.0)):
        for entry in each.hand_out(9):
            each.settle([entry], ACK, 0.0)
    one.tidy()
    assert one.sequences == {}
    assert one.handled == ["0-0", "2-0", "1-0"]


def test_outcomes_of_an_entry_reach_the_loop() -> None:
    heard = Heard()
    one = HeldPartition(Partition(ORDERS, 0), Epoch(1), heard)
    counter = count()
    one.take_in(Entries([Entry(ORDERS, 0, f"{next(counter)}-0", b"k", b"v", 0, Epoch(1), False) for _ in range(3)]), 0)
    first, second, third = one.sequences[None].hand_out(3)
    first.ack()
    second.nack(7.0, "why")
    third.dead_letter("x" * 1000)
    assert heard.outcomes == [([first], ACK), ([second], Nack("why", 7.0)), ([third], DeadLetter("x" * 500))]


def test_a_nack_of_a_batch_is_one_outcome() -> None:
    heard, entries = Heard(), sequence("a", "b", "c").hand_out(3)
    Batch(entries, heard).nack(7.0, "why")
    assert heard.outcomes == [(entries, Nack("why", 7.0))]


def test_a_returned_delivery_takes_nothing_from_a_later_one() -> None:
    one = sequence("a")
    (first,) = one.hand_out(1)
    one.settle([first], Nack("no"), 0.0)
    one.failed.clear()
    (again,) = one.hand_out(1)
    one.give_back([first])
    assert not one.waiting
    assert not one.settle([first], ACK, 0.0)
    assert one.comes_again(first)
    assert one.settle([again], ACK, 0.0)


def test_entries_returned_to_a_dropped_sequence_are_not_started() -> None:
    one = sequence("a", "b", "c")
    entries = one.hand_out(3)
    one.holding.begin_release()
    one.settle([entries[0]], Nack("no"), 0.0)
    one.give_back(entries)
    one.holding.tidy()
    one.holding.take_in(Entries([Entry(ORDERS, 0, "9-0", b"k", b"d", 0, Epoch(1), False)]), 9)
    assert list(one.holding.ready(inf)) == []


def test_an_entry_of_a_failed_batch_comes_alone() -> None:
    one = sequence("a", "b", "c", "d")
    entries = one.hand_out(3)
    for entry in entries[:2]:
        one.settle([entry], Nack("no", alone=True), 0.0)
    one.settle([entries[2]], ACK, 0.0)
    one.failed.clear()
    assert [told(one.hand_out(9)) for _ in range(3)] == [["a"], ["b"], ["d"]]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(Nack("no"), 0.0), (Nack("no", 3600.0), 3600.0), (Nack("no", 3600.0, by_policy=True), 0.0)],
    ids=["default", "asked for", "policy"],
)
def test_a_delay_set_by_the_handler_does_not_age_an_entry(failure: Nack, expected: float) -> None:
    one = sequence("a")
    entries = one.hand_out(1)
    since = one.holding.unfinished_since
    one.settle(entries, failure, since)
    assert one.holding.unfinished_since - since == pytest.approx(expected)


def test_a_failed_key_comes_last() -> None:
    held = holding("a", "b", "c", by_key=True)
    a, b, c = held.sequences.values()
    a.settle(a.hand_out(1), Nack("no"), 0.0)
    assert [*held.sequences.values()] == [b, c, a]


# -- An entry gets its remaining attributes on first use.


class Source:
    """Entries with one entry; counts how often it is made."""

    def __init__(self) -> None:
        self.made = 0

    def entry(self, offset: str) -> Entry:
        self.made += 1
        return Entry(ORDERS, 0, offset, b"k", b"v", 7, Epoch(1), True, {"kind": b"x"})


class Columns(Entries):
    """Entries that have offsets, keys and values without making an entry."""

    offsets, keys, values = ["3"], [b"k"], [b"v"]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def held(source: Source) -> HeldEntry:
    one = holding()
    one.take_in(Columns(["3"], source.entry), 0)
    (entry,) = one.sequences[None].hand_out(1)
    return entry


def test_offset_key_and_value_are_read_without_making_the_entry(held: HeldEntry, source: Source) -> None:
    assert (held.offset, held.key, held.value, source.made) == ("3", b"k", b"v", 0)


def test_remaining_attributes_are_made_once(held: HeldEntry, source: Source) -> None:
    about = held.queue, held.partition, held.epoch, held.timestamp, held.redelivered, held.headers, held.size
    assert about == (*Partition(ORDERS, 0), 1, 7, True, {"kind": b"x"}, 7)
    assert source.made == 1 and not hasattr(held, "colour")


def test_an_entry_without_key_and_value_has_a_size() -> None:
    one = holding()
    nothing: Any = None
    read = Entry(ORDERS, 0, "3", nothing, nothing, 7, Epoch(1), False, {"kind": b"x", "alone": None})
    one.take_in(Columns(["3"], lambda _: read), 0)
    (held,) = one.sequences[None].hand_out(1, most_bytes=100)
    assert held.size == len("kindxalone")


def test_a_handlers_changes_stay_and_the_next_attempt_is_as_read(held: HeldEntry) -> None:
    held.headers, held.value = {"kind": b"y"}, "text"
    assert (held.headers, held.value, held.timestamp) == ({"kind": b"y"}, "text", 7)
    held.sequence.settle([held], Nack("no"), 0.0)
    (again,) = held.sequence.waiting
    assert (again.headers, again.value, again.attempt) == ({"kind": b"x"}, b"v", 1)
