"""What is fetched of one partition, and how much memory that takes."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message

from baton.queues.kafka.fetched import AllAhead, FetchedPartition
from baton.queues.kafka.messages import Size, size_of

HEADERS: list[tuple[str, str | bytes | None]] = [("name", b"12345"), ("alone", None), ("name", b"")]


def message(offset: int, value: bytes | None = b"v", key: bytes | None = None) -> Message:
    return Message(topic="orders", partition=0, offset=offset, value=value, key=key)


def with_headers(offset: int) -> Message:
    return Message(topic="orders", partition=0, offset=offset, value=b"v", key=b"key", headers=HEADERS)


@pytest.mark.parametrize(
    ("those", "size"),
    [
        ([], Size(0, 0)),
        ([message(0, b"value", b"key"), message(1)], Size(9, 609)),
        ([message(0, None, b"key"), message(1, None)], Size(3, 603)),
        ([message(0), with_headers(1)], Size(23, 23 + 600 + 3 * 170)),
    ],
)
def test_a_message_has_the_size_of_all_that_comes_with_it(those: list[Message], size: Size) -> None:
    assert size_of(those) == size


@pytest.mark.parametrize(
    "leaves",
    [lambda one: one.take(100, 10**9, 10**9), lambda one: one.skip_to(50), FetchedPartition.leave],
    ids=["take", "skip", "leave"],
)
def test_memory_is_counted_until_it_is_left(leaves: Callable[[FetchedPartition], object]) -> None:
    of_all = AllAhead()
    one = FetchedPartition(0, of_all)
    one.add([message(0), with_headers(1), *(message(offset, None) for offset in range(2, 50))])
    assert (of_all.messages, of_all.size) == (50, 23 + 50 * 300 + 3 * 170)
    leaves(one)
    assert (of_all.messages, of_all.size) == (0, 0)


def test_what_is_taken_is_bounded_by_what_it_has_in_it_and_not_by_what_python_needs_for_it() -> None:
    of_all = AllAhead()
    one = FetchedPartition(0, of_all)
    one.add([message(offset, b"0123456789", b"key") for offset in range(10)])
    assert [each.offset() for each in one.take(100, 40, 10**9)] == [0, 1, 2]
    assert [each.offset() for each in one.take(100, 1, 10**9)] == [3]
    assert [each.offset() for each in one.take(100, 1000, 6)] == [4, 5]
    assert of_all == AllAhead(1, 4, 4 * 313)
