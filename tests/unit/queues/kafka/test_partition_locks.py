"""Who commits one partition keeps nobody from committing others."""

import asyncio
import time

import pytest

from baton.queues.kafka.commits import PartitionLocks


def free(locks: PartitionLocks) -> set[int]:
    with locks.free([1, 2, 3]) as found:
        return found


async def test_those_that_nobody_has_are_free() -> None:
    locks = PartitionLocks()
    async with locks.held([1, 3]):
        assert free(locks) == {2}
        async with locks.held([2]):
            assert free(locks) == set()
    with locks.free([1]):
        assert free(locks) == {2, 3}
    assert free(locks) == {1, 2, 3}


async def test_what_cannot_be_had_in_time_keeps_nothing() -> None:
    locks = PartitionLocks()
    async with locks.held([2]):
        with pytest.raises(TimeoutError):
            async with locks.held([1, 2, 3], time.monotonic() + 0.01):
                pass
        assert free(locks) == {1, 3}
    async with locks.held([1, 2, 3], time.monotonic() + 0.01):
        assert free(locks) == set()


async def test_those_who_want_the_same_in_another_order_do_not_wait_for_each_other() -> None:
    locks, turns, has = PartitionLocks(), list[int](), set[int]()

    async def take(*wanted: int) -> None:
        for _ in range(300):
            async with locks.held(wanted):
                assert not has & set(wanted)
                has.update(wanted)
                await asyncio.sleep(0)
                has.difference_update(wanted)
                turns.append(wanted[0])

    await asyncio.gather(take(1, 2), take(2, 1), take(2, 3, 1))
    assert len(turns) == 900
