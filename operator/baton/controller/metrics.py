"""Prometheus metrics. docs/reference/metrics.md lists their names and labels.

Gauges and totals are read from the last snapshot of each group when they are scraped, so a group that is gone leaves nothing
behind, and totals that are in the ledger survive a restart. Scrapes run on another thread: a snapshot is one immutable value,
swapped at once. The backlog is read from the queues' last looks, which happen with or without members.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from baton.api import ConditionStatus, ConsumerGroupStatus, PartitionScaleStatus, ShownState
from baton.controller.backlog import Work, work
from baton.controller.event_loop import EventLoopStalls
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.ledger import LedgerWrites
from baton.controller.queue_reports import scale_status
from baton.kube.clock import ApiServerClock
from baton.queues.protocol import QueueCheck

if TYPE_CHECKING:
    from baton.controller.operator_replica import Replica

Key = tuple[str, str]

# No gauges `…_created`: the time at which a replica began to count is of no use.
disable_created_metrics()  # type: ignore[no-untyped-call]

LATENCIES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0)
PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
HOLDDOWNS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One group as of its last reconcile."""

    status: ConsumerGroupStatus = field(default_factory=ConsumerGroupStatus)
    """The status that is written, or will be."""
    partitions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The number of partitions by queue and state (`baton.engine.state_machine`)."""
    reconciled_at: float = 0.0
    """monotonic seconds"""
    queues: Mapping[str, QueueSight] = field(default_factory=dict)
    """The queues, with backlogs that are newer than the last reconcile."""
    ledger: LedgerWrites = field(default_factory=LedgerWrites)

    def work(self, now: float) -> Work | None:
        """Return the work in all of the group's queues; None: the lag of one of them is not known."""
        return work([one.backlog for one in self.queues.values() if one.named], now)


class Metrics(Collector):
    """The metrics of groups, and the registry to scrape. Metrics of the replica and its process are added to the registry."""

    def __init__(self, clock: ApiServerClock) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        labels = ("namespace", "group")
        self.pause = self._histogram(
            "baton_pause_seconds", "From revoking a partition to granting it to the next owner", labels, PAUSES
        )
        self.holddown = self._histogram(
            "baton_holddown_seconds", "How long changes of the fleet were held down", labels, HOLDDOWNS
        )
        self.ready_to_ledger = self._histogram(
            "baton_ready_to_ledger_seconds",
            "From seeing a pod able to take part (Ready; an executor also registered) to the ledger that names it",
            labels,
            LATENCIES,
        )
        self._histograms = (self.pause, self.holddown, self.ready_to_ledger)
        self._groups: dict[Key, Snapshot] = {}
        """Scrapes take a copy, which is atomic."""
        self._strays: Mapping[Key, int] = {}
        self.registry.register(self)

    def _histogram(self, name: str, about: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, labels, buckets=buckets, registry=self.registry)

    def group(self, key: Key, snapshot: Snapshot) -> None:
        if key not in self._groups:
            for histogram in self._histograms:
                histogram.labels(*key)  # starts at 0, because Prometheus does not count the first value as an increase
        self._groups[key] = snapshot

    def forget(self, key: Key) -> None:
        """Drop the metrics of a group that is gone, or that another operator serves."""
        self._groups.pop(key, None)
        for histogram in self._histograms:
            try:
                histogram.remove(*key)
            except KeyError:
                continue

    def work(self, key: Key) -> Work | None:
        """Return the work of a group; None: not known. Raises KeyError for a group that this replica does not serve."""
        return self._groups[key].work(self._clock.ticks())

    def works(self) -> dict[Key, Work | None]:
        """Return the work of every group that this replica serves."""
        now = self._clock.ticks()
        return {key: one.work(now) for key, one in sorted(self._groups.copy().items())}

    def checks(self, key: Key) -> dict[str, QueueCheck | None]:
        """Return the last look at each of the group's queues; None if it is too old. Raises KeyError as `work` does."""
        now = self._clock.ticks()
        known = {name: one.backlog.fresh(now) for name, one in self._groups[key].queues.items() if one.named}
        return {name: None if one is None else one.check for name, one in known.items()}

    def without_group(self, pods: Mapping[Key, int]) -> None:
        """Set the number of pods whose label names no group, by namespace and label."""
        self._strays = dict(pods)

    def collect(self) -> Iterator[Metric]:
        yield gauge(
            "baton_pods_without_group",
            "Pods whose label baton.dev/group names no ConsumerGroup of their namespace",
            ("namespace", "group"),
            [(key, float(count)) for key, count in self._strays.items()],
        )
        groups = self._groups.copy()
        yield from self._of_groups(groups)
        yield from self._of_queues(groups)
        yield from self._of_work(groups)

    def _of_groups(self, groups: Mapping[Key, Snapshot]) -> Iterator[Metric]:
        labels = ("namespace", "group")
        yield gauge(
            "baton_group_state",
            "1 for the state that the group is in",
            (*labels, "state"),
            [((*key, state.value), float(one.status.state is state)) for key, one in groups.items() for state in ShownState],
        )
        yield gauge(
            "baton_group_ready",
            "1 where the condition Ready is True; otherwise 0, and why",
            (*labels, "reason"),
            [
                ((*key, ready.reason), float(ready.status is ConditionStatus.TRUE))
                for key, one in groups.items()
                for ready in one.status.conditions[:1]
            ],
        )
        yield gauge(
            "baton_members",
            "Pods that take part, by role (active, standby)",
            (*labels, "role"),
            [
                ((*key, role), float(count))
                for key, one in groups.items()
                for role, count in (("active", one.status.members - one.status.standbys), ("standby", one.status.standbys))
            ],
        )
        yield gauge(
            "baton_partitions",
            "Partitions by queue and state",
            (*labels, "queue", "state"),
            [((*key, *of), float(count)) for key, one in groups.items() for of, count in one.partitions.items()],
        )
        now = self._clock.ticks()
        yield gauge(
            "baton_reconcile_age_seconds",
            "Since the last reconcile that completed",
            labels,
            [(key, now - one.reconciled_at) for key, one in groups.items()],
        )
        yield gauge(
            "baton_ledger_failing_seconds",
            "For how long the ledger could not be written; 0: it can be written",
            labels,
            [(key, 0.0 if (since := one.ledger.fails_since) is None else now - since) for key, one in groups.items()],
        )
        for name, about, value in _GAUGES:
            yield gauge(name, about, labels, [(key, float(value(one))) for key, one in groups.items()])
        for name, about, field_name in _LEDGER_TOTALS:
            reported = [(key, one.status) for key, one in groups.items() if field_name in one.status.model_fields_set]
            yield counter(name, about, labels, [(key, float(getattr(status, field_name))) for key, status in reported])
        for name, about, value in _COUNTERS:
            yield counter(name, about, labels, [(key, float(value(one))) for key, one in groups.items()])

    def _of_queues(self, groups: Mapping[Key, Snapshot]) -> Iterator[Metric]:
        labels, now = ("namespace", "group", "queue"), self._clock.ticks()
        queues = [((*key, name), queue) for key, one in groups.items() for name, queue in one.queues.items()]
        yield gauge(
            "baton_queue_reachable",
            "1 where the queue answers",
            labels,
            [(key, float(one.facts.problem is None and one.facts.partitions is not None)) for key, one in queues],
        )
        yield gauge(
            "baton_queue_scale_status",
            "1 for the partition scale status that the queue has",
            (*labels, "status"),
            [
                ((*key, status.value), float(shown is status))
                for key, queue in queues
                if queue.view is not None and (shown := scale_status(queue.view, queue.facts)) is not None
                for status in PartitionScaleStatus
            ],
        )
        yield gauge(
            "baton_queue_lag",
            "Entries of a partition that are not yet acknowledged or committed",
            (*labels, "partition"),
            [
                ((*key, str(number)), float(lag))
                for key, one in queues
                if (known := one.backlog.fresh(now)) is not None
                for number, lag in known.check.lag.items()
            ],
        )
        for name, about, value in _QUEUE_TOTALS:
            totals = [(key, value(queue.facts)) for key, queue in queues]
            yield counter(name, about, labels, [(key, float(total)) for key, total in totals if total is not None])

    def _of_work(self, groups: Mapping[Key, Snapshot]) -> Iterator[Metric]:
        labels, now = ("namespace", "group"), self._clock.ticks()
        works = [(key, found) for key, one in groups.items() if (found := one.work(now)) is not None]
        for name, about, value in _WORK:
            values = [(key, value(found)) for key, found in works]
            yield gauge(name, about, labels, [(key, float(one)) for key, one in values if one is not None])


_Simple = tuple[tuple[str, str, Callable[[Snapshot], float]], ...]
"""Metrics with a group's labels and no others: name, help text, value."""

_GAUGES: _Simple = (
    ("baton_proposed_moves", "Moves that wait for approval", lambda one: one.status.proposed),
    ("baton_moving_partitions", "Partitions that are changing hands", lambda one: one.status.moving),
    ("baton_ledger_bytes", "Size of the ledger; it can have about 900 KiB", lambda one: one.ledger.bytes),
)
_LEDGER_TOTALS = (
    ("baton_moves", "Grants of a partition to another member than its last owner", "moves"),
    ("baton_moves_lower_bound", "The fewest moves that could have reached balance", "lower_bound"),
    ("baton_deadline_misses", "Partitions taken from a member that did not release them in time", "deadline_misses"),
)
"""Counted in the ledger: name, help text, field of the status. There is no sample before the ledger is read, because a 0 before
the total would look like an increase by the total."""

_COUNTERS: _Simple = (
    ("baton_ledger_writes", "Writes of the ledger by this replica", lambda one: one.ledger.writes),
    ("baton_ledger_failures", "Writes of the ledger by this replica that failed", lambda one: one.ledger.failed),
    ("baton_ledger_restored", "Times this replica put an edited or deleted ledger right", lambda one: one.ledger.restored),
)


def _total(by_partition: Mapping[int, int] | None) -> int | None:
    return None if by_partition is None else sum(by_partition.values())


_QUEUE_TOTALS: tuple[tuple[str, str, Callable[[QueueFacts], int | None]], ...] = (
    (
        "baton_stale_refused",
        "Times the queue rejected a consumer that does not own the partition (any more)",
        lambda facts: _total(facts.check.stale_refused),
    ),
    (
        "baton_dead_letters",
        "Entries that were moved to dead letters, for any reason",
        lambda facts: _total(facts.check.dead_letters),
    ),
    ("baton_vanished", "Entries that were gone before they were finished", lambda facts: facts.check.vanished),
)
"""Counted at the queue: name, help text, value. None: the queue does not count them, or has not been looked at yet."""

_WORK: tuple[tuple[str, str, Callable[[Work], float | None]], ...] = (
    (
        "baton_group_lag",
        "Entries of all of the group's queues that are not yet acknowledged or committed",
        lambda found: found.lag,
    ),
    (
        "baton_group_lag_seconds",
        "Time to process the lag at the rate of the last minute; while no entry is finished, the age of the oldest",
        lambda found: found.seconds,
    ),
    (
        "baton_group_lag_partitions",
        "Partitions of all of the group's queues that have lag",
        lambda found: found.partitions,
    ),
    ("baton_group_waiting_seconds", "The age of the oldest entry, while no entry is finished", lambda found: found.waiting),
)

Samples = list[tuple[tuple[str, ...], float]]


def gauge(name: str, about: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """Return a gauge with a sample for each set of label values."""
    return _filled(GaugeMetricFamily(name, about, labels=labels), samples)


def counter(name: str, about: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """Return a counter with a sample for each set of label values."""
    return _filled(CounterMetricFamily(name, about, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, value in samples:
        family.add_metric(values, value)
    return family


class ReplicaMetrics(Collector):
    """The metrics of a replica, which are read during a scrape, on another thread."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica

    def collect(self) -> Iterable[Metric]:
        elector = self._replica.elector
        leads, elsewhere = float(elector.leading), self._replica.group_loops.other_releases.counts()
        yield gauge("baton_leader", "1 where this replica leads", ("release",), [((elector.release,), leads)])
        yield gauge(
            "baton_groups_served_elsewhere",
            "Groups that this release leaves to another one, which serves them",
            ("release", "by"),
            [((elector.release, release), float(count)) for release, count in elsewhere.items()],
        )
        yield from self._of_lists()
        yield from self._of_capacity()
        yield counter(
            "baton_task_failures",
            "Times a background task failed, or ended although it should run for ever",
            ("task",),
            [((name,), float(count)) for name, count in self._replica.tasks.failures.copy().items()],
        )

    def _of_capacity(self) -> Iterator[Metric]:
        books, release = self._replica.capacity, self._replica.elector.release
        yield gauge(
            "baton_most_partitions", "Partitions that all groups together may have", ("release",), [((release,), books.most)]
        )
        yield gauge(
            "baton_booked_partitions",
            "Partitions booked for the groups of a namespace, which may have half of all if several are served",
            ("release", "namespace"),
            [((release, namespace), float(count)) for namespace, count in books.by_namespace.items()],
        )
        yield gauge(
            "baton_groups_without_room",
            "Groups of a namespace that wait for room (OperatorFull)",
            ("release", "namespace"),
            [((release, namespace), float(count)) for namespace, count in books.waiting.items()],
        )

    def _of_lists(self) -> Iterator[Metric]:
        now = self._replica.clock.ticks()
        listers = list(self._replica.relists.listers)
        yield gauge(
            "baton_list_age_seconds",
            "Since the start of the last list that completed",
            ("namespace", "resource"),
            [((one.scope or "", one.of.value), now - one.begun) for one in listers if one.begun > float("-inf")],
        )
        yield gauge(
            "baton_list_failing_seconds",
            "For how long lists have failed; 0: the last one succeeded",
            ("namespace", "resource"),
            [((one.scope or "", one.of.value), 0.0 if (since := one.failing_since) is None else now - since) for one in listers],
        )
        yield counter(
            "baton_list_failures",
            "Lists that failed, by the status of the answer (unavailable: none in time, 429 or 5xx)",
            ("namespace", "resource", "status"),
            [
                ((one.scope or "", one.of.value, status), float(count))
                for one in listers
                for status, count in one.failures.copy().items()
            ],
        )


class ProcessMetrics(Collector):
    """The metrics of the process that a replica runs in."""

    def __init__(self, stalls: EventLoopStalls) -> None:
        self._stalls = stalls

    def collect(self) -> Iterable[Metric]:
        yield gauge(
            "baton_loop_stall_seconds",
            "The longest stall of the event loop in the last five minutes",
            (),
            [((), self._stalls.recent())],
        )
        yield gauge("baton_loop_stall_longest_seconds", "The same since the start", (), [((), self._stalls.longest)])
