"""Prometheus metrics of a consumer. Needs prometheus-client (the extra `metrics` of baton-consumer)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from baton.consumer.assignments import Assignments
from baton.model.extras import extra
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.ledger import MemberEntry, flat
from baton.queues.consumer_side import Reader
from baton.queues.entry import Entries
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable

with extra("metrics"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_ATTEMPTS = (1, 2, 3, 5, 8, 13, 21)


class ConsumerMetrics:
    """The metrics of one consumer, by queue. Pass it to `Consumer.from_environment(metrics=…)` and serve `registry`, for instance
    with `prometheus_client.start_http_server(8080)`. It wraps the consumer's queues and ledger, so the rest of the consumer does
    not count anything.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, clock: Callable[[], float] = time.monotonic) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"baton_consumer_{name}", text, ["queue"], registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
            return Histogram(f"baton_consumer_{name}", text, ["queue", *labels], registry=registry, buckets=buckets)

        self.handled = counter("handled", "Entries that were acknowledged.")
        self.failed = counter("failed", "Failures of entries, which are then retried or become dead letters.")
        self.dead = counter("dead_letters", "Entries that this consumer has moved to the dead letters.")
        self.redelivered = counter("redelivered", "Entries that were delivered again.")
        self.refused = counter("refused", "Requests that the queue rejected because this consumer is not the owner.")
        self.taken_over = histogram("takeover_seconds", "From seeing a grant to reading the first entry, if one was waiting.")
        self.given_back = histogram("release_seconds", "From seeing that a partition is revoked to its release.")
        self._handling = histogram("handling_seconds", "Duration of a handler's call for an entry or a batch.", "outcome")
        self._attempts = histogram("attempts", "Attempts of an entry or a batch up to the last one.", buckets=_ATTEMPTS)
        self._overdue = counter("handler_timeouts", "Handler calls that took longer than handler_timeout.")
        self._oldest: Callable[[], Mapping[QueueName, float]] = dict
        self._clock = clock
        self._readers: dict[QueueName, Reader] = {}
        self._assignments: MeasuredAssignments | None = None
        registry.register(self)

    def around(
        self, open_queue: Callable[[QueueName], Reader], source: Assignments
    ) -> "tuple[Callable[[QueueName], Reader], MeasuredAssignments]":
        """Wrap a consumer's queues and assignments to measure them."""
        self._assignments = assignments = MeasuredAssignments(source, self, self._clock)

        def measured(queue: QueueName) -> Reader:
            self._readers[queue] = reader = open_queue(queue)
            self._overdue.labels(queue), self._attempts.labels(queue)  # start at 0, like the others
            for outcome in ("returned", "retry", "dead_letter"):
                self._handling.labels(queue, outcome)
            return cast(Reader, MeasuredReader(queue, reader, self, assignments))

        return measured, assignments

    def handling(self, queue: QueueName, seconds: float, outcome: str, attempts: int) -> None:
        """Record a handler's call. `outcome`: returned, retry or dead_letter. `attempts`: number of this attempt, from 1."""
        self._handling.labels(queue, outcome).observe(seconds)
        if outcome != "retry":
            self._attempts.labels(queue).observe(attempts)

    def overdue(self, queue: QueueName) -> None:
        """Record that a handler took longer than `handler_timeout`."""
        self._overdue.labels(queue).inc()

    def asking(self, oldest: Callable[[], Mapping[QueueName, float]]) -> None:
        """Set the function that returns, by queue, the age in seconds of the program's oldest unfinished entry."""
        self._oldest = oldest

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges without values: registration must not send requests to queues."""
        yield GaugeMetricFamily("baton_consumer_partitions", "Partitions that this consumer owns.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_lag", "Entries in them that are not acknowledged.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_oldest_entry_seconds", "Age of the oldest unfinished entry.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_at_limit", "1 at the queue's maxDeliveredUnacked, else 0.", labels=["queue"])

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges for a scrape, on the server's thread. A queue that does not answer has no lag."""
        partitions, lag, oldest, at_limit = self.describe()
        entry = self._assignments.entry if self._assignments is not None else None
        for queue, numbers in _numbers(entry).items():
            partitions.add_metric([queue], len(numbers))
            how_much = getattr(self._readers.get(queue), "lag", None)  # optional in a reader
            if how_much is not None:
                with suppress(QueueUnreachable):
                    lag.add_metric([queue], how_much(numbers))
            is_full = getattr(self._readers.get(queue), "is_full", None)
            if is_full is not None:
                at_limit.add_metric([queue], is_full())
        for queue, seconds in self._oldest().items():
            oldest.add_metric([queue], seconds)
        yield from (partitions, lag, oldest, at_limit)


@dataclass(slots=True)
class _HeldTime:
    """Times of a partition held by this consumer, by the metrics' clock."""

    granted_at: float
    read: bool = False
    revoked_at: float | None = None
    over: bool = False


class MeasuredAssignments:
    """Measures assignments on their way to the consumer. Used by the thread of the consumer's loop."""

    def __init__(self, source: Assignments, metrics: ConsumerMetrics, clock: Callable[[], float]) -> None:
        self._source = source
        self._metrics = metrics
        self._clock = clock
        self._held: dict[tuple[Partition, Epoch], _HeldTime] = {}
        self.entry: MemberEntry | None = None
        """The assignments that the consumer last read."""

    def watch(self, changed: Callable[[], None]) -> None:
        self._source.watch(changed)

    def close(self) -> None:
        self._source.close()

    def current(self) -> MemberEntry | None:
        entry = self._source.current()
        if entry is not self.entry:
            self.entry, before, now = entry, self._held, self._clock()
            owned, revoking = ([*flat(entry.owned)], [*flat(entry.revoking)]) if entry else ([], [])
            self._held = {grant: before.get(grant) or _HeldTime(now) for grant in [*owned, *revoking]}
            for partition, epoch in revoking:
                self.revoked(partition, epoch)
        return entry

    def revoked(self, partition: Partition, epoch: Epoch) -> None:
        held = self._held.get((partition, epoch))
        if held is not None and held.revoked_at is None:
            held.revoked_at = self._clock()

    def read(self, partition: Partition, epoch: Epoch, found: bool) -> None:
        """Record an answer of the queue: whether it had entries."""
        held = self._held.get((partition, epoch))
        if held is not None and not held.read:
            held.read = True
            if found:
                self._metrics.taken_over.labels(partition.queue).observe(self._clock() - held.granted_at)

    def lost(self, partition: Partition, epoch: Epoch) -> None:
        if (held := self._held.get((partition, epoch))) is not None:
            held.over = True

    def released(self, partition: Partition, epoch: Epoch) -> None:
        """Record that the consumer has released the partition."""
        held = self._held.get((partition, epoch))
        if held is not None and not held.over and held.revoked_at is not None:
            self._metrics.given_back.labels(partition.queue).observe(self._clock() - held.revoked_at)
            held.over = True


class MeasuredReader:
    """Measures the requests to a queue's reader. Methods that are not defined here pass through."""

    def __init__(self, queue: QueueName, reader: Reader, metrics: ConsumerMetrics, assignments: MeasuredAssignments) -> None:
        self._queue = queue
        self._reader = reader
        self._assignments = assignments
        # Start at 0: Prometheus does not count the first value that it sees as an increase.
        counters = metrics.handled, metrics.failed, metrics.dead, metrics.redelivered, metrics.refused
        self._handled, self._failed, self._dead, self._redelivered, self._refused = (one.labels(queue) for one in counters)
        self.ready = reader.ready  # without a wrapper, because it is called most often

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, partition: int, epoch: Epoch, count: int = 100, **how: Any) -> Entries:
        with self._asking(partition, epoch):
            entries = Entries.of(self._reader.read(partition, epoch, count, **how))
        if again := entries.redelivered:
            self._redelivered.inc(again)
        self._assignments.read(Partition(self._queue, partition), epoch, bool(entries))
        return entries

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], **how: Any) -> None:
        with self._asking(partition, epoch):
            self._reader.ack(partition, epoch, offsets, **how)
        self._handled.inc(len(offsets))

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        with self._asking(partition, epoch):
            again = self._reader.retry(partition, epoch, offset, why)
        self._failed.inc()
        if again:
            self._redelivered.inc()
        else:
            self._dead.inc()
        return again

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        with self._asking(partition, epoch):
            self._reader.set_aside(partition, epoch, offset, why)
        self._failed.inc()
        self._dead.inc()

    def verify(self, partition: int, epoch: Epoch) -> None:
        with self._asking(partition, epoch):
            self._reader.verify(partition, epoch)

    def release(self, partitions: Mapping[int, Epoch], within: float, **how: Any) -> Mapping[int, QueueUnreachable]:
        untaken = self._reader.release(partitions, within, **how)
        for partition, epoch in partitions.items():
            if partition not in untaken:
                self._assignments.released(Partition(self._queue, partition), epoch)
        return untaken

    @contextmanager
    def _asking(self, partition: int, epoch: Epoch) -> Iterator[None]:
        try:
            yield
        except StaleOwner:
            self._refused.inc()
            self._assignments.lost(Partition(self._queue, partition), epoch)
            raise
        except PartitionPaused:
            self._assignments.revoked(Partition(self._queue, partition), epoch)
            raise


def _numbers(entry: MemberEntry | None) -> dict[QueueName, list[int]]:
    if entry is None:
        return {}
    return {queue: [*entry.owned.get(queue, {}), *entry.revoking.get(queue, {})] for queue in {*entry.owned, *entry.revoking}}
