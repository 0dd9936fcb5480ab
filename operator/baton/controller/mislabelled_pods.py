"""Warnings about pods with a wrong label or annotation. Without them a slip would only show as partitions that no pod works on.

A look costs as much as changed since the last one; all pods are looked at again before the API server forgets its events. The
first pods of a namespace get an event each, and a gauge counts all of them.
"""

from collections import Counter, OrderedDict

from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.metrics import Metrics
from baton.controller.problems import EventReason
from baton.kube.clock import ApiServerClock
from baton.kube.events import Events, Kind, Regarding
from baton.kube.pods import PodView
from baton.model.names import GROUP_LABEL
from baton.model.wording import first_of

AFTER = 5.0
"""Seconds for which a pod may be there before its group, as when both are applied together."""

AGAIN = 1800.0
"""Seconds after which a pod is told again; the API server forgets events after an hour."""

AT_ONCE = 2000
"""Pods in one look. The rest comes with the next."""

MOST_EVENTS = 50
"""In a namespace, in AGAIN seconds."""

MOST_LABELS = 20
"""Labels of a namespace that the gauge tells apart; pods of all others are counted together."""

OTHERS = "*"
"""Their label in the gauge. No label can have this value."""

PodKey = tuple[str, str]
"""namespace and name"""


class PodWarnings:
    """Warns of such pods by events and a gauge, in one replica while it leads. Reads the changes of the cluster cache."""

    def __init__(self, cache: ClusterCache, events: Events, metrics: Metrics, clock: ApiServerClock) -> None:
        self._cache = cache
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._on = False
        self._due: OrderedDict[PodKey, float] = OrderedDict()
        """Pods that changed, and when they are to be looked at; in that order."""
        self._all_again = 0.0
        """When all pods are to be looked at again."""
        self._lost: dict[GroupKey, set[str]] = {}
        """Ready pods by the group that does not exist."""
        self._changed = False
        """Of what the gauge shows."""
        self._said: Counter[str] = Counter()
        """Events since all pods were looked at, by namespace."""

    def begin(self) -> None:
        """From now on this replica leads."""
        self.end()
        self._on = True
        self._look_at_all()

    def end(self) -> None:
        """Stop: another replica leads."""
        self._on = False
        self._due.clear()
        self._lost.clear()
        self._changed = True
        self._publish()

    def pod_changed(self, before: PodView | None, after: PodView | None) -> None:
        """A pod came, changed or went."""
        if not self._on:
            return
        if before is not None:
            self._not_lost(before)
        if after is None and before is not None:
            self._due.pop((before.namespace, before.name), None)
        elif after is not None:
            self._due.setdefault((after.namespace, after.name), self._clock.ticks() + AFTER)

    def group_changed(self, key: GroupKey) -> None:
        """A group came or went."""
        if not self._on:
            return
        self._changed |= self._lost.pop(key, None) is not None
        if self._cache.group(key) is None:
            at = self._clock.ticks() + AFTER
            for pod in self._cache.pods.bucket(*key).values():
                self._due.setdefault((pod.namespace, pod.name), at)

    def look(self) -> None:
        """At what is due by now."""
        now = self._clock.ticks()
        if now >= self._all_again:
            self._look_at_all()
        for _ in range(AT_ONCE):
            place = next(iter(self._due), None)
            if place is None or self._due[place] > now:
                break
            del self._due[place]
            self._look_at(place)
        self._publish()

    def _look_at_all(self) -> None:
        now = self._clock.ticks()
        self._all_again = now + AGAIN
        self._said.clear()
        for pod in self._cache.pods:
            self._due.setdefault((pod.namespace, pod.name), now + AFTER)

    def _look_at(self, place: PodKey) -> None:
        pod = self._cache.pods.get(*place)
        if pod is None:
            return
        if not pod.nameable:
            note = f"a pod named {pod.name} cannot take part, for the ledger has a key of that name: give it another name"
            self._warn(pod, EventReason.NAME_TAKEN, note)
        for problem in pod.problems:
            self._warn(pod, EventReason.BAD_ANNOTATION, problem)
        key = (pod.namespace, pod.group)
        if pod.ready and self._cache.group(key) is None:
            self._lost.setdefault(key, set()).add(pod.name)
            self._changed = True
            self._warn(pod, EventReason.NO_SUCH_GROUP, self._no_such_group(pod))

    def _not_lost(self, pod: PodView) -> None:
        key = (pod.namespace, pod.group)
        if key in self._lost:
            self._lost[key].discard(pod.name)
            self._changed = True
            if not self._lost[key]:
                del self._lost[key]

    def _publish(self) -> None:
        if not self._changed:
            return
        self._changed = False
        counts: dict[GroupKey, int] = {}
        shown: dict[str, int] = {}
        for (namespace, name), pods in self._lost.items():
            shown[namespace] = shown.get(namespace, 0) + 1
            key = (namespace, name if shown[namespace] <= MOST_LABELS else OTHERS)
            counts[key] = counts.get(key, 0) + len(pods)
        self._metrics.without_group(counts)

    def _warn(self, pod: PodView, reason: EventReason, note: str) -> None:
        if self._said[pod.namespace] == MOST_EVENTS:
            return
        self._said[pod.namespace] += 1
        about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.post(about, Kind.WARNING, reason, note, action="Join")

    def _no_such_group(self, pod: PodView) -> str:
        names = sorted(name for namespace, name in self._cache.groups.buckets() if namespace == pod.namespace)
        there = f"there is {first_of(names, 8)}" if names else "there is none"
        return (
            f"label {GROUP_LABEL}: {pod.group} names no ConsumerGroup of namespace {pod.namespace} ({there}): correct the label "
            f"in the pod's template, or create the group {pod.group}"
        )
