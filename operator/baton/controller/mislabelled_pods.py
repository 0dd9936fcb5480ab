"""Warnings about pods with a wrong label or annotation, which would otherwise show only as partitions without an owner.

All pods are checked every few seconds. The first pods of a namespace get an event each, repeated before the API server forgets
it. A gauge counts all pods without a group.
"""

from collections import Counter, defaultdict

from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.metrics import Metrics
from baton.controller.problems import EventReason
from baton.kube.clock import ApiServerClock
from baton.kube.events import Events, Kind, Regarding
from baton.kube.pods import PodView
from baton.model.ids import Uid
from baton.model.names import GROUP_LABEL
from baton.model.wording import first_of

EVERY = 5.0
"""Seconds between checks. A pod may exist for so long before its group, if both are applied together."""

AGAIN = 1800.0
"""Seconds after which an event is repeated; the API server forgets events after an hour."""

MOST_EVENTS = 50
"""Most events in a namespace in AGAIN seconds."""

MOST_LABELS = 20
"""Most labels of a namespace that the gauge distinguishes; pods with other labels are counted together."""

OTHERS = "*"
"""The label value of those other pods in the gauge. No label can have this value."""


class PodWarnings:
    """Warns of such pods through events and a gauge, in the leading replica."""

    def __init__(self, cache: ClusterCache, events: Events, metrics: Metrics, clock: ApiServerClock) -> None:
        self._cache = cache
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._look_at = self._forget_at = float("-inf")
        self._lost: dict[Uid, float] = {}
        """Ready pods whose group does not exist, and when that was first seen."""
        self._warned: defaultdict[str, set[tuple[Uid, str]]] = defaultdict(set)
        """Pods and mistakes by namespace for which an event was posted since `_forget_at` was set."""

    def end(self) -> None:
        """Stop, because another replica leads."""
        self._look_at = self._forget_at = float("-inf")
        self._lost.clear()
        self._metrics.without_group({})

    def look(self) -> None:
        if (now := self._clock.ticks()) < self._look_at:
            return
        self._look_at = now + EVERY
        if now >= self._forget_at:
            self._warned.clear()
            self._forget_at = now + AGAIN
        lost: dict[Uid, float] = {}
        counts: Counter[GroupKey] = Counter()
        for key, pods in self._cache.pods.buckets().items():
            exists = self._cache.group(key) is not None
            for pod in pods.values():
                self._look_at_names(pod)
                if pod.ready and not exists:
                    lost[pod.uid] = self._lost.get(pod.uid, now)
                    if now >= lost[pod.uid] + EVERY:
                        counts[key] += 1
                        if self._is_news(pod, pod.group):
                            self._warn(pod, EventReason.NO_SUCH_GROUP, self._no_such_group(pod))
        self._lost = lost
        for gone in self._warned.keys() - {namespace for namespace, _ in self._cache.pods.buckets()}:
            del self._warned[gone]
        self._metrics.without_group(_few(counts))

    def _look_at_names(self, pod: PodView) -> None:
        if not pod.nameable and self._is_news(pod, pod.name):
            note = f"a pod named {pod.name} cannot take part, because the ledger has a key of that name: give it another name"
            self._warn(pod, EventReason.NAME_TAKEN, note)
        for problem in pod.problems:
            if self._is_news(pod, problem):
                self._warn(pod, EventReason.BAD_ANNOTATION, problem)

    def _is_news(self, pod: PodView, mistake: str) -> bool:
        """True if no event about this mistake was posted for the pod, and the namespace may have another event."""
        warned, one = self._warned[pod.namespace], (pod.uid, mistake)
        if one in warned or len(warned) >= MOST_EVENTS:
            return False
        warned.add(one)
        return True

    def _warn(self, pod: PodView, reason: EventReason, note: str) -> None:
        about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.post(about, Kind.WARNING, reason, note, action="Join")

    def _no_such_group(self, pod: PodView) -> str:
        names = sorted(name for namespace, name in self._cache.groups.buckets() if namespace == pod.namespace)
        there = f"there is {first_of(names, 8)}" if names else "it has no groups"
        return (
            f"label {GROUP_LABEL}: {pod.group} names no ConsumerGroup of namespace {pod.namespace} ({there}): correct the label "
            f"in the pod's template, or create the group {pod.group}"
        )


def _few(counts: Counter[GroupKey]) -> Counter[GroupKey]:
    """Return the counts with at most MOST_LABELS labels of a namespace."""
    shown: Counter[str] = Counter()
    few: Counter[GroupKey] = Counter()
    for (namespace, label), count in counts.items():
        shown[namespace] += 1
        few[namespace, label if shown[namespace] <= MOST_LABELS else OTHERS] += count
    return few
