"""An entry gets its remaining attributes on first use."""

from typing import Any

import pytest

from baton.consumer.entry import HeldEntry
from baton.consumer.outcome import Nack
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.entry import Entries, Entry
from tests.unit.consumer.test_entry_sequence import holding

ORDERS = QueueName("orders")


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


def test_nothing_is_made_for_who_looks_at_offset_key_and_value(held: HeldEntry, source: Source) -> None:
    assert (held.offset, held.key, held.value, source.made) == ("3", b"k", b"v", 0)


def test_the_rest_is_made_once(held: HeldEntry, source: Source) -> None:
    about = held.queue, held.partition, held.epoch, held.timestamp, held.redelivered, held.headers, held.size
    assert about == (*Partition(ORDERS, 0), 1, 7, True, {"kind": b"x"}, 7)
    assert source.made == 1 and not hasattr(held, "colour")


def test_what_has_no_key_no_value_and_a_header_of_a_name_alone_has_a_size() -> None:
    one = holding()
    nothing: Any = None
    read = Entry(ORDERS, 0, "3", nothing, nothing, 7, Epoch(1), False, {"kind": b"x", "alone": None})
    one.take_in(Columns(["3"], lambda _: read), 0)
    (held,) = one.sequences[None].hand_out(1, most_bytes=100)
    assert held.size == len("kindxalone")


def test_what_a_handler_has_set_stays_and_its_next_try_is_as_it_was_read(held: HeldEntry) -> None:
    held.headers, held.value = {"kind": b"y"}, "text"
    assert (held.headers, held.value, held.timestamp) == ({"kind": b"y"}, "text", 7)
    held.sequence.settle([held], Nack("no"), 0.0)
    (again,) = held.sequence.waiting
    assert (again.headers, again.value, again.attempt) == ({"kind": b"x"}, b"v", 1)
