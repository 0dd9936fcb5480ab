"""Messages of Kafka as entries."""

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName
from baton.queues.entries import Entries
from baton.queues.entry import Entry
from baton.queues.kafka.messages import MessageEntries

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


def test_an_entry_is_what_its_message_says() -> None:
    read = MessageEntries(ORDERS, 1, Epoch(5), messages(), OFFSETS, 4)
    tombstone, second, _, last = read
    assert tombstone == Entry(ORDERS, 1, "3", b"a", None, 1003, Epoch(5), True, {})  # type: ignore[arg-type] # as it says
    assert second == Entry(ORDERS, 1, "4", b"b", b"1", 1004, Epoch(5), False, {"n": b"1"})
    assert last == Entry(ORDERS, 1, "20", None, b"3", 1020, Epoch(5), False, {})  # type: ignore[arg-type] # likewise


def test_what_is_said_of_all_is_what_each_entry_would_say() -> None:
    for again in (0, 4, 5, 100):
        read = MessageEntries(ORDERS, 1, Epoch(5), messages(), OFFSETS, again)
        each = Entries(list(read))
        assert (read.offsets, read.keys, read.values) == (each.offsets, each.keys, each.values)
        assert read.redelivered == each.redelivered == sum(offset < again for offset in OFFSETS)


def test_what_makes_one_entry_does_not_hold_the_others() -> None:
    read = MessageEntries(ORDERS, 1, Epoch(5), messages(), OFFSETS, 0)
    assert read.sources not in (*read.make.args, *read.make.keywords.values())  # type: ignore[attr-defined] # of a partial
