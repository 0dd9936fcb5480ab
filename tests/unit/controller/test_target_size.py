"""The size of a workload that somebody else scales is read again, whatever became of the last try."""

import asyncio

from baton.controller.scaling import TargetSize
from baton.controller.supervision import Tasks
from baton.kube.clock import ApiServerClock
from baton.kube.scale import Scaler, Target
from tests.waiting import PATIENCE, eventually

TARGET = Target("shop", "apps/v1", "Deployment", "consumers")


class OddAtFirst(Scaler):
    """An API server whose first answer nobody expects."""

    def __init__(self) -> None:
        self.asked = 0

    async def size(self, target: Target) -> int:
        self.asked += 1
        if self.asked == 1:
            raise KeyError("kind")
        return 4


async def test_one_that_failed_unexpectedly_is_followed_by_another() -> None:
    scaler, changed, tasks = OddAtFirst(), asyncio.Event(), Tasks(ApiServerClock())
    size = TargetSize(("shop", "orders"), scaler, tasks, changed.set)
    size.follow(TARGET, 2)

    async def failed() -> bool:
        return tasks.failures["target-size"] == 1

    await eventually(failed, "that is told")
    size.recheck()
    size.follow(TARGET, 2)
    async with asyncio.timeout(PATIENCE):
        await changed.wait()
    assert (size.pods_asked_for, scaler.asked) == (4, 2)
