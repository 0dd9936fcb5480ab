"""Carries out spec.scale at a workload: in mode Workload the target's size, and which of its pods it may lose. In mode External
it looks only. The group does not wait for it: each pod's mark passes the webhooks of its namespace."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from baton.api import ConsumerGroupSpec
from baton.api.group import ScaleMode
from baton.controller.cluster_cache import GroupKey
from baton.controller.problems import EventReason, Problem, Reason
from baton.controller.supervision import Tasks
from baton.kube.errors import FORBIDDEN, ApiError, UnavailableError
from baton.kube.members import GroupMembers
from baton.kube.pods import PodView
from baton.kube.scale import VICTIM_COST, GroupReplicas, Mark, ScaleError, Scaler, Target, marks, victims
from baton.model.ids import MemberId, Uid
from baton.model.wording import first_of


def refused_scale(error: Exception, what: str) -> Problem:
    """`what`: the sentence about what could not be done, unless the error says it."""
    if isinstance(error, ScaleError):
        return Problem(Reason.SCALE_FAILED, str(error))
    cure = "; is its kind among the chart's value rbac.scaleTargets?" if getattr(error, "status", None) == FORBIDDEN else ""
    return Problem(Reason.SCALE_FAILED, f"spec.scale: {what}: {error}{cure}")


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


Size = tuple[Target, int | None]
"""A target, and how many replicas it is to have. None: as many as it has, and the group is to say so."""

Done = tuple[EventReason, str]
"""What the operator has done, as an event tells it."""


class Scaling:
    """One group's. A task does the work: first the pods' marks and then, when all of them are there, the size."""

    def __init__(self, key: GroupKey, scaler: Scaler, replicas: GroupReplicas, tasks: Tasks, changed: Callable[[], None]) -> None:
        """`changed` is called when something was scaled or read, and when a problem came or went."""
        self._key = key
        self._scaler = scaler
        self._replicas = replicas
        self._size_of_others = TargetSize(key, scaler, tasks, changed)
        self._tasks = tasks
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._for: Size | None = None
        """What the task is to bring about; None: that no pod is marked."""
        self._applied: Size | None = None
        self._marked: set[Uid] | None = None
        """Pods that may bear the operator's deletion cost. None: their marks were not looked at yet."""
        self._refused: Problem | None = None
        self._said: Done | None = None
        self.spared = False
        """No pod is marked, as far as the pods let that be done."""

    @property
    def problem(self) -> Problem | None:
        return self._refused or self._size_of_others.problem

    def close(self) -> None:
        self._size_of_others.close()
        if self._task is not None:
            self._task.cancel()

    def asked_for(self, spec: ConsumerGroupSpec) -> int | None:
        """How many pods there are to be, as far as that is known: by spec.replicas, or by the workload that others scale."""
        if spec.scale is not None and spec.scale.mode is ScaleMode.EXTERNAL:
            return self._size_of_others.pods_asked_for
        return spec.replicas

    def recheck(self) -> bool:
        """Somebody may have scaled the target by hand. False: there is no target."""
        known = self._applied is not None or self._refused is not None
        self._applied = None
        return self._size_of_others.recheck() or known

    def apply(
        self, spec: ConsumerGroupSpec, seen: GroupMembers, pods: Iterable[PodView], owned: Mapping[MemberId, int], why: str = ""
    ) -> Done | None:
        """See to it that what the spec says is done; returns what was done since the last time. `why`: see `held_back`."""
        target = target_of(self._key[0], spec)
        self._size_of_others.follow(None if scaled_here(spec) else target, seen.pods)
        if target is None or not scaled_here(spec):
            self._spare(spec, pods)
        elif spec.replicas is None:
            self._ask_for_present_size(spec, target, pods)
        else:
            self._resize(spec, (target, spec.replicas), seen, pods, owned, why)
        said, self._said = self._said, None
        return said

    def spare(self, spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> None:
        """The group goes: the operator scales nothing more, and no pod is left marked."""
        self._size_of_others.follow(None, 0)
        self._spare(spec, pods)

    def _resize(
        self,
        spec: ConsumerGroupSpec,
        size: tuple[Target, int],
        seen: GroupMembers,
        pods: Iterable[PodView],
        owned: Mapping[MemberId, int],
        why: str,
    ) -> None:
        self.spared = False
        if self._applied != size and self._free_for(size):
            there = [pod for pod in pods if not pod.terminating]
            chosen = victims(there, seen.members, owned, size[1])
            self._marked = self._marks(spec, there) | {pod.uid for pod in there if pod.name in chosen}
            self._begin(size, self._scale(size, marks(there, chosen), why))

    def _ask_for_present_size(self, spec: ConsumerGroupSpec, target: Target, pods: Iterable[PodView]) -> None:
        size = (target, None)
        if self._free_for(size) and ((wanted := self._to_unmark(spec, pods)) or self._applied != size):
            self._begin(size, self._seed(size, wanted, spec))

    def _spare(self, spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> None:
        self._applied = None
        if not self._free_for(None):
            return
        if wanted := self._to_unmark(spec, pods):
            self._begin(None, self._unmark(wanted))
        else:
            self._refused, self.spared = None, True

    def _to_unmark(self, spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> list[Mark]:
        there = [pod for pod in pods if not pod.terminating]
        marked = self._marked = self._marks(spec, there)
        return marks([pod for pod in there if pod.uid in marked], frozenset())

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

    async def _scale(self, size: tuple[Target, int], wanted: list[Mark], why: str) -> None:
        target, replicas = size
        if not await self._mark(wanted):
            return
        try:
            before = await self._scaler.scale(target, replicas)
        except (ScaleError, ApiError, UnavailableError) as error:
            self._refused = refused_scale(error, f"{target} cannot be scaled")
            return
        self._applied, self._refused = size, None
        if before is not None:
            self._said = (EventReason.SCALED, f"scaled {target} from {before} to {replicas}{why and f': {why}'}")

    async def _seed(self, size: Size, wanted: list[Mark], spec: ConsumerGroupSpec) -> None:
        target = size[0]
        if spec.scale is None or not await self._mark(wanted):
            return
        try:
            replicas = await self._replicas.set_to_size_of(target, spec.scale)
        except (ScaleError, ApiError, UnavailableError) as error:
            self._refused = refused_scale(error, f"spec.replicas cannot be set to the size of {target}")
            return
        self._applied, self._refused = size, None
        if replicas is not None:
            self._said = (EventReason.REPLICAS_SET, f"set spec.replicas, which was absent, to {replicas}, the size of {target}")

    async def _unmark(self, wanted: list[Mark]) -> None:
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
        ours = scaled_here(spec)
        return {pod.uid for pod in there if ours and pod.deletion_cost == VICTIM_COST}


def scaled_here(spec: ConsumerGroupSpec) -> bool:
    """Whether the operator is who scales the target."""
    return spec.scale is not None and spec.scale.mode is ScaleMode.WORKLOAD and spec.scale.target_ref is not None


def target_of(namespace: str, spec: ConsumerGroupSpec) -> Target | None:
    """What spec.scale.targetRef names; None: there is no such thing."""
    if spec.scale is None or spec.scale.target_ref is None:
        return None
    reference = spec.scale.target_ref
    return Target(namespace, reference.api_version, reference.kind, reference.name)
