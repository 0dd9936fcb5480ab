"""Questions for one partition each, and what is asked of the coordinator."""

import asyncio

import pytest

from baton.queues.kafka.event_loop import AskedTogether
from baton.queues.kafka.record import Committed
from baton.queues.protocol import QueueUnreachable


class Coordinator:
    """Answers when it is `open`. Of odd partitions a commit is under way."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.is_asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.away = False

    async def ask(self, partitions: tuple[int, ...]) -> tuple[dict[int, Committed], tuple[int, ...]]:
        self.asked.append(partitions)
        self.is_asked.set()
        await self.open.wait()
        if self.away:
            raise QueueUnreachable("no broker answers")
        return {one: Committed(one, None) for one in partitions if one % 2 == 0}, tuple(one for one in partitions if one % 2)


async def test_what_is_asked_at_the_same_time_is_one_question() -> None:
    coordinator = Coordinator()
    together = AskedTogether(coordinator.ask)
    assert await asyncio.gather(*map(together.of, (2, 1, 4))) == [Committed(2, None), None, Committed(4, None)]
    assert await together.of(6) == Committed(6, None)
    assert coordinator.asked == [(1, 2, 4), (6,)]


async def test_who_asks_after_a_question_was_sent_has_another() -> None:
    coordinator = Coordinator()
    coordinator.open.clear()
    together = AskedTogether(coordinator.ask)
    first = asyncio.create_task(together.of(2))
    await coordinator.is_asked.wait()
    coordinator.is_asked.clear()
    second = asyncio.create_task(together.of(2))
    await coordinator.is_asked.wait()
    coordinator.open.set()
    assert [await first, await second] == [Committed(2, None)] * 2


async def test_all_are_told_of_a_failure_and_who_gives_up_takes_no_answer_from_others() -> None:
    coordinator = Coordinator()
    together = AskedTogether(coordinator.ask)
    gone, patient = asyncio.create_task(together.of(2)), asyncio.create_task(together.of(4))
    await asyncio.sleep(0)
    gone.cancel()
    assert await patient == Committed(4, None)
    coordinator.away = True
    for answer in await asyncio.gather(together.of(2), together.of(4), return_exceptions=True):
        with pytest.raises(QueueUnreachable, match="no broker answers"):
            raise answer  # type: ignore[misc]
