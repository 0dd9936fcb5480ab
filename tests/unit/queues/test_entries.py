"""What a reader has read of a partition, as a whole and entry by entry."""

from baton.model.ids import Epoch, QueueName
from baton.queues.entries import Entries
from baton.queues.entry import Entry

ORDERS = QueueName("orders")


def entry(offset: int, *, redelivered: bool = False) -> Entry:
    return Entry(ORDERS, 0, str(offset), b"k", str(offset).encode(), 0, Epoch(1), redelivered)


def test_what_is_asked_of_all_is_what_each_entry_says() -> None:
    made = [entry(0, redelivered=True), entry(1), entry(2)]
    read = Entries.of(made)
    assert (list(read), len(read), read[1], read[1:]) == (made, 3, made[1], made[1:])
    assert (read.offsets, read.keys, read.values) == (["0", "1", "2"], [b"k"] * 3, [b"0", b"1", b"2"])
    assert read.redelivered == 1
    assert Entries.of(read) is read


def test_an_entry_is_made_when_it_is_looked_at() -> None:
    looked_at: list[int] = []

    def make(offset: int) -> Entry:
        looked_at.append(offset)
        return entry(offset)

    read = Entries(range(5), make)
    assert len(read) == 5 and not looked_at
    assert (read[3].offset, [one.offset for one in read[:2]]) == ("3", ["0", "1"])
    assert looked_at == [3, 0, 1]
