"""Work that is tried until it works."""

import asyncio

import structlog

from baton.controller.problems import Problem
from baton.controller.retrying import Retrying
from baton.kube.clock import ApiServerClock
from baton.kube.errors import UnavailableError
from baton.simulation import virtual_time


def test_it_fails_from_the_first_attempt_that_failed_until_one_has_worked() -> None:
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
