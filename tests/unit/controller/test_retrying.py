"""Work that is tried until it works, and since when an attempt is under way: who looks for what hangs goes by that."""

import asyncio

import structlog

from baton.controller.problems import Problem
from baton.controller.retrying import Retrying
from baton.kube.clock import ApiServerClock
from baton.kube.errors import UnavailableError
from baton.simulation import virtual_time


def test_nothing_is_under_way_between_attempts_nor_when_one_has_worked() -> None:
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
        for busy_since, failing in ((0.0, False), (None, True), (10.5, True)):  # it works, waits half a second, works again
            await asyncio.sleep(5 if busy_since is not None else 5.25)
            assert (retrying.busy_since, retrying.failing) == (busy_since, failing), loop.time()
        assert await working
        assert (retrying.busy_since, retrying.failing) == (None, False)

    virtual_time.run(story())
