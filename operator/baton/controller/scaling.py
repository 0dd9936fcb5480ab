"""Carries out spec.replicas in mode Workload: the target's size, and which of its pods it may lose."""

from collections.abc import Iterable, Mapping

from baton.controller.faults import boundary
from baton.controller.problems import Problem, Reason
from baton.kube.api import FORBIDDEN, ApiError, UnavailableError
from baton.kube.members import Membership
from baton.kube.pods import PodView
from baton.kube.scale import VICTIM_COST, ScaleError, Scaler, Target, victims
from baton.model.ids import MemberId, Uid
from baton.resources import ConsumerGroupSpec


class Scaling:
    """One group's."""

    def __init__(self, namespace: str, scaler: Scaler) -> None:
        self._namespace = namespace
        self._scaler = scaler
        self._applied: tuple[Target, int] | None = None
        self._found: tuple[Target, int, int] | None = None
        """A target that somebody else scales, as it was when no member was to stay: its size, and how many pods were there."""
        self._marked: set[Uid] | None = None
        """Pods that may bear the operator's deletion cost. None: their marks were not looked at yet."""
        self.problem: Problem | None = None

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
        self, spec: ConsumerGroupSpec, seen: Membership, pods: Iterable[PodView], owned: Mapping[MemberId, int]
    ) -> str | None:
        """Do what the spec says, unless that was done; returns a sentence if the target was scaled."""
        target = target_of(self._namespace, spec)
        if target is None:
            await self.spare(spec, pods)
            return None
        if spec.replicas is None:
            await self.spare(spec, pods)
            if self.problem is None:
                await self._look_at(target, seen)
            return None
        self._found = None
        if self._applied == (target, spec.replicas):
            return None
        staying = {name: member for name, member in seen.members.items() if not member.terminating}
        chosen = victims({name: owned.get(name, 0) for name in staying}, {n: m.joined for n, m in staying.items()}, spec.replicas)
        there = [pod for pod in pods if not pod.terminating]
        self._marked = self._marks(spec, there) | {pod.uid for pod in there if pod.name in chosen}
        try:
            await self._scaler.mark_victims(there, chosen)
            with boundary("scale"):
                before = await self._scaler.scale(target, spec.replicas)
        except (ScaleError, ApiError, UnavailableError) as error:
            self.problem = _problem(error, f"{target} cannot be scaled")
            return None
        self._applied, self.problem = (target, spec.replicas), None
        return None if before is None else f"scaled {target} from {before} to {spec.replicas}"

    async def spare(self, spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> None:
        """The operator is to scale nothing, or not any more: no pod is left marked."""
        self._applied, self.problem = None, None
        if target_of(self._namespace, spec) is None:
            self._found = None
        there = [pod for pod in pods if not pod.terminating]
        marked = self._marked = self._marks(spec, there)
        try:
            await self._scaler.mark_victims([pod for pod in there if pod.uid in marked], frozenset())
        except (ApiError, UnavailableError) as error:
            self.problem = Problem(Reason.SCALE_FAILED, f"the deletion cost cannot be taken off a pod: {error}")

    def _marks(self, spec: ConsumerGroupSpec, there: list[PodView]) -> set[Uid]:
        """Pods whose marks are the operator's. A cost of that height may also be a user's: those that are found count where the
        spec names a target that the operator scales."""
        if self._marked is not None:
            return self._marked & {pod.uid for pod in there}
        ours = target_of(self._namespace, spec) is not None
        return {pod.uid for pod in there if ours and pod.deletion_cost == VICTIM_COST}

    async def _look_at(self, target: Target, seen: Membership) -> None:
        """Somebody else scales it, and its size says whether nobody is meant to be there."""
        if seen.staying:
            self._found, self.problem = None, None
        elif self._found is None or (self._found[0], self._found[2]) != (target, seen.pods):
            try:
                self._found, self.problem = (target, await self._scaler.size(target), seen.pods), None
            except (ScaleError, ApiError, UnavailableError) as error:
                self.problem = _problem(error, f"the size of {target} cannot be read")


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
