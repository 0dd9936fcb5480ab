"""A consumer's metrics for Prometheus. Needs prometheus-client (the extra `metrics` of baton-consumer)."""

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
    """Counts what one consumer does; all by queue. Give it to `Consumer.from_environment(metrics=…)`, and serve `registry`, for
    instance with `prometheus_client.start_http_server(8080)`. It measures where the consumer meets its queues and its ledger:
    nothing else of the consumer knows of the counting.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, clock: Callable[[], float] = time.monotonic) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"baton_consumer_{name}", text, ["queue"], registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
            return Histogram(f"baton_consumer_{name}", text, ["queue", *labels], registry=registry, buckets=buckets)

        self.handled = counter("handled", "Entries that were acknowledged.")
        self.failed = counter("failed", "Times an entry failed, to be tried again or to become a dead letter.")
        self.dead = counter("dead_letters", "Entries that this consumer has set aside.")
        self.redelivered = counter("redelivered", "Entries that came again.")
        self.refused = counter("refused", "Times the queue did not take this consumer for the owner.")
        self.taken_over = histogram("takeover_seconds", "From seeing a grant to the first entry, where one was waiting.")
        self.given_back = histogram("release_seconds", "From hearing that a partition is called back to having let go of it.")
        self._handling = histogram("handling_seconds", "That a handler took for an entry or a batch.", "outcome")
        self._attempts = histogram("attempts", "That an entry or a batch took until no other followed.", buckets=_ATTEMPTS)
        self._overdue = counter("handler_timeouts", "Times a handler took longer than handler_timeout.")
        self._oldest: Callable[[], Mapping[QueueName, float]] = dict
        self._clock = clock
        self._readers: dict[QueueName, Reader] = {}
        self._assignments: MeasuredAssignments | None = None
        registry.register(self)

    def around(
        self, open_queue: Callable[[QueueName], Reader], source: Assignments
    ) -> "tuple[Callable[[QueueName], Reader], MeasuredAssignments]":
        """Opens the same queues, and the same assignments, measured."""
        self._assignments = assignments = MeasuredAssignments(source, self, self._clock)

        def measured(queue: QueueName) -> Reader:
            self._readers[queue] = reader = open_queue(queue)
            self._overdue.labels(queue), self._attempts.labels(queue)  # from 0 on, as the others
            for outcome in ("returned", "retry", "dead_letter"):
                self._handling.labels(queue, outcome)
            return cast(Reader, MeasuredReader(queue, reader, self, assignments))

        return measured, assignments

    def handling(self, queue: QueueName, seconds: float, outcome: str, attempts: int) -> None:
        """A handler took this long; it has returned, or raised for a retry or a dead letter, at so many attempts."""
        self._handling.labels(queue, outcome).observe(seconds)
        if outcome != "retry":
            self._attempts.labels(queue).observe(attempts)

    def overdue(self, queue: QueueName) -> None:
        """A handler takes longer than `handler_timeout`."""
        self._overdue.labels(queue).inc()

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
        """At each scrape, on the thread of the server. A queue that does not answer has no lag."""
        partitions, lag, oldest, at_limit = self.describe()
        entry = self._assignments.entry if self._assignments is not None else None
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


@dataclass(slots=True)
class _HeldTime:
    """A partition's, with this consumer."""

    granted_at: float
    read: bool = False
    called_back_at: float | None = None
    over: bool = False


class MeasuredAssignments:
    """Assignments on their way to the consumer, and for how long it has had its partitions. Of the consumer's loop."""

    def __init__(self, source: Assignments, metrics: ConsumerMetrics, clock: Callable[[], float]) -> None:
        self._source = source
        self._metrics = metrics
        self._clock = clock
        self._held: dict[tuple[Partition, Epoch], _HeldTime] = {}
        self.entry: MemberEntry | None = None
        """As the consumer knows it."""

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
                self.called_back(partition, epoch)
        return entry

    def called_back(self, partition: Partition, epoch: Epoch) -> None:
        held = self._held.get((partition, epoch))
        if held is not None and held.called_back_at is None:
            held.called_back_at = self._clock()

    def read(self, partition: Partition, epoch: Epoch, found: bool) -> None:
        """The queue has answered: with entries, or that there are none."""
        held = self._held.get((partition, epoch))
        if held is not None and not held.read:
            held.read = True
            if found:
                self._metrics.taken_over.labels(partition.queue).observe(self._clock() - held.granted_at)

    def lost(self, partition: Partition, epoch: Epoch) -> None:
        if (held := self._held.get((partition, epoch))) is not None:
            held.over = True

    def let_go(self, partition: Partition, epoch: Epoch) -> None:
        """By the consumer's own word."""
        held = self._held.get((partition, epoch))
        if held is not None and not held.over and held.called_back_at is not None:
            self._metrics.given_back.labels(partition.queue).observe(self._clock() - held.called_back_at)
            held.over = True


class MeasuredReader:
    """A queue's reader, with an eye on what passes through it. What is not named here passes unseen."""

    def __init__(self, queue: QueueName, reader: Reader, metrics: ConsumerMetrics, assignments: MeasuredAssignments) -> None:
        self._queue = queue
        self._reader = reader
        self._assignments = assignments
        # From 0 on: Prometheus takes the first value that it sees for no increase.
        counters = metrics.handled, metrics.failed, metrics.dead, metrics.redelivered, metrics.refused
        self._handled, self._failed, self._dead, self._redelivered, self._refused = (one.labels(queue) for one in counters)
        self.ready = reader.ready  # is asked most often

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

    def let_go(self, partitions: Mapping[int, Epoch], within: float, **how: Any) -> Mapping[int, QueueUnreachable]:
        untaken = self._reader.let_go(partitions, within, **how)
        for partition, epoch in partitions.items():
            if partition not in untaken:
                self._assignments.let_go(Partition(self._queue, partition), epoch)
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
            self._assignments.called_back(Partition(self._queue, partition), epoch)
            raise


def _numbers(entry: MemberEntry | None) -> dict[QueueName, list[int]]:
    if entry is None:
        return {}
    return {queue: [*entry.owned.get(queue, {}), *entry.revoking.get(queue, {})] for queue in {*entry.owned, *entry.revoking}}
