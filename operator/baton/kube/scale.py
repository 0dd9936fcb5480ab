"""The workload behind a group (modes Workload and External): its size through /scale, and which pods it may lose through their
deletion cost.

The API server answers GET /scale of a custom resource with 500 where its replicas are absent, and no autoscaler can begin. So
spec.replicas of a group that does not say it is set to the present size of the workload that it names.
"""

import asyncio
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from baton.api.group import Scale
from baton.engine.observation import ObservedMember
from baton.kube.api import Api, Json, core_path, group_path
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.objects import group_view, groups_path
from baton.kube.pods import DELETION_COST, PodView
from baton.model.ids import MemberId

VICTIM_COST = "-1000"

AT_ONCE = 4
"""Pods of a group that are patched at once: fewer than may be under way in a namespace where a webhook is slow, so that none
waits there until it fails unsent, and the ledger's writes find room."""

Mark = tuple[PodView, str | None]
"""A pod, and the deletion cost that it is to bear; None: none."""


class ScaleError(Exception):
    """The target cannot be scaled. The message names the field and the cure."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something in the group's namespace that has a /scale."""

    namespace: str
    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Scaler:
    """Finds a target's /scale and writes to it. Methods raise what `Api` raises, and ScaleError."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._plurals: dict[tuple[str, str], str] = {}

    async def scale(self, target: Target, replicas: int) -> int | None:
        """Make `replicas` the target's size; returns the size it had, or None where it already was so."""
        before = await self.size(target)
        if before == replicas:
            return None
        await self._api.merge(await self._scale_path(target), {"spec": {"replicas": replicas}})
        return before

    async def size(self, target: Target) -> int:
        """How many replicas it is to have."""
        try:
            found = await self._api.get(await self._scale_path(target))
        except NotFoundError:
            raise ScaleError(f"spec.scale.targetRef: there is no {target}; create it, or correct the reference") from None
        return int((found.get("spec") or {}).get("replicas") or 0)

    async def mark(self, wanted: Iterable[Mark]) -> list[str]:
        """Change the deletion cost of these pods, a few at once. A pod that is gone needs none. Returns why others do
        not bear theirs; they do not keep back the rest."""
        room = asyncio.Semaphore(AT_ONCE)
        answers = await asyncio.gather(*(self._cost(room, pod, cost) for pod, cost in wanted))
        return [answer for answer in answers if answer is not None]

    async def _cost(self, room: asyncio.Semaphore, pod: PodView, cost: str | None) -> str | None:
        patch: Json = {"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: cost}}}
        try:
            async with room:
                await self._api.merge(core_path(pod.namespace, "pods", pod.name), patch)
        except (NotFoundError, ConflictError):
            pass
        except (ApiError, UnavailableError) as error:
            return f"{pod.name}: {error}"
        return None

    async def _scale_path(self, target: Target) -> str:
        key = (target.api_version, target.kind)
        if key not in self._plurals:
            self._plurals[key] = await self._plural(target)
        if "/" in target.api_version:
            return group_path(target.api_version, target.namespace, self._plurals[key], target.name) + "/scale"
        return core_path(target.namespace, self._plurals[key], target.name) + "/scale"

    async def _plural(self, target: Target) -> str:
        root = f"/apis/{target.api_version}" if "/" in target.api_version else f"/api/{target.api_version}"
        try:
            resources = (await self._api.get(root)).get("resources") or []
        except NotFoundError:
            resources = []
        plurals = [resource["name"] for resource in resources if resource["kind"] == target.kind and "/" not in resource["name"]]
        scalable = {resource["name"].removesuffix("/scale") for resource in resources if resource["name"].endswith("/scale")}
        for plural in plurals:
            if plural in scalable:
                return str(plural)
        raise ScaleError(
            f"spec.scale.targetRef: {target.api_version} {target.kind} is not a kind that can be scaled here; name one that "
            "has a /scale, such as apps/v1 Deployment or StatefulSet"
        )


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


TRIES = 5
"""The operator itself writes the group's status meanwhile, so a conflict says little."""


class GroupReplicas:
    """Sets spec.replicas of one group."""

    def __init__(self, api: Api, scaler: Scaler, namespace: str, name: str, uid: str) -> None:
        self._api = api
        self._scaler = scaler
        self._path = groups_path(namespace, name)
        self._uid = uid

    async def set_to_size_of(self, target: Target, scale: Scale) -> int | None:
        """Set it where it is absent and spec.scale still is `scale`, and never over what somebody has written. Returns what it is
        now; None: it was not set.

        Raises what `Scaler.size` raises, and ConflictError where others write the group all the time.
        """
        for left in reversed(range(TRIES)):
            try:
                return await self._set(target, scale)
            except ConflictError:
                if not left:
                    raise
            except NotFoundError:
                return None
        return None

    async def _set(self, target: Target, scale: Scale) -> int | None:
        group = group_view(await self._api.get(self._path))
        if group.uid != self._uid or group.deleting or group.spec is None:
            return None
        if group.spec.replicas is not None or group.spec.scale != scale:
            return None
        size = await self._scaler.size(target)
        metadata = {"uid": group.uid, "resourceVersion": group.version}
        await self._api.merge(self._path, {"metadata": metadata, "spec": {"replicas": size}})
        return size
