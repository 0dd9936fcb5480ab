"""What the groups say of the queues they use, put together into the status of each PartitionedQueue; and a change of the number
of partitions, as that status and events tell it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from baton.api import ConditionStatus, PartitionedQueueStatus, PartitionScaleStatus, attributes
from baton.controller.cluster_cache import ClusterCache, GroupKey, QueueKey
from baton.controller.group_observation import QueueFacts
from baton.controller.problems import EventReason, Reason
from baton.controller.status import Told, conditions
from baton.controller.status_writer import StatusWriter
from baton.controller.supervision import Tasks
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.objects import QueueView, queues_path
from baton.model.ids import QueueName
from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.queues.protocol import Resizing


def resized(facts: QueueFacts, wanted: int | None) -> Told:
    """The condition Resized. `wanted`: what the spec asks for by now."""
    resizing = facts.resizing
    if resizing is None and facts.partitions is not None and wanted is not None and wanted != facts.partitions:
        goes = f"is to go from {facts.partitions:,} to {counted(wanted, 'partition')}"
        return ("Resized", ConditionStatus.FALSE, Reason.RESIZING, goes)
    if resizing is None:
        return ("Resized", ConditionStatus.TRUE, Reason.RESIZED, "every key is where the number of partitions puts it")
    then = "" if wanted in (None, resizing.after) else f"; after that it goes to {wanted:,}, as spec.partitions says by now"
    return ("Resized", ConditionStatus.FALSE, Reason.RESIZING, f"{_goes(resizing)}{_waits(resizing)}{then}")


class Resizings:
    """What events tell of the changes of a group's queues."""

    def __init__(self) -> None:
        self._known: dict[QueueName, tuple[int, Resizing | None]] = {}
        """How many partitions each had when it was seen last, and how they changed."""
        self._inherited: dict[QueueName, bool] = {}
        """Whether its condition says that it changes, as another operator has left it: it goes until the queue has answered."""

    def news(
        self, facts: Mapping[QueueName, QueueFacts], view_of: Callable[[QueueName], QueueView | None]
    ) -> Iterator[tuple[EventReason, str]]:
        """Changes that have begun or ended, each once: also one of which this operator sees the end only, for it was begun
        under another or took no longer than one look."""
        for queue, seen in facts.items():
            view = view_of(queue)
            inherited = self._inherited.setdefault(queue, _says_that_it_changes(view))
            if seen.problem is not None or seen.partitions is None:
                continue
            known, now = self._known.get(queue), seen.resizing
            self._known[queue] = (seen.partitions, now)
            wanted = view.spec.partitions if view is not None and view.spec is not None else None
            if now is None:
                if _ended(seen, wanted, inherited) if known is None else _ended_since(known, seen, wanted):
                    has = counted(seen.partitions, "partition")
                    yield EventReason.RESIZED, f"{queue} has {has}, and every key is where that puts it"
            elif known is None or known[1] is None or known[1][:2] != now[:2]:
                yield EventReason.RESIZING, f"{queue} {_goes(now)}{_waits(now)}"


def _says_that_it_changes(view: QueueView | None) -> bool:
    conditions = view.status.get("conditions") if view is not None else None
    return any(one.get("type") == "Resized" and one.get("status") == ConditionStatus.FALSE for one in conditions or ())


def _ended(seen: QueueFacts, wanted: int | None, inherited: bool) -> bool:
    """A change that another operator has seen, and that is over at the first look."""
    return inherited and resized(seen, wanted)[1] is ConditionStatus.TRUE


def _ended_since(known: tuple[int, Resizing | None], seen: QueueFacts, wanted: int | None) -> bool:
    partitions, resizing = known
    return resizing is not None or (seen.fenced and partitions != seen.partitions == wanted)


def _goes(resizing: Resizing) -> str:
    return f"goes from {resizing.before:,} to {counted(resizing.after, 'partition')}"


def _waits(resizing: Resizing) -> str:
    if not resizing.waits_for:
        return ""
    one = len(resizing.waits_for) == 1
    numbers = format_numbers(resizing.waits_for)
    return (
        f"; waits until the {'owner' if one else 'owners'} of {'partition' if one else 'partitions'} {numbers} "
        f"{'is' if one else 'are'} done with what was sent before"
    )


@dataclass(slots=True)
class _Writing:
    uid: str
    writer: StatusWriter
    shown: tuple[QueueView, list[QueueFacts]] | None = None
    """What the status was last made from."""


class QueueReports:
    """Reports by queue and group."""

    def __init__(
        self, api: Api, cache: ClusterCache, clock: ApiServerClock, tasks: Tasks, groups_seen: Callable[[str], bool]
    ) -> None:
        """`groups_seen`: whether all groups of a namespace have been seen. Before that, no queue counts as unused."""
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
            writing.writer.close()
            del self._writing[queue]
            writing = None
        if view is None:
            return
        if writing is None:
            start = partial(self._tasks.start, "status", namespace=view.namespace, queue=view.name)
            writer = StatusWriter(self._api, queues_path(view.namespace, view.name), view.uid, self._clock, start)
            writing = self._writing[queue] = _Writing(view.uid, writer)
        if (reports := self._to_tell(queue)) is None:
            return
        facts = view, reports
        shown, writing.shown = writing.shown, facts
        if facts == shown:  # at once where they are the same objects
            return
        status = queue_status(view, reports, self._clock.now()).model_dump(by_alias=True, exclude_none=True, mode="json")
        writing.writer.want(status, view.status)

    def refresh_all(self) -> None:
        """Also of queues that no group names."""
        for view in self._cache.queues:
            self.refresh((view.namespace, view.name))

    def put_right(self) -> None:
        """Write again each status that another client has overwritten, from time to time, so that two writers do not race; and
        each that had to wait until the groups of its namespace were seen."""
        self.refresh_all()
        for queue, writing in self._writing.items():
            view = self._cache.queues.get(*queue)
            if view is not None and view.uid == writing.uid and self._to_tell(queue) is not None:
                writing.writer.put_right(view.status)

    def _to_tell(self, queue: QueueKey) -> list[QueueFacts] | None:
        """What its groups say. None: its group has not said anything yet, or was not seen yet, or another release of the operator
        serves it."""
        reports = list(self._reports.get(queue, {}).values())
        return None if not reports and (self._cache.named(queue) or not self._groups_seen(queue[0])) else reports

    def close(self) -> None:
        """Stop writing: another replica writes from now on."""
        for writing in self._writing.values():
            writing.writer.close()
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
        dead_letters=facts.check.letters if facts is not None else None,
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
    wanted = view.spec.partitions
    if resizing is not None:
        return PartitionScaleStatus.SCALING_UP if resizing.after > resizing.before else PartitionScaleStatus.SCALING_DOWN
    if wanted is None or wanted == operating:
        return PartitionScaleStatus.READY
    return PartitionScaleStatus.SCALING_UP if wanted > operating else PartitionScaleStatus.SCALING_DOWN
