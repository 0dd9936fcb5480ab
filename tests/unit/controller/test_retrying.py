"""Work that is retried until it succeeds."""

import asyncio

import structlog

from baton.controller.problems import Problem
from baton.controller.retrying import AT_ONCE, Retrying, RoundPacing
from baton.kube.clock import ApiServerClock
from baton.kube.errors import UnavailableError
from baton.simulation import virtual_time
from tests.waiting import PATIENCE


def test_work_fails_from_its_first_failed_attempt_until_one_works() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        said: list[Problem] = []
        retrying = Retrying(ApiServerClock(loop.time, loop.time), said.append, structlog.get_logger())
        fails = [True, False]

        async def work() -> bool:
            await asyncio.sleep(10)
            if fails.pop(0):
                raise UnavailableError("away")
            return True

        working = asyncio.create_task(retrying.until_it_works(work))
        for seconds, failing in ((5, False), (5.25, True), (5, True)):  # it works, waits half a second, works again
            await asyncio.sleep(seconds)
            assert retrying.failing == failing, loop.time()
        assert await working
        assert not retrying.failing

    virtual_time.run(story())


async def test_other_work_gets_a_turn_between_batches_of_rounds() -> None:
    pace = RoundPacing()
    went: list[str] = []

    async def one(name: str) -> None:
        await pace.turn()
        went.append(name)

    rounds = [asyncio.create_task(one(str(number))) for number in range(3 * AT_ONCE)]
    for _ in range(20):
        await asyncio.sleep(0)
        went.append("another")
    assert [name for name in went if name != "another"] == [str(number) for number in range(3 * AT_ONCE)]
    between = "".join("|" if name == "another" else "." for name in went).split("|")
    assert max(map(len, between)) == AT_ONCE
    await asyncio.gather(*rounds)


async def test_a_cancelled_round_delays_no_other() -> None:
    pace = RoundPacing()
    waiting = [asyncio.create_task(pace.turn()) for _ in range(3 * AT_ONCE)]
    await asyncio.sleep(0)
    for one in waiting[AT_ONCE:]:
        one.cancel()
    async with asyncio.timeout(PATIENCE):
        await pace.turn()
    await asyncio.gather(*waiting, return_exceptions=True)
