"""Work on many partitions: so many at a time, all of them are tried, and what is done stays done."""

import asyncio
from types import SimpleNamespace

import pytest

from baton.queues.kafka import event_loop
from baton.queues.kafka.event_loop import AT_ONCE, each


async def test_all_are_done_and_so_many_at_a_time() -> None:
    under_way = most = 0

    async def doubled(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 2 * number

    assert await each(doubled, range(1000)) == {number: 2 * number for number in range(1000)}
    assert most == AT_ONCE


async def test_where_one_fails_the_others_are_done_all_the_same() -> None:
    done = set()

    async def odd(number: int) -> None:
        if number % 2 == 0:
            raise ValueError(number)
        done.add(number)

    with pytest.raises(ValueError, match=r"^0$"):
        await each(odd, range(1000))
    assert done == set(range(1, 1000, 2))


async def test_none_is_begun_when_the_time_is_over_and_what_was_begun_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now, begun = 0.0, []
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=lambda: now))

    async def lasts(number: int) -> int:
        nonlocal now
        begun.append(number)
        await asyncio.sleep(0)
        now += 1.0
        return number

    found = await each(lasts, range(1000), 0.5)
    assert list(found) == begun == list(range(AT_ONCE))
