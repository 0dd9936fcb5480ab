"""Entries that a reader has read, the keys of a queue, and headers."""

from typing import Any

import pytest
from redis.crc import key_slot

from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entries, Entry
from baton.queues.redis.headers import pack, unpack
from baton.queues.redis.keys import announcements_key, partition_keys, queue_key

ORDERS = QueueName("orders")


def entry(offset: int, *, redelivered: bool = False) -> Entry:
    return Entry(ORDERS, 0, str(offset), b"k", str(offset).encode(), 0, Epoch(1), redelivered)


def test_aggregates_match_the_entries() -> None:
    made = [entry(0, redelivered=True), entry(1), entry(2)]
    read = Entries.of(made)
    assert (list(read), len(read), read[1], read[1:]) == (made, 3, made[1], made[1:])
    assert (read.offsets, read.keys, read.values) == (["0", "1", "2"], [b"k"] * 3, [b"0", b"1", b"2"])
    assert read.redelivered == 1
    assert Entries.of(read) is read


def test_an_entry_is_created_when_it_is_accessed() -> None:
    looked_at: list[int] = []

    def make(offset: int) -> Entry:
        looked_at.append(offset)
        return entry(offset)

    read = Entries(range(5), make)
    assert len(read) == 5 and not looked_at
    assert (read[3].offset, [one.offset for one in read[:2]]) == ("3", ["0", "1"])
    assert looked_at == [3, 0, 1]


# -- Keys of one queue are on one node of a Redis Cluster, and so are the announcements to a group's pods.


def test_all_keys_of_a_queue_are_in_one_slot() -> None:
    for queue in ("shop/orders", "shop/a.b-c", "shop/}{", "shop/{x}", "shop/{", "shop/}"):
        keys = {queue_key(queue), *partition_keys(queue, 0), *partition_keys(queue, 1023)}
        keys |= {key.replace("stream:", "stage:2.") for key in keys}
        assert len({key_slot(key.encode()) for key in keys}) == 1, queue


def test_queues_and_groups_spread_over_slots() -> None:
    assert len({key_slot(queue_key(f"shop/orders-{number}").encode()) for number in range(100)}) > 95
    pods = {announcements_key("shop/orders", f"uid-{number}") for number in range(100)}
    assert len({key_slot(key.encode()) for key in pods}) == 1


# -- Headers are packed into one field; any other content counts as no headers.


def test_headers_of_any_bytes_and_names_read_back() -> None:
    headers = {"traceparent": b"00-4bf9", "Grüße": bytes(range(256)), "": b""}
    assert unpack(pack(headers)) == headers
    assert unpack(pack({"text": "Grüße"})) == {"text": "Grüße".encode()}
    assert pack(None) == pack({}) == b""
    assert unpack(b"") == unpack(None) == {}


@pytest.mark.parametrize("packed", [b"[1", b"[1]", b"7", b'{"a": 1}', b'{"a": "\\u0100"}', b"\xff", b"[" * 100_000])
def test_foreign_text_has_no_headers(packed: bytes) -> None:
    assert unpack(packed) == {}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({1: "a"}, "a header's name is str, not"),
        ({"a": 1}, "a header's value is bytes or str, not"),
        ({"a": None}, "a header's value is bytes or str, not"),
        ([("traceparent", b"00-4bf9")], "headers are a mapping of names to values, such as a dict, not list"),
        ({"\ud800": b"1"}, "a header's name has characters that cannot be encoded"),
    ],
)
def test_invalid_headers_are_refused(headers: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        pack(headers)
