"""Who commits one partition keeps nobody from committing others."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from baton.queues.kafka.commits import PartitionLocks
from tests.waiting import PATIENCE


@pytest.fixture
def another() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


def free(locks: PartitionLocks) -> set[int]:
    with locks.free([1, 2, 3]) as found:
        return found


def test_those_that_nobody_has_are_free_and_whoever_has_one_may_take_it_again(another: ThreadPoolExecutor) -> None:
    locks = PartitionLocks()
    with locks.held([1, 3]), locks.held([3, 2]):
        assert free(locks) == {1, 2, 3}
        assert another.submit(free, locks).result(PATIENCE) == set()
    assert another.submit(free, locks).result(PATIENCE) == {1, 2, 3}
    with locks.held([2]):
        assert another.submit(free, locks).result(PATIENCE) == {1, 3}


def test_what_cannot_be_had_in_time_keeps_nothing(another: ThreadPoolExecutor) -> None:
    locks = PartitionLocks()

    def take() -> None:
        with locks.held([1, 2, 3], time.monotonic() + 0.01):
            pass

    with locks.held([2]):
        with pytest.raises(TimeoutError):
            another.submit(take).result(PATIENCE)
        assert another.submit(free, locks).result(PATIENCE) == {1, 3}
    another.submit(take).result(PATIENCE)


def test_those_who_want_the_same_in_another_order_do_not_wait_for_each_other() -> None:
    locks, turns = PartitionLocks(), list[int]()

    def take(*wanted: int) -> None:
        for _ in range(300):
            with locks.held(wanted):
                turns.append(wanted[0])

    threads = [threading.Thread(target=take, args=one, daemon=True) for one in ((1, 2), (2, 1), (2, 3, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(turns) == 900
