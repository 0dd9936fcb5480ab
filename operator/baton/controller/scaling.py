"""Carries out spec.replicas in mode Workload: the target's size, and which of its pods it may lose. The group does not wait for
it: each pod's mark passes the webhooks of its namespace."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from baton.api import ConsumerGroupSpec
from baton.controller.cluster_cache import GroupKey
from baton.controller.problems import Problem, Reason
from baton.controller.supervision import Tasks
from baton.kube.api import FORBIDDEN, ApiError, UnavailableError
from baton.kube.members import GroupMembers
from baton.kube.pods import PodView
from baton.kube.scale import VICTIM_COST, Mark, ScaleError, Scaler, Target, marks, victims
from baton.model.ids import MemberId, Uid
from baton.model.wording import first_of

Size = tuple[Target, int]
"""A target, and how many replicas it is to have."""


class Scaling:
    """One group's. A task does the work: first the pods' marks and then, when all of them are there, the size."""

    def __init__(self, key: GroupKey, scaler: Scaler, tasks: Tasks, changed: Callable[[], None]) -> None:
        """`changed` is called when the target was scaled, and when a problem came or went."""
        self._key = key
        self._scaler = scaler
        self._tasks = tasks
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._for: Size | None = None
        """What the task is to bring about; None: that no pod is marked."""
        self._applied: Size | None = None
        self._found: tuple[Target, int, int] | None = None
        """A target that somebody else scales, as it was when no member was to stay: its size, and how many pods were there."""
        self._marked: set[Uid] | None = None
        """Pods that may bear the operator's deletion cost. None: their marks were not looked at yet."""
        self._unread: Problem | None = None
        self._refused: Problem | None = None
        self._said: str | None = None
        self.spared = False
        """No pod is marked, as far as the pods let that be done."""

    @property
    def problem(self) -> Problem | None:
        return self._refused or self._unread

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def asked_for(self, spec: ConsumerGroupSpec) -> int | None:
        """How many pods there are to be, as far as that is known: what spec.replicas says, or that there are to be none."""
        if spec.scale is None or spec.replicas is not None:
            return spec.replicas
        return 0 if self._found is not None and self._found[1] == self._found[2] == 0 else None

    def recheck(self) -> bool:
        """Somebody may have scaled the target by hand. False: there is no target."""
        known = self._applied is not None or self._found is not None or self.problem is not None
        self._applied, self._found = None, None
        return known

    async def apply(
        self, spec: ConsumerGroupSpec, seen: GroupMembers, pods: Iterable[PodView], owned: Mapping[MemberId, int]
    ) -> str | None:
        """See to it that what the spec says is done; returns a sentence if the target was scaled since the last time."""
        target = target_of(self._key[0], spec)
        if target is None or spec.replicas is None:
            self.spare(spec, pods)
            if target is not None:
                await self._look_at(target, seen)
            return None
        self._found, self._unread, self.spared = None, None, False
        size = (target, spec.replicas)
        if self._applied != size and self._free_for(size):
            staying = {name: member for name, member in seen.members.items() if not member.terminating}
            joined = {name: member.joined for name, member in staying.items()}
            chosen = victims({name: owned.get(name, 0) for name in staying}, joined, spec.replicas)
            there = [pod for pod in pods if not pod.terminating]
            self._marked = self._marks(spec, there) | {pod.uid for pod in there if pod.name in chosen}
            self._begin(size, self._scale(size, marks(there, chosen)))
        said, self._said = self._said, None
        return said

    def spare(self, spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> None:
        """The operator is to scale nothing, or not any more: no pod is left marked."""
        self._applied = None
        if target_of(self._key[0], spec) is None:
            self._found, self._unread = None, None
        if not self._free_for(None):
            return
        there = [pod for pod in pods if not pod.terminating]
        marked = self._marked = self._marks(spec, there)
        wanted = marks([pod for pod in there if pod.uid in marked], frozenset())
        if wanted:
            self._begin(None, self._spare(wanted))
        else:
            self._refused, self.spared = None, True

    def _free_for(self, size: Size | None) -> bool:
        """Nothing is under way. What is, for another size, ends."""
        if self._task is not None and self._for != size:
            self._task.cancel()
        return self._task is None

    def _begin(self, size: Size | None, work: Coroutine[Any, Any, None]) -> None:
        self._for = size
        before = self._refused
        self._task = self._tasks.start("scale", work, namespace=self._key[0], group=self._key[1])

        def ended(task: asyncio.Task[None]) -> None:
            self._task = None
            if task.cancelled() or self._said is not None or (self._refused is None) != (before is None):
                self._changed()

        self._task.add_done_callback(ended)

    async def _scale(self, size: Size, wanted: list[Mark]) -> None:
        target, replicas = size
        if not await self._mark(wanted):
            return
        try:
            before = await self._scaler.scale(target, replicas)
        except (ScaleError, ApiError, UnavailableError) as error:
            self._refused = _problem(error, f"{target} cannot be scaled")
            return
        self._applied, self._refused = size, None
        if before is not None:
            self._said = f"scaled {target} from {before} to {replicas}"

    async def _spare(self, wanted: list[Mark]) -> None:
        if await self._mark(wanted):
            self._refused = None
        self.spared = True

    async def _mark(self, wanted: list[Mark]) -> bool:
        """False: not all pods let it be done."""
        refusals = await self._scaler.mark(wanted)
        if refusals:
            told = f"spec.scale: the deletion cost cannot be changed of {first_of(refusals, 1)}; see to what refuses it"
            self._refused = Problem(Reason.SCALE_FAILED, told)
        return not refusals

    def _marks(self, spec: ConsumerGroupSpec, there: list[PodView]) -> set[Uid]:
        """Pods whose marks are the operator's. A cost of that height may also be a user's: those that are found count where the
        spec names a target that the operator scales."""
        if self._marked is not None:
            return self._marked & {pod.uid for pod in there}
        ours = target_of(self._key[0], spec) is not None
        return {pod.uid for pod in there if ours and pod.deletion_cost == VICTIM_COST}

    async def _look_at(self, target: Target, seen: GroupMembers) -> None:
        """Somebody else scales it, and its size says whether nobody is meant to be there."""
        if seen.staying:
            self._found, self._unread = None, None
        elif self._found is None or (self._found[0], self._found[2]) != (target, seen.pods):
            try:
                self._found, self._unread = (target, await self._scaler.size(target), seen.pods), None
            except (ScaleError, ApiError, UnavailableError) as error:
                self._unread = _problem(error, f"the size of {target} cannot be read")


def _problem(error: Exception, what: str) -> Problem:
    if isinstance(error, ScaleError):
        return Problem(Reason.SCALE_FAILED, str(error))
    cure = "; is its kind among the chart's value rbac.scaleTargets?" if getattr(error, "status", None) == FORBIDDEN else ""
    return Problem(Reason.SCALE_FAILED, f"spec.scale: {what}: {error}{cure}")


def target_of(namespace: str, spec: ConsumerGroupSpec) -> Target | None:
    """What spec.scale.targetRef names; None: there is nothing that the operator scales."""
    if spec.scale is None or spec.scale.target_ref is None:
        return None
    reference = spec.scale.target_ref
    return Target(namespace, reference.api_version, reference.kind, reference.name)
