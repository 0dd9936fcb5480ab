"""Pods whose labels or annotations cannot be meant so: a slip that would otherwise only show as work that nobody does."""

from collections.abc import Mapping

from baton.controller.event_reasons import EventReason
from baton.controller.mirror import GroupKey, Mirror
from baton.controller.services import Services
from baton.kube.events import Kind, Regarding
from baton.kube.pods import PodView
from baton.model.names import GROUP_LABEL

AFTER = 5.0
"""Seconds for which a Ready pod may be there before its group, as when both are applied together."""


def strays(mirror: Mirror, now: float) -> Mapping[GroupKey, list[PodView]]:
    """Ready pods by the group that does not exist. `now` is in unix seconds."""
    return {
        key: found
        for key, held in mirror.pods.buckets().items()
        if mirror.group(key) is None
        and (found := [pod for pod in held.values() if pod.ready_since is not None and now >= pod.ready_since + AFTER])
    }


def report_strays(services: Services) -> None:
    """An event on every such pod and on those whose name or annotations cannot be meant so, and a gauge of the first."""
    found = strays(services.mirror, services.clock.now())
    services.metrics.strays({key: len(pods) for key, pods in found.items()})
    for (namespace, name), pods in found.items():
        groups = sorted(
            view.name
            for (within, _), held in services.mirror.groups.buckets().items()
            if within == namespace
            for view in held.values()
        )
        there = f"there is {', '.join(groups)}" if groups else "there is none"
        note = (
            f"label {GROUP_LABEL}: {name} names no ConsumerGroup of namespace {namespace} ({there}): correct the label in the "
            f"pod's template, or create the group {name}"
        )
        for pod in pods:
            _warn(services, pod, EventReason.NO_SUCH_GROUP, note)
    for held in services.mirror.pods.buckets().values():
        for pod in held.values():
            if not pod.nameable:
                note = f"a pod named {pod.name} cannot take part, for the ledger has a key of that name: give it another name"
                _warn(services, pod, EventReason.NAME_TAKEN, note)
            for problem in pod.problems:
                _warn(services, pod, EventReason.BAD_ANNOTATION, problem)


def _warn(services: Services, pod: PodView, reason: EventReason, note: str) -> None:
    about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
    services.events.post(about, Kind.WARNING, reason, note, action="Join", once=True)
