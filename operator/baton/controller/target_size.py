"""The size of a workload that somebody else scales (mode External): it is read, and never written."""

import asyncio
from collections.abc import Callable

from baton.controller.cluster_cache import GroupKey
from baton.controller.problems import Problem
from baton.controller.refused_scales import refused_scale
from baton.controller.supervision import Tasks
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.scale import ScaleError, Scaler, Target


class TargetSize:
    """One group's. It is read again when the number of its pods has changed, and after `recheck`."""

    def __init__(self, key: GroupKey, scaler: Scaler, tasks: Tasks, changed: Callable[[], None]) -> None:
        """`changed` is called when another size was read, and when a problem came or went."""
        self._key = key
        self._scaler = scaler
        self._tasks = tasks
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._target: Target | None = None
        self._pods = 0
        self._read_for: tuple[Target, int] | None = None
        """What was looked at last, with how many pods."""
        self._size: int | None = None
        self.problem: Problem | None = None

    @property
    def pods_asked_for(self) -> int | None:
        """How many pods there are to be. None: not known. Where there are more pods than the target's size, others than the
        target's have the group's label too, or its size has just been changed."""
        return self._size if self._size is not None and self._pods <= self._size else None

    def follow(self, target: Target | None, pods: int) -> None:
        """See to it that the size of this target is known. `pods`: how many of the group there are, without those that stop."""
        if target != self._target:
            self.close()
            self._size, self.problem, self._read_for = None, None, None
        self._target, self._pods = target, pods
        at_work = self._task is not None and not self._task.done()  # one that failed is followed by another
        if target is not None and not at_work and self._read_for != (target, pods):
            self._read_for = (target, pods)
            self._task = self._tasks.start("target-size", self._read(target), namespace=self._key[0], group=self._key[1])

    def recheck(self) -> bool:
        """Somebody may have scaled it. False: there is no target."""
        self._read_for = None
        return self._target is not None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _read(self, target: Target) -> None:
        before = (self._size, self.problem)
        try:
            size, problem = await self._scaler.size(target), None
        except (ScaleError, ApiError, UnavailableError) as error:
            size, problem = None, refused_scale(error, f"the size of {target} cannot be read")
        if target == self._target:
            self._size, self.problem = size, problem
            if (size, problem) != before or self._read_for != (target, self._pods):
                self._changed()
