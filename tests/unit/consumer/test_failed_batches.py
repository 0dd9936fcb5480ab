"""After a failed batch, only the entry to blame fails."""

from collections.abc import Callable

import pytest

from baton.consumer import Reject, Retry
from baton.consumer.entry import Batch, HeldEntry
from tests.unit.consumer.readers import dead, filled, offsets
from tests.waiting import PATIENCE

ALL = [str(number) for number in range(20)]


@pytest.mark.parametrize("error", [ValueError("bad"), Reject("bad"), KeyError("bad")])
def test_a_failed_batch_is_tried_again_entry_by_entry(error: Exception) -> None:
    batches: list[list[str]] = []

    def handle(batch: Batch) -> None:
        batches.append([entry.offset for entry in batch])
        if "7" in batches[-1]:
            raise error

    with filled(20, max_redeliveries=2) as queue:
        queue.start(handle, max_entries=20, max_wait=0.05, dead_letter_on=(KeyError,))
        queue.settled()
    assert list(dead(queue)) == ["7"]
    assert sorted(offsets(queue), key=int) == [offset for offset in ALL if offset != "7"]
    failed = next(batch for batch in batches if "7" in batch)
    again = [batch for batch in batches[batches.index(failed) + 1 :] if set(batch) & set(failed)]
    assert all(len(batch) == 1 for batch in again)


def unreadable_once() -> Callable[[bytes], bytes]:
    tries: list[int] = []

    def read(value: bytes) -> bytes:
        tries.append(1)
        if len(tries) == 3:
            raise Retry("the registry is away", delay=0)
        return value

    return read


def test_a_deserializer_may_ask_for_another_try_and_what_is_behind_it_waits() -> None:
    seen: list[tuple[str, bool]] = []

    def handle(entry: HeldEntry) -> None:
        seen.append((entry.offset, entry.redelivered))

    with filled(20) as queue:
        queue.start(handle, consumer=queue.consumer(value_deserializer=unreadable_once()))
        queue.settled()
    assert (seen, queue.dead_letters) == ([(offset, offset == "2") for offset in ALL], [])


def test_and_in_batches() -> None:
    queue = filled(20)
    seen: list[tuple[str, bool]] = []
    with queue.consumer(value_deserializer=unreadable_once()) as consumer:
        for batch in consumer.batches(max_entries=5, max_wait=0):
            seen += [(entry.offset, entry.redelivered) for entry in batch]
            assert batch.ack().wait(PATIENCE)
            if len(seen) + len(queue.dead_letters) >= 20:
                break
    assert (seen, queue.dead_letters) == ([(offset, offset == "2") for offset in ALL], [])
