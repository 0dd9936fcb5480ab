"""Warnings about pods with a wrong label or annotation. Without them a slip would only show as partitions that no pod works on.

A look costs as much as changed since the last one. Thousands of pods of a deleted group are looked at once, and then rest. The
first pods of a namespace get an event each, and a gauge counts all of them.
"""

from collections import OrderedDict

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

BURST, REFILL = 20.0, 1 / 60
"""Events in a namespace that may follow each other, and a second in the long run."""

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
        self._again: OrderedDict[PodKey, float] = OrderedDict()
        """Pods with which something is wrong, likewise."""
        self._lost: dict[GroupKey, set[str]] = {}
        """Ready pods by the group that does not exist."""
        self._changed = False
        """Of what the gauge shows."""
        self._tokens: dict[str, tuple[float, float]] = {}
        """By namespace: events that it may have, as of when."""

    def begin(self) -> None:
        """From now on this replica leads."""
        self.end()
        self._on = True
        at = self._clock.ticks() + AFTER
        self._due.update(((pod.namespace, pod.name), at) for held in self._cache.pods.buckets().values() for pod in held.values())

    def end(self) -> None:
        """Stop: another replica leads."""
        self._on = False
        for kept in (self._due, self._again, self._lost, self._tokens):
            kept.clear()
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
            self._again.pop((before.namespace, before.name), None)
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
        for waiting in (self._due, self._again):
            for _ in range(AT_ONCE):
                place = next(iter(waiting), None)
                if place is None or waiting[place] > now:
                    break
                del waiting[place]
                self._look_at(place)
        self._tokens = {namespace: held for namespace, held in self._tokens.items() if self._left(namespace) < BURST}
        self._publish()

    def _look_at(self, place: PodKey) -> None:
        pod = self._cache.pods.get(*place)
        if pod is None:
            return
        wrong = bool(pod.problems) or not pod.nameable
        if not pod.nameable and self._may_be_told(pod):
            note = f"a pod named {pod.name} cannot take part, for the ledger has a key of that name: give it another name"
            self._warn(pod, EventReason.NAME_TAKEN, note)
        for problem in pod.problems:
            if self._may_be_told(pod):
                self._warn(pod, EventReason.BAD_ANNOTATION, problem)
        key = (pod.namespace, pod.group)
        if pod.ready and self._cache.group(key) is None:
            wrong = True
            self._lost.setdefault(key, set()).add(pod.name)
            self._changed = True
            if self._may_be_told(pod):
                self._warn(pod, EventReason.NO_SUCH_GROUP, self._no_such_group(pod))
        if wrong:
            self._again[place] = self._clock.ticks() + AGAIN

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
        about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self._events.post(about, Kind.WARNING, reason, note, action="Join")

    def _may_be_told(self, pod: PodView) -> bool:
        """Takes a token of its namespace, if there is one."""
        left = self._left(pod.namespace)
        if left >= 1:
            self._tokens[pod.namespace] = (left - 1, self._clock.ticks())
        return left >= 1

    def _left(self, namespace: str) -> float:
        now = self._clock.ticks()
        held, since = self._tokens.get(namespace, (BURST, now))
        return min(BURST, held + (now - since) * REFILL)

    def _no_such_group(self, pod: PodView) -> str:
        names = sorted(name for namespace, name in self._cache.groups.buckets() if namespace == pod.namespace)
        there = f"there is {first_of(names, 8)}" if names else "there is none"
        return (
            f"label {GROUP_LABEL}: {pod.group} names no ConsumerGroup of namespace {pod.namespace} ({there}): correct the label "
            f"in the pod's template, or create the group {pod.group}"
        )
