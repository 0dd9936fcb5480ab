"""A consumer's metrics for Prometheus. Needs prometheus-client (the extra `metrics` of baton-consumer)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import cast

from baton.consumer.assignment_source import Assignments
from baton.consumer.instrumentation import HeldTimes, MeasuredAssignments, MeasuredReader
from baton.model.extras import extra
from baton.model.ids import QueueName
from baton.model.ledger import MemberEntry
from baton.queues.consumer_side import Reader
from baton.queues.protocol import QueueUnreachable

with extra("metrics"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class ConsumerMetrics:
    """Counts what one consumer does; all by queue. Give it to `Consumer.from_environment(metrics=…)`, and serve `registry`, for
    instance with `prometheus_client.start_http_server(8080)`.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"baton_consumer_{name}", text, ["queue"], registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"baton_consumer_{name}_seconds", text, ["queue"], registry=registry, buckets=_SECONDS)

        self._handled = counter("handled", "Entries that were acknowledged.")
        self._failed = counter("failed", "Times an entry failed, to be tried again or to become a dead letter.")
        self._dead = counter("dead_letters", "Entries that this consumer has set aside.")
        self._redelivered = counter("redelivered", "Entries that came again.")
        self._refused = counter("refused", "Times the queue did not take this consumer for the owner.")
        self._counters = (self._handled, self._failed, self._dead, self._redelivered, self._refused)
        self._taken_over = histogram("takeover", "From seeing a grant to the first entry, where one was waiting.")
        self._given_back = histogram("release", "From hearing that a partition is called back to having let go of it.")
        self._handling = histogram("handling", "That a handler took for an entry or a batch.")
        self._oldest: Callable[[], Mapping[QueueName, float]] = dict
        self._held_times = HeldTimes(self)
        self._readers: dict[QueueName, Reader] = {}
        self._source: MeasuredAssignments | None = None
        registry.register(self)

    def around(self, open_queue: Callable[[QueueName], Reader]) -> Callable[[QueueName], Reader]:
        """Opens the same queues, measured."""

        def measured(queue: QueueName) -> Reader:
            for counter in self._counters:
                counter.labels(queue)  # from 0 on: Prometheus takes the first value that it sees for no increase
            self._readers[queue] = reader = open_queue(queue)
            return cast(Reader, MeasuredReader(queue, reader, self, self._held_times))

        return measured

    def following(self, source: Assignments) -> Assignments:
        """The same assignments, measured."""
        self._source = MeasuredAssignments(source, self._held_times)
        return self._source

    def asking(self, oldest: Callable[[], Mapping[QueueName, float]]) -> None:
        """`oldest`: by queue, for how many seconds the program has had the oldest entry that is not finished."""
        self._oldest = oldest

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """What Prometheus asks at registration: nothing, so that no queue is asked."""
        yield GaugeMetricFamily("baton_consumer_partitions", "Partitions that are this consumer's.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_lag", "Entries in them that are not acknowledged.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_oldest_entry_seconds", "Since the oldest entry in hand came.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_at_limit", "1 at the queue's maxDeliveredUnacked, else 0.", labels=["queue"])

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """At each scrape, on the thread of whoever serves it. A queue that does not answer has no lag."""
        partitions, lag, oldest, at_limit = self.describe()
        entry = self._source.entry if self._source is not None else None
        for queue, numbers in _numbers(entry).items():
            partitions.add_metric([queue], len(numbers))
            how_much = getattr(self._readers.get(queue), "lag", None)  # which a reader need not know
            if how_much is not None:
                with suppress(QueueUnreachable):
                    lag.add_metric([queue], how_much(numbers))
            is_full = getattr(self._readers.get(queue), "is_full", None)
            if is_full is not None:
                at_limit.add_metric([queue], is_full())
        for queue, seconds in self._oldest().items():
            oldest.add_metric([queue], seconds)
        yield from (partitions, lag, oldest, at_limit)

    # What is measured

    def handling(self, queue: QueueName, seconds: float) -> None:
        """A handler has returned, and took this long."""
        self._handling.labels(queue).observe(seconds)

    def handled(self, queue: QueueName, count: int) -> None:
        self._handled.labels(queue).inc(count)

    def failed(self, queue: QueueName) -> None:
        self._failed.labels(queue).inc()

    def dead_letter(self, queue: QueueName) -> None:
        self._dead.labels(queue).inc()

    def redelivered(self, queue: QueueName, count: int) -> None:
        self._redelivered.labels(queue).inc(count)

    def refused(self, queue: QueueName) -> None:
        self._refused.labels(queue).inc()

    def taken_over(self, queue: QueueName, seconds: float) -> None:
        self._taken_over.labels(queue).observe(seconds)

    def given_back(self, queue: QueueName, seconds: float) -> None:
        self._given_back.labels(queue).observe(seconds)


def _numbers(entry: MemberEntry | None) -> dict[QueueName, list[int]]:
    if entry is None:
        return {}
    return {queue: [*entry.owned.get(queue, {}), *entry.revoking.get(queue, {})] for queue in {*entry.owned, *entry.revoking}}
