"""What the groups say of the queues they use, put together into the status of each PartitionedQueue."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from baton.api import AccessType, ConditionStatus, PartitionedQueueStatus, PartitionScaleStatus, attributes
from baton.controller.cluster_cache import ClusterCache, GroupKey, QueueKey
from baton.controller.conditions import Told, conditions
from baton.controller.problems import Reason
from baton.controller.queue_state import QueueFacts
from baton.controller.resizing import resized
from baton.controller.status_writer import StatusWriter
from baton.controller.supervision import Tasks
from baton.kube.api import Api, Json
from baton.kube.clock import ApiServerClock
from baton.kube.objects import QueueView, queues_path


@dataclass(slots=True)
class _Writing:
    uid: str
    writer: StatusWriter
    task: asyncio.Task[None]
    shown: tuple[QueueView, list[QueueFacts]] | None = None
    """What the status was last made from."""


class QueueReports:
    """Reports by queue and group."""

    def __init__(
        self, api: Api, cache: ClusterCache, clock: ApiServerClock, tasks: Tasks, groups_seen: Callable[[str], bool]
    ) -> None:
        """`groups_seen`: whether all groups of a namespace have been seen. Before, no queue of it is one that nobody uses."""
        self._groups_seen = groups_seen
        self._tasks = tasks
        self._api = api
        self._cache = cache
        self._clock = clock
        self._reports: dict[QueueKey, dict[GroupKey, QueueFacts]] = {}
        self._reported: dict[GroupKey, frozenset[str]] = {}
        """Of which queues each group reported last."""
        self._writing: dict[QueueKey, _Writing] = {}

    def report(self, group: GroupKey, facts: Mapping[str, QueueFacts]) -> None:
        """What one group knows of all its queues; those that it no longer names are not its any more."""
        namespace = group[0]
        for name in self._reported.get(group, frozenset()) - facts.keys():
            reports = self._reports.get((namespace, name), {})
            if reports.pop(group, None) is not None:
                self.refresh((namespace, name))
            if not reports:
                self._reports.pop((namespace, name), None)
        self._reported[group] = frozenset(facts)
        for name, known in facts.items():
            reports = self._reports.setdefault((namespace, name), {})
            if reports.get(group) != known:
                reports[group] = known
                self.refresh((namespace, name))

    def forget(self, group: GroupKey) -> None:
        """Forget what a group said of its queues: it is gone, or another operator serves it."""
        self.report(group, {})
        self._reported.pop(group, None)

    def refresh(self, queue: QueueKey) -> None:
        """Write the queue's status if it reads differently now."""
        view = self._cache.queues.get(*queue)
        writing = self._writing.get(queue)
        if writing is not None and (view is None or view.uid != writing.uid):
            writing.task.cancel()
            del self._writing[queue]
            writing = None
        if view is None:
            return
        if writing is None:
            writer = StatusWriter(self._api, queues_path(view.namespace, view.name), view.uid, self._clock)
            task = self._tasks.keep("status", writer.run, namespace=view.namespace, queue=view.name)
            writing = self._writing[queue] = _Writing(view.uid, writer, task)
        if (reports := self._to_tell(queue)) is None:
            return
        facts = view, reports
        shown, writing.shown = writing.shown, facts
        if facts == shown:  # at once where they are the same objects
            return
        writing.writer.want(self._status(view, reports), view.status)

    def refresh_all(self) -> None:
        """Also of queues that no group names."""
        for view in self._cache.queues:
            self.refresh((view.namespace, view.name))

    def put_right(self) -> None:
        """Write each status again that somebody else has written over. Now and then: who contradicts is answered slowly.
        And what was not told before the groups of its namespace were seen."""
        self.refresh_all()
        for queue, writing in self._writing.items():
            view, reports = self._cache.queues.get(*queue), self._to_tell(queue)
            if view is None or view.uid != writing.uid or reports is None:
                continue
            if writing.writer.overwritten(view.status):
                writing.writer.want_again(self._status(view, reports), view.status)

    def _to_tell(self, queue: QueueKey) -> list[QueueFacts] | None:
        """What its groups say. None: its group has not said anything yet, or was not seen yet, or another release of the operator
        serves it."""
        reports = list(self._reports.get(queue, {}).values())
        return None if not reports and (self._cache.named(queue) or not self._groups_seen(queue[0])) else reports

    def _status(self, view: QueueView, reports: list[QueueFacts]) -> Json:
        return queue_status(view, reports, self._clock.now()).model_dump(by_alias=True, exclude_none=True, mode="json")

    def close(self) -> None:
        """Somebody else writes from now on."""
        for writing in self._writing.values():
            writing.task.cancel()
        self._writing.clear()
        self._reports.clear()
        self._reported.clear()


def queue_status(view: QueueView, reports: list[QueueFacts], now: float) -> PartitionedQueueStatus:
    """The status of a queue from what its groups say. A group that may not use it (Conflict) has that in its own status."""
    usable = [facts for facts in reports if facts.problem is None or facts.problem.reason is not Reason.CONFLICT]
    facts = min(usable or reports, key=lambda one: one.problem is not None, default=None)
    before = view.status.get("conditions") or ()
    operating = facts.partitions if facts is not None else None
    return PartitionedQueueStatus(
        observed_generation=view.generation,
        partitions=operating if operating is not None else view.status.get("partitions"),
        partition_scale_status=scale_status(view, facts),
        dead_letters=facts.letters if facts is not None else None,
        conditions=conditions([_ready(view, facts), *_of_server(view, facts)], before, view.generation, now),
    )


def _ready(view: QueueView, facts: QueueFacts | None) -> Told:
    if view.spec is None:
        return ("Ready", ConditionStatus.FALSE, Reason.INVALID_SPEC, view.problem or "")
    if facts is None:
        return (
            "Ready",
            ConditionStatus.UNKNOWN,
            Reason.UNUSED,
            "no ConsumerGroup of this namespace names this queue in its spec.queues",
        )
    if facts.problem is not None:
        return ("Ready", ConditionStatus.FALSE, facts.problem.reason, facts.problem.message)
    if facts.partitions is None:
        return ("Ready", ConditionStatus.UNKNOWN, Reason.QUEUE_UNREACHABLE, "the queue has not answered yet")
    slips = attributes(view.spec.partition_attributes).beyond(facts.partitions)
    if slips:
        return ("Ready", ConditionStatus.FALSE, Reason.INVALID_ATTRIBUTES, "; ".join(slips))
    return ("Ready", ConditionStatus.TRUE, Reason.REACHABLE, "the queue answers and is as the spec says")


def _of_server(view: QueueView, facts: QueueFacts | None) -> list[Told]:
    """What can be said only of a queue that has a server."""
    if facts is None or facts.partitions is None or not facts.fenced:
        return []
    return [_durable(facts), resized(facts, view.spec.partitions if view.spec is not None else None)]


def _durable(facts: QueueFacts) -> Told:
    if facts.warnings:
        return ("Durable", ConditionStatus.FALSE, Reason.AT_RISK, "; ".join(facts.warnings))
    return (
        "Durable",
        ConditionStatus.TRUE,
        Reason.PERSISTENT,
        "nothing in the server's configuration was seen to put entries at risk",
    )


def scale_status(view: QueueView, facts: QueueFacts | None) -> PartitionScaleStatus | None:
    """Whether the number of partitions in operation is the one asked for; None: not known."""
    if view.spec is None or facts is None or facts.partitions is None:
        return None
    operating, resizing = facts.partitions, facts.resizing
    if view.spec.access_type is AccessType.EXCLUSIVE and operating > 1:
        return PartitionScaleStatus.INVALID_EXCLUSIVE
    wanted = view.spec.partitions
    if resizing is not None:
        return PartitionScaleStatus.SCALING_UP if resizing.after > resizing.before else PartitionScaleStatus.SCALING_DOWN
    if wanted is None or wanted == operating:
        return PartitionScaleStatus.READY
    return PartitionScaleStatus.SCALING_UP if wanted > operating else PartitionScaleStatus.SCALING_DOWN
