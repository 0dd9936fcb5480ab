"""A consumer's metrics for Prometheus. Needs prometheus-client (the extra `metrics` of baton-consumer)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from baton.consumer.assignments import Assignments
from baton.model.extras import extra
from baton.model.ids import Epoch, QueueName
from baton.model.ledger import MemberEntry, flat
from baton.queues.consumer_side import Reader
from baton.queues.entries import Entries
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import QueueUnreachable

# What a consumer does, measured where it meets its queues and its ledger: nothing else of it knows of the counting.


class Measures(Protocol):
    """Counts what a consumer does; `baton.consumer.metrics.ConsumerMetrics` is one."""

    def handled(self, queue: QueueName, count: int) -> None:
        """Entries were acknowledged."""

    def failed(self, queue: QueueName) -> None:
        """An entry failed: it is tried again, or a dead letter."""

    def dead_letter(self, queue: QueueName) -> None: ...

    def redelivered(self, queue: QueueName, count: int) -> None:
        """Entries came that were handed out before."""

    def refused(self, queue: QueueName) -> None:
        """The queue did not take this consumer for the owner."""

    def taken_over(self, queue: QueueName, seconds: float) -> None:
        """From seeing a grant to having the first entry, where one was waiting."""

    def given_back(self, queue: QueueName, seconds: float) -> None:
        """From hearing that a partition is called back to having let go of it."""


@dataclass(slots=True)
class _HeldTime:
    """A partition's, with this consumer."""

    granted_at: float
    read: bool = False
    called_back_at: float | None = None
    over: bool = False


class HeldTimes:
    """Of all partitions under their epochs, as the ledger and the queues tell of them. Of the consumer's loop."""

    def __init__(self, measures: Measures, clock: Callable[[], float] = time.monotonic) -> None:
        self._measures = measures
        self._clock = clock
        self._held_times: dict[tuple[QueueName, int, Epoch], _HeldTime] = {}

    def follow(self, entry: MemberEntry | None) -> None:
        """The ledger says so now."""
        owned, revoking = (flat(entry.owned), flat(entry.revoking)) if entry else ((), ())
        now, before, self._held_times = self._clock(), self._held_times, {}
        for partition, epoch in owned:
            key = (*partition, epoch)
            self._held_times[key] = before.get(key) or _HeldTime(now)
        for partition, epoch in revoking:
            key = (*partition, epoch)
            self._held_times[key] = before.get(key) or _HeldTime(now)
            self.called_back(*key)

    def called_back(self, queue: QueueName, partition: int, epoch: Epoch) -> None:
        stay = self._held_times.get((queue, partition, epoch))
        if stay is not None and stay.called_back_at is None:
            stay.called_back_at = self._clock()

    def read(self, queue: QueueName, partition: int, epoch: Epoch, found: bool) -> None:
        """The queue has answered: with entries, or that there are none."""
        stay = self._held_times.get((queue, partition, epoch))
        if stay is not None and not stay.read:
            stay.read = True
            if found:
                self._measures.taken_over(queue, self._clock() - stay.granted_at)

    def lost(self, queue: QueueName, partition: int, epoch: Epoch) -> None:
        stay = self._held_times.get((queue, partition, epoch))
        if stay is not None:
            stay.over = True

    def let_go(self, queue: QueueName, partition: int, epoch: Epoch) -> None:
        """By the consumer's own word."""
        stay = self._held_times.get((queue, partition, epoch))
        if stay is not None and not stay.over and stay.called_back_at is not None:
            self._measures.given_back(queue, self._clock() - stay.called_back_at)
            stay.over = True


class MeasuredAssignments:
    """Assignments that are looked at on their way to the consumer."""

    def __init__(self, source: Assignments, held_times: HeldTimes) -> None:
        self._source = source
        self._held_times = held_times
        self.entry: MemberEntry | None = None
        """As the consumer knows it."""

    def watch(self, changed: Callable[[], None]) -> None:
        self._source.watch(changed)

    def close(self) -> None:
        self._source.close()

    def current(self) -> MemberEntry | None:
        entry = self._source.current()
        if entry is not self.entry:
            self.entry = entry
            self._held_times.follow(entry)
        return entry


class MeasuredReader:
    """A queue's reader, with an eye on what passes through it. What is not named here passes unseen."""

    def __init__(self, queue: QueueName, reader: Reader, measures: Measures, held_times: HeldTimes) -> None:
        self._queue = queue
        self._reader = reader
        self._measures = measures
        self._held_times = held_times
        self.ready = reader.ready  # is asked most often

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, partition: int, epoch: Epoch, count: int = 100, **how: Any) -> Entries:
        with self._asking(partition, epoch):
            entries = Entries.of(self._reader.read(partition, epoch, count, **how))
        if again := entries.redelivered:
            self._measures.redelivered(self._queue, again)
        self._held_times.read(self._queue, partition, epoch, bool(entries))
        return entries

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], **how: Any) -> None:
        with self._asking(partition, epoch):
            self._reader.ack(partition, epoch, offsets, **how)
        self._measures.handled(self._queue, len(offsets))

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        with self._asking(partition, epoch):
            again = self._reader.retry(partition, epoch, offset, why)
        self._measures.failed(self._queue)
        if again:
            self._measures.redelivered(self._queue, 1)
        else:
            self._measures.dead_letter(self._queue)
        return again

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        with self._asking(partition, epoch):
            self._reader.set_aside(partition, epoch, offset, why)
        self._measures.failed(self._queue)
        self._measures.dead_letter(self._queue)

    def verify(self, partition: int, epoch: Epoch) -> None:
        with self._asking(partition, epoch):
            self._reader.verify(partition, epoch)

    def let_go(self, partitions: Mapping[int, Epoch], within: float, **how: Any) -> Mapping[int, QueueUnreachable]:
        untaken = self._reader.let_go(partitions, within, **how)
        for partition, epoch in partitions.items():
            if partition not in untaken:
                self._held_times.let_go(self._queue, partition, epoch)
        return untaken

    @contextmanager
    def _asking(self, partition: int, epoch: Epoch) -> Iterator[None]:
        try:
            yield
        except StaleOwner:
            self._measures.refused(self._queue)
            self._held_times.lost(self._queue, partition, epoch)
            raise
        except PartitionPaused:
            self._held_times.called_back(self._queue, partition, epoch)
            raise


# Metrics


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
        """At each scrape, on the thread of the server. A queue that does not answer has no lag."""
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
