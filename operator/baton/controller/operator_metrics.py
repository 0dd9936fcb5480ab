"""Metrics of the operator itself: who leads, its lists, tasks, watches and event loop."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from baton.controller.capacity import Capacity
from baton.controller.event_loop import EventLoopStalls
from baton.controller.metrics import counter, gauge
from baton.controller.other_releases import OtherReleases
from baton.controller.relists import Relists
from baton.controller.supervision import Tasks
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector


class ReplicaMetrics(Collector):
    """Of a replica. Read when it is scraped, on another thread."""

    def __init__(
        self,
        clock: ApiServerClock,
        elector: Elector,
        relists: Relists,
        tasks: Tasks,
        other_releases: OtherReleases,
        capacity: Capacity,
    ) -> None:
        self._clock = clock
        self._elector = elector
        self._relists = relists
        self._tasks = tasks
        self._other_releases = other_releases
        self._capacity = capacity

    def collect(self) -> Iterable[Metric]:
        leads = float(self._elector.leading)
        yield gauge("baton_leader", "1 where this replica leads", ("release",), [((self._elector.release,), leads)])
        yield gauge(
            "baton_groups_served_elsewhere",
            "Groups that this release leaves to another one, which serves them",
            ("release", "by"),
            [((self._elector.release, release), float(count)) for release, count in self._other_releases.counts().items()],
        )
        yield from self._of_lists()
        yield from self._of_capacity()
        yield counter(
            "baton_task_failures",
            "Times a background task failed, or ended where it should have gone on",
            ("task",),
            [((name,), float(count)) for name, count in self._tasks.failures.copy().items()],
        )

    def _of_capacity(self) -> Iterator[Metric]:
        books, release = self._capacity, self._elector.release
        yield gauge(
            "baton_most_partitions", "Partitions that all groups may have together", ("release",), [((release,), books.most)]
        )
        yield gauge(
            "baton_booked_partitions",
            "Partitions that are booked for groups of a namespace: it may have half of all where several are served",
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
        now = self._clock.ticks()
        listers = list(self._relists.listers)
        yield gauge(
            "baton_list_age_seconds",
            "Since the last list that came to its end was begun",
            ("namespace", "resource"),
            [((one.scope or "", one.of.value), now - one.begun) for one in listers if one.begun > float("-inf")],
        )
        yield gauge(
            "baton_list_failing_seconds",
            "Since when lists fail; 0 where the last one worked",
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
            "The longest time in the last five minutes for which the event loop looked at nothing new",
            (),
            [((), self._stalls.recent())],
        )
        yield gauge("baton_loop_stall_longest_seconds", "The same since the start", (), [((), self._stalls.longest)])
