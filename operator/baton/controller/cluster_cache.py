"""The operator's view of the cluster, kept by watches and lists, with callbacks for changes."""

from collections.abc import Callable, Mapping, Set
from typing import Any

from baton.kube import leases, objects, pods
from baton.kube.clock import ApiServerClock
from baton.kube.leases import LeaseView, SessionClock
from baton.kube.ledger_configmap import Stored, stored
from baton.kube.objects import GroupView, QueueView
from baton.kube.pods import PodView
from baton.kube.store import Key, Manifest, Store, WatchedKind
from baton.model.ids import QueueName, Uid

GroupKey = tuple[str, str]
"""Namespace and name of a ConsumerGroup."""

QueueKey = tuple[str, str]
"""Namespace and name of a PartitionedQueue."""

JUST_NOW = 2.0
"""Seconds since a transition to Ready within which a newly seen pod counts as newly Ready. Kubernetes writes transitions in whole
seconds."""


class ClusterCache:
    """Pods, sessions, groups, queues and ledgers' metadata. `wake` is called with each group that a change affects."""

    def __init__(self, clock: ApiServerClock) -> None:
        self._clock = clock
        self.sessions = SessionClock()
        self.pods: Store[PodView] = Store(pods.view, self._pod_changed)
        self.leases: Store[LeaseView] = Store(leases.view, self._lease_changed)
        self.groups: Store[GroupView] = Store(objects.group_view, self._group_changed)
        self.queues: Store[QueueView] = Store(objects.queue_view, self._queue_changed)
        self.ledgers: Store[Stored] = Store(stored, lambda before, after: None)
        """Not watched: the metadata as last listed."""
        self._stores: Mapping[WatchedKind, Store[Any]] = {
            WatchedKind.PODS: self.pods,
            WatchedKind.LEASES: self.leases,
            WatchedKind.GROUPS: self.groups,
            WatchedKind.QUEUES: self.queues,
            WatchedKind.LEDGERS: self.ledgers,
        }
        self.wake: Callable[[GroupKey], None] = lambda key: None
        self.queue_changed: Callable[[QueueKey], None] = lambda key: None
        """Called when a queue was created, changed or deleted, or a group stopped naming it."""
        self.group_came_or_went: Callable[[GroupKey], None] = lambda key: None
        """Called when a group was created, deleted, or replaced by another of its name."""
        self._groups_by_queue: dict[QueueKey, set[str]] = {}
        """Names of the groups that name a queue."""
        self._became_ready: dict[Uid, float] = {}
        """When each pod became eligible: Ready, or, for an executor that was Ready before, registered."""

    def group(self, key: GroupKey) -> GroupView | None:
        return self.groups.get(*key)

    def named(self, queue: QueueKey) -> bool:
        """Whether any group names this queue."""
        return queue in self._groups_by_queue

    def event(self, of: WatchedKind, kind: str | None, manifest: Manifest) -> None:
        """See `Store.event`."""
        self._stores[of].event(kind, manifest)

    def keep(self, of: WatchedKind, namespace: str | None, there: Set[Key], as_of: int) -> None:
        """See `Store.keep`."""
        self._stores[of].keep(namespace, there, as_of)

    def take_eligible_since(self, pod: PodView) -> float | None:
        """When the pod became able to be a member: Ready, and for an executor also registered with its driver.

        Monotonic seconds, returned only once per pod. None: already returned, or it happened before this operator watched.
        """
        return self._became_ready.pop(pod.uid, None)

    def _pod_changed(self, before: PodView | None, after: PodView | None) -> None:
        if before == after:
            return
        if after is None:
            if before is not None:
                self._became_ready.pop(before.uid, None)
        elif after.ready_since is not None and self._newly_ready(before, after.uid, after.ready_since):
            self._became_ready[after.uid] = self._clock.ticks()
        for view in (before, after):
            if view is not None:
                self.wake((view.namespace, view.group))

    def _newly_ready(self, before: PodView | None, uid: Uid, since: float) -> bool:
        """Whether the pod just became Ready, and was not already Ready when it was first seen."""
        if before is not None and before.uid == uid:
            return not before.ready
        return self._clock.now() < since + JUST_NOW

    def _lease_changed(self, before: LeaseView | None, after: LeaseView | None) -> None:
        now = self._clock.ticks()
        self._follow_executors(before, after, now)
        if before is not None and (after is None or after.holder != before.holder):
            self.sessions.forget(before)
        if after is not None:
            revived = self.sessions.overdue(after, now)
            self.sessions.renewed(after, now)
            if before == after and not revived:
                return
        for view in (before, after):
            if view is not None:
                self.wake((view.namespace, view.group))

    def _follow_executors(self, before: LeaseView | None, after: LeaseView | None, now: float) -> None:
        if after is None or after.registered == (before.registered if before else ""):
            return
        new = after.executors - (before.executors if before else frozenset())
        for pod in self.pods.bucket(after.namespace, after.group).values():
            if pod.executor_id in new and pod.uid in self._became_ready:
                self._became_ready[pod.uid] = now

    def _group_changed(self, before: GroupView | None, after: GroupView | None) -> None:
        view = after or before
        if view is None or before == after:
            return
        for queue in _queues_of(before) - _queues_of(after):
            self._groups_by_queue[view.namespace, queue].discard(view.name)
            if not self._groups_by_queue[view.namespace, queue]:
                del self._groups_by_queue[view.namespace, queue]
        for queue in _queues_of(after):
            self._groups_by_queue.setdefault((view.namespace, queue), set()).add(view.name)
        for queue in _queues_of(before) - _queues_of(after):
            self.queue_changed((view.namespace, queue))
        if before is None or after is None or before.uid != after.uid:
            self.group_came_or_went((view.namespace, view.name))
        self.wake((view.namespace, view.name))

    def _queue_changed(self, before: QueueView | None, after: QueueView | None) -> None:
        view = after or before
        if view is None or before == after:
            return
        self.queue_changed((view.namespace, view.name))
        for group in self._groups_by_queue.get((view.namespace, view.name), ()):
            self.wake((view.namespace, group))


def _queues_of(group: GroupView | None) -> set[QueueName]:
    return set() if group is None or group.spec is None else {*group.spec.queue_names}
