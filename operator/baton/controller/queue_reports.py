"""The status of each PartitionedQueue, from the reports of the groups that use it; and messages about changes of the number of
partitions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from baton.api import ConditionStatus, PartitionedQueueStatus, PartitionScaleStatus, attributes
from baton.controller.cluster_cache import ClusterCache, GroupKey, QueueKey
from baton.controller.group_observation import QueueFacts
from baton.controller.problems import EventReason, Reason
from baton.controller.status import BareCondition, conditions, is_false, is_true, is_unknown
from baton.controller.status_writer import StatusWriter
from baton.controller.supervision import Tasks
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.objects import QueueView, queues_path
from baton.model.ids import QueueName
from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.queues.protocol import Resizing


def resized(facts: QueueFacts, wanted: int | None) -> BareCondition:
    """Return the condition Resized. `wanted`: spec.partitions."""
    resizing = facts.resizing
    if resizing is None and facts.partitions is not None and wanted is not None and wanted != facts.partitions:
        goes = f"will go from {facts.partitions:,} to {counted(wanted, 'partition')}"
        return is_false("Resized", Reason.RESIZING, goes)
    if resizing is None:
        return is_true("Resized", Reason.RESIZED, "all keys are in their partitions for this number")
    then = "" if wanted in (None, resizing.after) else f"; after that it goes to {wanted:,} (spec.partitions)"
    return is_false("Resized", Reason.RESIZING, f"{_goes(resizing)}{_waits(resizing)}{then}")


class Resizings:
    """Finds changes of the number of partitions of a group's queues, for events."""

    def __init__(self) -> None:
        self._known: dict[QueueName, tuple[int, Resizing | None]] = {}
        """For each queue: its number of partitions when seen last, and the change under way."""
        self._inherited: dict[QueueName, bool] = {}
        """For each queue: whether its condition, left by another operator, reported a change when this one first saw it."""

    def news(
        self, facts: Mapping[QueueName, QueueFacts], view_of: Callable[[QueueName], QueueView | None]
    ) -> Iterator[tuple[EventReason, str]]:
        """Yield changes that have begun or ended, each once. A change that began under another operator, or took no longer than a
        look, is yielded only at its end."""
        for queue, seen in facts.items():
            view = view_of(queue)
            inherited = self._inherited.setdefault(queue, _reports_change(view))
            if seen.problem is not None or seen.partitions is None:
                continue
            known, now = self._known.get(queue), seen.resizing
            self._known[queue] = (seen.partitions, now)
            wanted = view.spec.partitions if view is not None and view.spec is not None else None
            if now is None:
                if known is None:
                    ended = inherited and resized(seen, wanted).status is ConditionStatus.TRUE
                else:
                    ended = known[1] is not None or (seen.fenced and known[0] != seen.partitions == wanted)
                if ended:
                    has = counted(seen.partitions, "partition")
                    yield EventReason.RESIZED, f"{queue} has {has}, and every key is where that puts it"
            elif known is None or known[1] is None or known[1][:2] != now[:2]:
                yield EventReason.RESIZING, f"{queue} {_goes(now)}{_waits(now)}"


def _reports_change(view: QueueView | None) -> bool:
    conditions = view.status.get("conditions") if view is not None else None
    return any(one.get("type") == "Resized" and one.get("status") == ConditionStatus.FALSE for one in conditions or ())


def _goes(resizing: Resizing) -> str:
    return f"goes from {resizing.before:,} to {counted(resizing.after, 'partition')}"


def _waits(resizing: Resizing) -> str:
    if not resizing.waits_for:
        return ""
    one = len(resizing.waits_for) == 1
    numbers = format_numbers(resizing.waits_for)
    return (
        f"; waits until the {'owner' if one else 'owners'} of {'partition' if one else 'partitions'} {numbers} "
        f"{'has' if one else 'have'} finished the entries sent before"
    )


@dataclass(slots=True)
class _Writing:
    uid: str
    writer: StatusWriter
    shown: tuple[QueueView, list[QueueFacts]] | None = None
    """The input of the last status."""


class QueueReports:
    """Writes the status of each queue from the reports of the groups that use it."""

    def __init__(
        self, api: Api, cache: ClusterCache, clock: ApiServerClock, tasks: Tasks, groups_seen: Callable[[str], bool]
    ) -> None:
        """`groups_seen`: True once all groups of a namespace have been seen. Before that, no queue counts as unused."""
        self._groups_seen = groups_seen
        self._tasks = tasks
        self._api = api
        self._cache = cache
        self._clock = clock
        self._reports: dict[QueueKey, dict[GroupKey, QueueFacts]] = {}
        self._reported: dict[GroupKey, frozenset[str]] = {}
        """The queues that each group reported last."""
        self._writing: dict[QueueKey, _Writing] = {}

    def report(self, group: GroupKey, facts: Mapping[str, QueueFacts]) -> None:
        """Take in the facts of one group about all its queues, and drop its reports on other queues."""
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
        """Drop a group's reports, because it is gone or another operator serves it."""
        self.report(group, {})
        self._reported.pop(group, None)

    def refresh(self, queue: QueueKey) -> None:
        """Write the queue's status if it has changed."""
        view = self._cache.queues.get(*queue)
        writing = self._writing.get(queue)
        if writing is not None and (view is None or view.uid != writing.uid):
            writing.writer.close()
            del self._writing[queue]
            writing = None
        if view is None:
            return
        if writing is None:
            start = partial(self._tasks.start, "status", namespace=view.namespace, queue=view.name)
            writer = StatusWriter(self._api, queues_path(view.namespace, view.name), view.uid, self._clock, start)
            writing = self._writing[queue] = _Writing(view.uid, writer)
        if (reports := self._reports_on(queue)) is None:
            return
        facts = view, reports
        shown, writing.shown = writing.shown, facts
        if facts == shown:  # fast if they are the same objects
            return
        status = queue_status(view, reports, self._clock.now()).model_dump(by_alias=True, exclude_none=True, mode="json")
        writing.writer.want(status, view.status)

    def refresh_all(self) -> None:
        """Write the status of all queues that have changed, including queues that no group names."""
        for view in self._cache.queues:
            self.refresh((view.namespace, view.name))

    def put_right(self) -> None:
        """Write statuses again that another client has overwritten, and those that had to wait until the groups of their
        namespace were seen. Called only now and then, so that two writers do not race."""
        self.refresh_all()
        for queue, writing in self._writing.items():
            view = self._cache.queues.get(*queue)
            if view is not None and view.uid == writing.uid and self._reports_on(queue) is not None:
                writing.writer.put_right(view.status)

    def _reports_on(self, queue: QueueKey) -> list[QueueFacts] | None:
        """Return the reports on a queue. None: its group has not reported or was not seen yet, or another release of the operator
        serves it."""
        reports = list(self._reports.get(queue, {}).values())
        return None if not reports and (self._cache.named(queue) or not self._groups_seen(queue[0])) else reports

    def close(self) -> None:
        """Stop, because another replica writes from now on."""
        for writing in self._writing.values():
            writing.writer.close()
        self._writing.clear()
        self._reports.clear()
        self._reported.clear()


def queue_status(view: QueueView, reports: list[QueueFacts], now: float) -> PartitionedQueueStatus:
    """Return the status of a queue from its groups' reports. A group that may not use the queue has Conflict in the group's
    status."""
    usable = [facts for facts in reports if facts.problem is None or facts.problem.reason is not Reason.CONFLICT]
    facts = min(usable or reports, key=lambda one: one.problem is not None, default=None)
    before = view.status.get("conditions") or ()
    operating = facts.partitions if facts is not None else None
    return PartitionedQueueStatus(
        observed_generation=view.generation,
        partitions=operating if operating is not None else view.status.get("partitions"),
        partition_scale_status=scale_status(view, facts),
        dead_letters=facts.check.letters if facts is not None else None,
        conditions=conditions([_ready(view, facts), *_of_server(view, facts)], before, view.generation, now),
    )


def _ready(view: QueueView, facts: QueueFacts | None) -> BareCondition:
    if view.spec is None:
        return is_false("Ready", Reason.INVALID_SPEC, view.problem or "")
    if facts is None:
        return is_unknown("Ready", Reason.UNUSED, "no ConsumerGroup of this namespace names this queue in its spec.queues")
    if facts.problem is not None:
        return is_false("Ready", facts.problem.reason, facts.problem.message)
    if facts.partitions is None:
        return is_unknown("Ready", Reason.QUEUE_UNREACHABLE, "the queue has not answered yet")
    if slips := attributes(view.spec.partition_attributes).beyond(facts.partitions):
        return is_false("Ready", Reason.INVALID_ATTRIBUTES, "; ".join(slips))
    return is_true("Ready", Reason.REACHABLE, "the queue answers and is as the spec says")


def _of_server(view: QueueView, facts: QueueFacts | None) -> list[BareCondition]:
    """Return the conditions of a queue that has a server; none for other queues."""
    if facts is None or facts.partitions is None or not facts.fenced:
        return []
    durable = is_true("Durable", Reason.PERSISTENT, "no setting of the server is known to put entries at risk")
    if facts.warnings:
        durable = is_false("Durable", Reason.AT_RISK, "; ".join(facts.warnings))
    return [durable, resized(facts, view.spec.partitions if view.spec is not None else None)]


def scale_status(view: QueueView, facts: QueueFacts | None) -> PartitionScaleStatus | None:
    """Return whether the number of partitions in operation is that of the spec, or changes; None: not known."""
    if view.spec is None or facts is None or facts.partitions is None:
        return None
    operating, resizing = facts.partitions, facts.resizing
    wanted = view.spec.partitions
    if resizing is not None:
        return PartitionScaleStatus.SCALING_UP if resizing.after > resizing.before else PartitionScaleStatus.SCALING_DOWN
    if wanted is None or wanted == operating:
        return PartitionScaleStatus.READY
    return PartitionScaleStatus.SCALING_UP if wanted > operating else PartitionScaleStatus.SCALING_DOWN
