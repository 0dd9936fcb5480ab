"""Prometheus metrics of a consumer. Needs prometheus-client (the extra `metrics` of baton-consumer)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from baton.consumer.partition import HeldPartition, HeldPartitions, Phase
from baton.model.extras import extra
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.consumer_side import Reader
from baton.queues.entry import Entries
from baton.queues.fence import StaleOwner
from baton.queues.protocol import QueueUnreachable

with extra("metrics"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_ATTEMPTS = (1, 2, 3, 5, 8, 13, 21)


class ConsumerMetrics:
    """The metrics of one consumer, by queue. Pass it to `Consumer.from_environment(metrics=…)` and serve `registry`, for instance
    with `prometheus_client.start_http_server(8080)`. It wraps the readers of the consumer's queues and looks at its held
    partitions, so the rest of the consumer counts only the calls of handlers.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
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
        self._holdings: Callable[[], HeldPartitions] | None = None
        registry.register(self)

    def around(
        self, open_queue: Callable[[QueueName], Reader], holdings: Callable[[], HeldPartitions]
    ) -> Callable[[QueueName], Reader]:
        """Wrap the queues of a consumer to measure them. `holdings`: returns its partitions, once a queue has been opened."""
        self._holdings = holdings

        def measured(queue: QueueName) -> Reader:
            self._overdue.labels(queue), self._attempts.labels(queue)  # start at 0, like the others
            for outcome in ("returned", "retry", "dead_letter"):
                self._handling.labels(queue, outcome)
            return cast(Reader, MeasuredReader(queue, open_queue(queue), self, holdings()))

        return measured

    def handling(self, queue: QueueName, seconds: float, outcome: str, attempts: int) -> None:
        """Record a handler's call. `outcome`: returned, retry or dead_letter. `attempts`: number of this attempt, from 1."""
        self._handling.labels(queue, outcome).observe(seconds)
        if outcome != "retry":
            self._attempts.labels(queue).observe(attempts)

    def overdue(self, queue: QueueName) -> None:
        """Record that a handler took longer than `handler_timeout`."""
        self._overdue.labels(queue).inc()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges without values: registration must not send requests to queues."""
        yield GaugeMetricFamily("baton_consumer_partitions", "Partitions that this consumer owns.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_lag", "Entries in them that are not acknowledged.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_oldest_entry_seconds", "Age of the oldest unfinished entry.", labels=["queue"])
        yield GaugeMetricFamily("baton_consumer_at_limit", "1 at the queue's maxDeliveredUnacked, else 0.", labels=["queue"])

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges for a scrape, on the server's thread. A queue that does not answer has no lag."""
        partitions, lag, oldest, at_limit = self.describe()
        if self._holdings is not None:
            holdings, now = self._holdings(), time.monotonic()
            numbers: dict[QueueName, list[int]] = {}
            begun: dict[QueueName, float] = {}
            for holding in holdings:
                queue, number = holding.partition
                numbers.setdefault(queue, []).extend([] if holding.over else [number])
                begun[queue] = min(holding.unfinished_since, begun.get(queue, now))
            for queue, those in numbers.items():
                partitions.add_metric([queue], len(those))
                oldest.add_metric([queue], now - begun[queue])
            for queue, how_much in holdings.having("lag").items():
                with suppress(QueueUnreachable):
                    lag.add_metric([queue], how_much(numbers.get(queue, [])))
            for queue, is_full in holdings.having("is_full").items():
                at_limit.add_metric([queue], is_full())
        yield from (partitions, lag, oldest, at_limit)


class MeasuredReader:
    """Measures the requests to a queue's reader. Methods that are not defined here pass through."""

    def __init__(self, queue: QueueName, reader: Reader, metrics: ConsumerMetrics, holdings: HeldPartitions) -> None:
        self._queue = queue
        self._reader = reader
        self._metrics = metrics
        self._holdings = holdings
        # Start at 0: Prometheus does not count the first value that it sees as an increase.
        counters = metrics.handled, metrics.failed, metrics.dead, metrics.redelivered, metrics.refused
        self._handled, self._failed, self._dead, self._redelivered, self._refused = (one.labels(queue) for one in counters)
        self.ready = reader.ready  # without a wrapper, because it is called most often

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, partition: int, epoch: Epoch, count: int = 100, **how: Any) -> Entries:
        with self._asking():
            entries = Entries.of(self._reader.read(partition, epoch, count, **how))
        if again := entries.redelivered:
            self._redelivered.inc(again)
        holding = self._held(partition, epoch)
        if entries and holding is not None and holding.phase is Phase.SERVING and not holding.read_before:
            self._metrics.taken_over.labels(self._queue).observe(time.monotonic() - holding.since)
        return entries

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], **how: Any) -> None:
        with self._asking():
            self._reader.ack(partition, epoch, offsets, **how)
        self._handled.inc(len(offsets))

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        with self._asking():
            again = self._reader.retry(partition, epoch, offset, why)
        self._failed.inc()
        (self._redelivered if again else self._dead).inc()
        return again

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        with self._asking():
            self._reader.set_aside(partition, epoch, offset, why)
        self._failed.inc()
        self._dead.inc()

    def verify(self, partition: int, epoch: Epoch) -> None:
        with self._asking():
            self._reader.verify(partition, epoch)

    def release(self, partitions: Mapping[int, Epoch], within: float, **how: Any) -> Mapping[int, QueueUnreachable]:
        untaken = self._reader.release(partitions, within, **how)
        for partition, epoch in partitions.items():
            holding = self._held(partition, epoch)
            if partition not in untaken and holding is not None and holding.revoked_at and not holding.over:
                self._metrics.given_back.labels(self._queue).observe(time.monotonic() - holding.revoked_at)
        return untaken

    def _held(self, partition: int, epoch: Epoch) -> HeldPartition | None:
        holding = self._holdings.of(Partition(self._queue, partition))
        return holding if holding is not None and holding.epoch == epoch else None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except StaleOwner:
            self._refused.inc()
            raise
