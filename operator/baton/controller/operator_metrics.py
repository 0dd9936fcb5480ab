"""What Prometheus is told of the operator itself: its event loop, lists, watches and tasks."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from baton.controller.metrics import counter, gauge
from baton.controller.relists import Relists
from baton.controller.stalls import Stalls
from baton.controller.supervision import Tasks
from baton.controller.watches import Watches
from baton.kube.clock import Clock


class OperatorMetrics(Collector):
    """Read when it is scraped, on another thread."""

    def __init__(self, clock: Clock, relists: Relists, tasks: Tasks, watches: Watches, stalls: Stalls) -> None:
        self._stalls = stalls
        self._clock = clock
        self._relists = relists
        self._tasks = tasks
        self._watches = watches

    def collect(self) -> Iterable[Metric]:
        yield from self._of_lists()
        yield gauge(
            "baton_loop_stall_seconds",
            "The longest time in the last five minutes for which the event loop looked at nothing new",
            (),
            [((), self._stalls.recent())],
        )
        yield gauge(
            "baton_loop_stall_longest_seconds",
            "The same since the start",
            (),
            [((), self._stalls.longest)],
        )
        yield counter(
            "baton_watch_restarts",
            "Times the watch of a namespace ended and was started again",
            ("namespace",),
            [((scope or "",), float(count)) for scope, count in self._watches.restarts.items()],
        )
        yield counter(
            "baton_task_failures",
            "Times a background task failed, or ended where it should have gone on",
            ("task",),
            [((name,), float(count)) for name, count in self._tasks.failures.copy().items()],
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
