"""Carries out spec.scale at the workload behind a group. In mode Workload: the target's size through /scale, and which of its
pods it may lose through their deletion cost. In mode External: read the target's size only. The group does not wait for it,
since each pod's mark passes the webhooks of its namespace.

The API server answers GET /scale of a custom resource with 500 where its replicas are absent, and no autoscaler can begin. So
an absent spec.replicas of a group in mode Workload is set to the present size of the target.
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
"""Pods of a group that are patched at once: fewer than may be under way in a namespace where a webhook is slow, so that none
waits there until it fails unsent, and the ledger's writes find room."""

TRIES = 5
"""Tries to set spec.replicas: the operator itself writes the group's status meanwhile, so a conflict says little."""

Mark = tuple[PodView, str | None]
"""A pod, and the deletion cost that it is to bear; None: none."""

Done = tuple[EventReason, str]
"""What the operator has done, as an event tells it."""


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
"""The number: how many replicas the target is to have. None: as many as it has."""


class Scaler:
    """Finds a target's /scale, reads and writes it. Methods raise what `Api` raises, and ScaleError."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._plurals: dict[tuple[str, str], str] = {}

    async def size(self, target: Target) -> int:
        """How many replicas it is to have."""
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
    """One group's scaling. One task at a time does the work: first the pods' marks and then, when all of them are there, the
    size."""

    def __init__(self, key: GroupKey, uid: str, scaler: Scaler, tasks: Tasks, changed: Callable[[], None]) -> None:
        """`changed` is called when the target was scaled, another size was read, or a problem came or went."""
        self._key = key
        self._uid = uid
        self._scaler = scaler
        self._tasks = tasks
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._for: Goal | None = None
        """What the task is to bring about; None: that no pod is marked."""
        self._applied: Goal | None = None
        self._pods = 0
        """How many of the group there are, without those that stop."""
        self._read_with: int | None = None
        """How many there were when the target's size was read."""
        self._size: tuple[Target, int] | None = None
        """The size that others gave the target; None: unknown."""
        self._marked: set[Uid] | None = None
        """Pods that may bear the operator's deletion cost. None: their marks were not looked at yet."""
        self.problem: Problem | None = None
        self._said: Done | None = None
        self.spared = False
        """No pod is marked, as far as the pods let that be done."""

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def asked_for(self, spec: ConsumerGroupSpec) -> int | None:
        """How many pods there are to be, as far as that is known: by spec.replicas, or by the workload that others scale. Where
        there are more pods than that workload's size, other pods have the group's label too, or its size has just changed."""
        if spec.scale is None or spec.scale.mode is not ScaleMode.EXTERNAL:
            return spec.replicas
        target, size = self._size or (None, 0)
        return size if target == target_of(self._key[0], spec) and self._pods <= size else None

    def recheck(self) -> bool:
        """The target may have been scaled by hand. False: there is no target."""
        known = self._applied is not None or self.problem is not None
        self._applied = None
        return known

    def apply(
        self, spec: ConsumerGroupSpec, seen: GroupMembers, pods: Iterable[PodView], owned: Mapping[MemberId, int], why: str = ""
    ) -> Done | None:
        """See to it that what the spec says is done; returns what was done since the last time. `why`: see `held_back`."""
        said, self._said = self._said, None
        target, self._pods = target_of(self._key[0], spec), seen.pods
        if spec.scale is None or target is None:
            self.spare(spec, pods)
            return said
        there = [pod for pod in pods if not pod.terminating]
        external = spec.scale.mode is not ScaleMode.WORKLOAD
        goal = (target, spec.scale.mode, None if external else spec.replicas)
        self.spared &= goal[2] is None
        if not external:
            self._size = self._read_with = None
        if not self._free_for(goal):
            return said
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
        return said

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
        """Nothing is under way. A task for another goal ends."""
        if self._task is not None and self._for != goal:
            self._task.cancel()
        return self._task is None

    def _begin(self, goal: Goal | None, work: Coroutine[Any, Any, None], *, tried_again: bool = True) -> None:
        """`tried_again`: by the next `apply`, if it is refused."""
        self._for = goal
        external = goal is not None and goal[1] is not ScaleMode.WORKLOAD
        before, size = self.problem, self._size
        self._task = self._tasks.start("target-size" if external else "scale", work, namespace=self._key[0], group=self._key[1])

        def ended(task: asyncio.Task[None]) -> None:
            self._task = None
            # The words of a refusal may differ each time: what is tried again must not be woken by them.
            trouble = (self.problem is None) != (before is None) if tried_again else self.problem != before
            outdated = self._read_with not in (None, self._pods)
            if task.cancelled() or self._said is not None or trouble or outdated or self._size != size:
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
            self._said = (EventReason.SCALED, f"scaled {target} from {before} to {replicas}{why and f': {why}'}")

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
            self._said = (EventReason.REPLICAS_SET, f"set spec.replicas, which was absent, to {replicas}, the size of {target}")

    async def _set_replicas(self, target: Target, scale: Scale) -> int | None:
        """Set it where it is absent and spec.scale still is `scale`, and never over what others have written. Returns what it is
        now; None: it was not set. Raises ConflictError where others write the group all the time."""
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
        """Of a target that others scale."""
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
        """Change the deletion cost of these pods, a few at once; one that refuses does not keep back the rest. A pod that is gone
        needs none. False: not all pods let it be done."""
        room = asyncio.Semaphore(AT_ONCE)
        answers = await asyncio.gather(*(self._cost(room, pod, cost) for pod, cost in wanted))
        if refusals := [answer for answer in answers if answer is not None]:
            told = f"spec.scale: the deletion cost cannot be changed of {first_of(refusals, 1)}; see to what refuses it"
            self.problem = Problem(Reason.SCALE_FAILED, told)
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
        """Pods whose marks are the operator's. A cost of that height may also be a user's: those that are found count where the
        spec names a target that the operator scales."""
        if self._marked is not None:
            return self._marked & {pod.uid for pod in there}
        ours = spec.scale is not None and spec.scale.mode is ScaleMode.WORKLOAD and spec.scale.target_ref is not None
        return {pod.uid for pod in there if ours and pod.deletion_cost == VICTIM_COST}


def refused_scale(error: Exception, what: str) -> Problem:
    """`what`: the sentence about what could not be done, unless the error says it."""
    if isinstance(error, ScaleError):
        return Problem(Reason.SCALE_FAILED, str(error))
    cure = "; is its kind among the chart's value rbac.scaleTargets?" if getattr(error, "status", None) == FORBIDDEN else ""
    return Problem(Reason.SCALE_FAILED, f"spec.scale: {what}: {error}{cure}")


def target_of(namespace: str, spec: ConsumerGroupSpec) -> Target | None:
    """The target that spec.scale.targetRef names; None: it names none."""
    if spec.scale is None or spec.scale.target_ref is None:
        return None
    reference = spec.scale.target_ref
    return Target(namespace, reference.api_version, reference.kind, reference.name)


def marks(pods: Iterable[PodView], victims: Set[MemberId]) -> list[Mark]:
    """The pods whose deletion cost is to change: the victims, and only they, have the lowest. None: it is taken off."""
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
    """Of the pods that stay, those whose loss costs the fewest moves: first those that take no part, the unready before the
    others, then those that drain, then those with the fewest partitions, then the youngest. None while the fleet is small enough.

    The workload counts every pod, whether or not it is a member.
    """

    def cost(pod: PodView) -> tuple[bool, bool, bool, int, float, MemberId]:
        member = members.get(pod.name)
        since = (pod.ready_since or 0.0) if member is None else member.joined
        return member is not None, pod.ready, not pod.draining, owned.get(pod.name, 0), -since, pod.name

    there = sorted((pod for pod in pods if not pod.terminating and not pod.ended), key=cost)
    return frozenset(pod.name for pod in there[: max(0, len(there) - replicas)])
