"""Carries out spec.scale at the workload behind a group.

In mode Workload it sets the target's size through /scale, and the deletion cost of pods that the target should remove first. In
mode External it only reads the target's size. The group does not wait for that, because webhooks may slow the pods' patches down.

The API server answers GET /scale of a custom resource with 500 if its replicas are absent, so no autoscaler could begin. So an
absent spec.replicas of a group in mode Workload is set to the present size of the target.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from baton.api import ConsumerGroupSpec
from baton.api.group import Scale, ScaleMode
from baton.controller.cluster_cache import GroupKey
from baton.controller.problems import EventReason, Problem, Reason
from baton.controller.supervision import Tasks
from baton.engine.observation import ObservedMember
from baton.kube.api import Api, Json, core_path, group_path
from baton.kube.errors import FORBIDDEN, ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.members import GroupMembers
from baton.kube.objects import group_view, groups_path
from baton.kube.pods import DELETION_COST, PodView
from baton.model.ids import MemberId, Uid
from baton.model.wording import first_of

VICTIM_COST = "-1000"

AT_ONCE = 4
"""Pods of a group that are patched at once. Less than the bound on requests in a namespace with a slow webhook, so that no
request waits until it is dropped, and writes of the ledger find room."""

TRIES = 5
"""Tries to set spec.replicas. Conflicts are likely, because the operator itself writes the group's status."""

Mark = tuple[PodView, str | None]
"""A pod and its new deletion cost; None: the deletion cost is removed."""

Done = tuple[EventReason, str]
"""An action of the operator: reason and message of its event."""


class ScaleError(Exception):
    """The target cannot be scaled. The message names the field and the cure."""


@dataclass(frozen=True, slots=True)
class Target:
    """A workload in the group's namespace that has a /scale."""

    namespace: str
    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


Goal = tuple[Target, ScaleMode, int | None]
"""A target, and the number of replicas that it should have; None: as many as it has."""


class Scaler:
    """Finds, reads and writes the /scale of targets. Methods raise what `Api` raises, and ScaleError."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._plurals: dict[tuple[str, str], str] = {}

    async def size(self, target: Target) -> int:
        """Return the target's spec.replicas."""
        try:
            found = await self.api.get(await self._path(target))
        except NotFoundError:
            raise ScaleError(f"spec.scale.targetRef: there is no {target}; create it, or correct the reference") from None
        return int((found.get("spec") or {}).get("replicas") or 0)

    async def resize(self, target: Target, replicas: int) -> None:
        await self.api.merge(await self._path(target), {"spec": {"replicas": replicas}})

    async def _path(self, target: Target) -> str:
        key = (target.api_version, target.kind)
        if key not in self._plurals:
            self._plurals[key] = await self._plural(target)
        if "/" in target.api_version:
            return group_path(target.api_version, target.namespace, self._plurals[key], target.name) + "/scale"
        return core_path(target.namespace, self._plurals[key], target.name) + "/scale"

    async def _plural(self, target: Target) -> str:
        root = f"/apis/{target.api_version}" if "/" in target.api_version else f"/api/{target.api_version}"
        try:
            resources = (await self.api.get(root)).get("resources") or []
        except NotFoundError:
            resources = []
        names = {str(resource["name"]) for resource in resources}
        for resource in resources:
            if resource["kind"] == target.kind and f"{resource['name']}/scale" in names:
                return str(resource["name"])
        raise ScaleError(
            f"spec.scale.targetRef: {target.api_version} {target.kind} is not a kind that can be scaled here; name one that "
            "has a /scale, such as apps/v1 Deployment or StatefulSet"
        )


class Scaling:
    """Scales one group's target. One task at a time marks the pods first and then, once all are marked, sets the size."""

    def __init__(self, key: GroupKey, uid: str, scaler: Scaler, tasks: Tasks, changed: Callable[[], None]) -> None:
        """`changed` is called when the target was scaled, another size was read, or a problem came or went."""
        self._key = key
        self._uid = uid
        self._scaler = scaler
        self._tasks = tasks
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._for: Goal | None = None
        """The goal of the task; None: that no pod is marked."""
        self._applied: Goal | None = None
        self._pods = 0
        """The number of the group's pods, without stopping ones."""
        self._read_with: int | None = None
        """The number of pods when the target's size was read."""
        self._size: tuple[Target, int] | None = None
        """The target and its size, as set by others; None: unknown."""
        self._marked: set[Uid] | None = None
        """Pods that may have the operator's deletion cost. None: their marks have not been looked at yet."""
        self.problem: Problem | None = None
        self._done: Done | None = None
        self.spared = False
        """No pod is marked, except those whose mark could not be removed."""

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def asked_for(self, spec: ConsumerGroupSpec) -> int | None:
        """Return the number of requested pods, from spec.replicas or the workload that others scale; None: not known.

        If there are more pods than the size of that workload, other pods have the group's label too, or its size has just
        changed.
        """
        if spec.scale is None or spec.scale.mode is not ScaleMode.EXTERNAL:
            return spec.replicas
        target, size = self._size or (None, 0)
        return size if target == target_of(self._key[0], spec) and self._pods <= size else None

    def recheck(self) -> bool:
        """Check the target again, because it may have been scaled by hand. Returns False if there is no target."""
        known = self._applied is not None or self.problem is not None
        self._applied = None
        return known

    def apply(
        self, spec: ConsumerGroupSpec, seen: GroupMembers, pods: Iterable[PodView], owned: Mapping[MemberId, int], why: str = ""
    ) -> Done | None:
        """Start what the spec needs, and return what was done since the last call. `why`: see `held_back`."""
        done, self._done = self._done, None
        target, self._pods = target_of(self._key[0], spec), seen.pods
        if spec.scale is None or target is None:
            self.spare(spec, pods)
            return done
        there = [pod for pod in pods if not pod.terminating]
        external = spec.scale.mode is not ScaleMode.WORKLOAD
        goal = (target, spec.scale.mode, None if external else spec.replicas)
        self.spared &= goal[2] is None
        if not external:
            self._size = self._read_with = None
        if not self._free_for(goal):
            return done
        if external:
            if (wanted := self._to_unmark(spec, there)) or self._applied != goal or self._read_with != seen.pods:
                self._begin(goal, self._read(goal, wanted), tried_again=bool(wanted))
        elif spec.replicas is None:
            if (wanted := self._to_unmark(spec, there)) or self._applied != goal:
                self._begin(goal, self._seed(goal, wanted, spec.scale))
        elif self._applied != goal:
            chosen = victims(there, seen.members, owned, spec.replicas)
            self._marked = self._marks(spec, there) | {pod.uid for pod in there if pod.name in chosen}
            self._begin(goal, self._scale(goal, spec.replicas, marks(there, chosen), why))
        return done

    def spare(self, spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> None:
        """Scale nothing, and leave no pod marked."""
        self._applied = self._size = self._read_with = None
        if not self._free_for(None):
            return
        if wanted := self._to_unmark(spec, [pod for pod in pods if not pod.terminating]):
            self._begin(None, self._unmark(wanted))
        else:
            self.problem, self.spared = None, True

    def _free_for(self, goal: Goal | None) -> bool:
        """Return True if no task runs. A task for another goal is cancelled."""
        if self._task is not None and self._for != goal:
            self._task.cancel()
        return self._task is None

    def _begin(self, goal: Goal | None, work: Coroutine[Any, Any, None], *, tried_again: bool = True) -> None:
        """Start a task. `tried_again`: if it fails, the next `apply` starts it again."""
        self._for = goal
        external = goal is not None and goal[1] is not ScaleMode.WORKLOAD
        before, size = self.problem, self._size
        self._task = self._tasks.start("target-size" if external else "scale", work, namespace=self._key[0], group=self._key[1])

        def ended(task: asyncio.Task[None]) -> None:
            self._task = None
            # The message of a refusal may differ each time, and must not wake the loop that tries again.
            trouble = (self.problem is None) != (before is None) if tried_again else self.problem != before
            outdated = self._read_with not in (None, self._pods)
            if task.cancelled() or self._done is not None or trouble or outdated or self._size != size:
                self._changed()

        self._task.add_done_callback(ended)

    async def _scale(self, goal: Goal, replicas: int, wanted: list[Mark], why: str) -> None:
        target = goal[0]
        if not await self._mark(wanted):
            return
        try:
            before = await self._scaler.size(target)
            if before != replicas:
                await self._scaler.resize(target, replicas)
        except (ScaleError, ApiError, UnavailableError) as error:
            self.problem = refused_scale(error, f"{target} cannot be scaled")
            return
        self._applied, self.problem = goal, None
        if before != replicas:
            self._done = (EventReason.SCALED, f"scaled {target} from {before} to {replicas}{why and f': {why}'}")

    async def _seed(self, goal: Goal, wanted: list[Mark], scale: Scale) -> None:
        target = goal[0]
        if not await self._mark(wanted):
            return
        try:
            replicas = await self._set_replicas(target, scale)
        except (ScaleError, ApiError, UnavailableError) as error:
            self.problem = refused_scale(error, f"spec.replicas cannot be set to the size of {target}")
            return
        self._applied, self.problem = goal, None
        if replicas is not None:
            self._done = (EventReason.REPLICAS_SET, f"set spec.replicas, which was absent, to {replicas}, the size of {target}")

    async def _set_replicas(self, target: Target, scale: Scale) -> int | None:
        """Set spec.replicas if it is absent and spec.scale still is `scale`, and never overwrite another value.

        Returns the new value; None: it was not set. Raises ConflictError if others write the group all the time.
        """
        api, path = self._scaler.api, groups_path(*self._key)
        for left in reversed(range(TRIES)):
            try:
                group = group_view(await api.get(path))
                if group.uid != self._uid or group.deleting or group.spec is None:
                    return None
                if group.spec.replicas is not None or group.spec.scale != scale:
                    return None
                size = await self._scaler.size(target)
                metadata = {"uid": group.uid, "resourceVersion": group.version}
                await api.merge(path, {"metadata": metadata, "spec": {"replicas": size}})
                return size
            except NotFoundError:
                return None
            except ConflictError:
                if not left:
                    raise
        return None

    async def _read(self, goal: Goal, wanted: list[Mark]) -> None:
        """Read the size of a target that others scale."""
        target, self._read_with = goal[0], self._pods
        marked = await self._mark(wanted)
        try:
            self._size = target, await self._scaler.size(target)
            self.problem = None if marked else self.problem
        except (ScaleError, ApiError, UnavailableError) as error:
            self._size, self.problem = None, refused_scale(error, f"the size of {target} cannot be read")
        self._applied = goal

    async def _unmark(self, wanted: list[Mark]) -> None:
        if await self._mark(wanted):
            self.problem = None
        self.spared = True

    async def _mark(self, wanted: list[Mark]) -> bool:
        """Change the deletion cost of these pods, a few at once. Returns False if that failed for any pod that still exists."""
        room = asyncio.Semaphore(AT_ONCE)
        answers = await asyncio.gather(*(self._cost(room, pod, cost) for pod, cost in wanted))
        if refusals := [answer for answer in answers if answer is not None]:
            why = f"spec.scale: the deletion cost of a pod cannot be changed: {first_of(refusals, 1)}; correct what refuses it"
            self.problem = Problem(Reason.SCALE_FAILED, why)
        return not refusals

    async def _cost(self, room: asyncio.Semaphore, pod: PodView, cost: str | None) -> str | None:
        patch: Json = {"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: cost}}}
        try:
            async with room:
                await self._scaler.api.merge(core_path(pod.namespace, "pods", pod.name), patch)
        except (NotFoundError, ConflictError):
            pass
        except (ApiError, UnavailableError) as error:
            return f"{pod.name}: {error}"
        return None

    def _to_unmark(self, spec: ConsumerGroupSpec, there: list[PodView]) -> list[Mark]:
        marked = self._marked = self._marks(spec, there)
        return marks([pod for pod in there if pod.uid in marked], frozenset())

    def _marks(self, spec: ConsumerGroupSpec, there: list[PodView]) -> set[Uid]:
        """Return the pods with the operator's mark. A user may have set the same cost, so marks that the operator finds at its
        start count only if the spec names a target that it scales."""
        if self._marked is not None:
            return self._marked & {pod.uid for pod in there}
        ours = spec.scale is not None and spec.scale.mode is ScaleMode.WORKLOAD and spec.scale.target_ref is not None
        return {pod.uid for pod in there if ours and pod.deletion_cost == VICTIM_COST}


def refused_scale(error: Exception, what: str) -> Problem:
    """Return the problem of a failure. `what`: what could not be done, unless the error says it."""
    if isinstance(error, ScaleError):
        return Problem(Reason.SCALE_FAILED, str(error))
    cure = "; is its kind among the chart's value rbac.scaleTargets?" if getattr(error, "status", None) == FORBIDDEN else ""
    return Problem(Reason.SCALE_FAILED, f"spec.scale: {what}: {error}{cure}")


def target_of(namespace: str, spec: ConsumerGroupSpec) -> Target | None:
    """Return the target that spec.scale.targetRef names; None: it names no target."""
    if spec.scale is None or spec.scale.target_ref is None:
        return None
    reference = spec.scale.target_ref
    return Target(namespace, reference.api_version, reference.kind, reference.name)


def marks(pods: Iterable[PodView], victims: Set[MemberId]) -> list[Mark]:
    """Return the pods whose deletion cost has to change, so that only the victims have the lowest one."""
    wanted: list[Mark] = []
    for pod in pods:
        if pod.name in victims and pod.deletion_cost is None:
            wanted.append((pod, VICTIM_COST))
        elif pod.name not in victims and pod.deletion_cost == VICTIM_COST:
            wanted.append((pod, None))
    return wanted


def victims(
    pods: Iterable[PodView], members: Mapping[MemberId, ObservedMember], owned: Mapping[MemberId, int], replicas: int
) -> frozenset[MemberId]:
    """Return the pods whose loss costs the fewest moves, as many as exceed `replicas`.

    First come pods that take no part (those that are not Ready first), then draining pods, then those with the fewest partitions,
    then the youngest. Stopping pods are left out. The workload counts every other pod, whether or not it is a member.
    """

    def cost(pod: PodView) -> tuple[bool, bool, bool, int, float, MemberId]:
        member = members.get(pod.name)
        since = (pod.ready_since or 0.0) if member is None else member.joined
        return member is not None, pod.ready, not pod.draining, owned.get(pod.name, 0), -since, pod.name

    there = sorted((pod for pod in pods if not pod.terminating and not pod.ended), key=cost)
    return frozenset(pod.name for pod in there[: max(0, len(there) - replicas)])
