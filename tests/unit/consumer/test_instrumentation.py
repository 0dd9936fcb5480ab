"""A consumer's metrics, measured at its queues and its held partitions, and the spans of its handlers."""

from collections.abc import Iterator, Mapping
from inspect import isawaitable
from typing import Any
from unittest.mock import Mock

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from prometheus_client import CollectorRegistry

from baton.consumer.handler import is_coroutine_function
from baton.consumer.metrics import ConsumerMetrics
from baton.consumer.partition import HeldPartition, HeldPartitions, Phase
from baton.consumer.queue_requests import QueueRequests
from baton.consumer.tracing import context_headers, traced
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.entry import Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import Ownership

ORDERS = QueueName("orders")
FIRST, SECOND = Epoch(1), Epoch(2)
COUNTERS = "handled", "failed", "dead_letters", "redelivered", "refused"


class World:
    """The partitions that a ledger names, at a queue with answers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.answers = Mock(**{"read.return_value": [], "release.return_value": {}, "lag.return_value": 7})
        self.mount = Mock()
        open_queue = ConsumerMetrics(self.registry).around(lambda name: self.answers, lambda: self.held)
        self.held = HeldPartitions(open_queue, self.mount, Mock(), Mock())
        self.requests = QueueRequests()
        self.ledger({0: FIRST})

    def ledger(self, owned: dict[int, Epoch], revoking: dict[int, Epoch] | None = None) -> None:
        queues = {ORDERS: owned}, {ORDERS: revoking or {}}
        self.mount.current.return_value = MemberEntry("shop/orders", MemberId("a"), Uid("a"), 1, True, *queues)
        self.held.follow_ledger(lambda holding, reader: None)

    @property
    def holding(self) -> HeldPartition:
        return next(iter(self.held))

    @property
    def reader(self) -> Any:
        return self.held.reader(self.holding)

    def read(self) -> None:
        self.requests.read(self.holding, self.reader, 1)

    def refuses(self, error: Exception) -> None:
        for name in ("read", "ack", "verify"):
            getattr(self.answers, name).side_effect = error

    def after(self, seconds: float) -> "World":
        """Make what was seen older."""
        for holding in self.held:
            holding.since -= seconds
            holding.revoked_at -= seconds if holding.revoked_at else 0.0
        return self

    @property
    def counted(self) -> dict[str, float]:
        """Return the counters that are not 0."""
        found = {name: self.registry.get_sample_value(f"baton_consumer_{name}_total", {"queue": ORDERS}) for name in COUNTERS}
        return {name: value for name, value in found.items() if value}

    def gauge(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"baton_consumer_{name}", {"queue": ORDERS})

    def timed(self, name: str) -> tuple[float, float]:
        """Return the count and the total of whole seconds."""
        times, seconds = (self.gauge(f"{name}_seconds_{what}") or 0.0 for what in ("count", "sum"))
        return times, seconds // 1


@pytest.fixture
def world() -> World:
    return World()


def entry(*, redelivered: bool = False) -> Entry:
    return Entry(ORDERS, 0, "1-1", b"k", b"v", 0, FIRST, redelivered)


def test_redeliveries_and_acknowledgements_are_counted(world: World) -> None:
    world.answers.read.return_value = [entry(redelivered=True), entry()]
    assert list(world.reader.read(0, FIRST)) == world.answers.read()
    world.reader.ack(0, FIRST, ["1-1", "1-2"])
    assert world.counted == {"redelivered": 1, "handled": 2}


def test_a_failure_is_counted_as_redelivery_or_dead_letter(world: World) -> None:
    world.answers.retry.side_effect = [True, False]
    assert world.reader.retry(0, FIRST, "1-1", "why")
    assert not world.reader.retry(0, FIRST, "1-1", "why")
    world.reader.set_aside(0, FIRST, "1-2", "rejected")
    assert world.counted == {"failed": 3, "redelivered": 1, "dead_letters": 2}


def test_the_first_entry_is_timed_from_the_grant_once_per_epoch(world: World) -> None:
    world.answers.read.return_value = [entry()]
    for epoch in (FIRST, SECOND):
        world.ledger({0: epoch})
        for _ in range(3):
            world.after(5).read()
    assert world.timed("takeover") == (2, 10)


def test_an_empty_partition_is_not_timed_as_a_takeover(world: World) -> None:
    world.read()
    world.answers.read.return_value = [entry()]
    world.after(3600).read()
    assert world.timed("takeover") == (0, 0)


def test_a_release_is_timed_from_the_ledger_that_asks_for_it(world: World) -> None:
    world.holding.leave()
    world.after(10).ledger({}, revoking={0: FIRST})
    world.after(1).ledger({}, revoking={0: FIRST, 1: FIRST})
    for _ in range(2):
        world.after(2).held.release([world.holding], 1.0)
    assert world.timed("release") == (1, 3)


def test_a_release_that_the_ledger_has_not_asked_for_is_not_timed(world: World) -> None:
    world.holding.leave()
    world.held.release([world.holding], 1.0)
    assert (world.holding.phase, world.timed("release")) == (Phase.RELEASED, (0, 0))


def test_a_release_is_timed_from_the_queues_answer_if_that_comes_first(world: World) -> None:
    world.refuses(PartitionPaused(0))
    world.read()
    world.after(1).ledger({}, revoking={0: FIRST})
    world.after(1).held.release([world.holding], 1.0)
    assert world.timed("release") == (1, 2)


@pytest.mark.parametrize("ask", [lambda r: r.read(0, FIRST), lambda r: r.ack(0, FIRST, ["1-1"]), lambda r: r.verify(0, FIRST)])
def test_a_rejected_request_is_counted(world: World, ask: Any) -> None:
    world.refuses(StaleOwner(0, Uid("a"), FIRST, Ownership(Uid("b"), SECOND, False)))
    with pytest.raises(StaleOwner):
        ask(world.reader)
    assert world.counted == {"refused": 1}


def test_a_lost_partition_is_no_release_and_no_partition_of_the_consumer(world: World) -> None:
    world.ledger({1: FIRST}, revoking={0: FIRST})
    (lost,) = (one for one in world.held if one.partition.number == 0)
    assert (world.gauge("partitions"), world.gauge("lag"), world.gauge("oldest_entry_seconds")) == (2, None, 0)
    world.refuses(StaleOwner(0, Uid("a"), FIRST, Ownership(Uid("b"), SECOND, False)))
    assert not world.requests.verify(lost, world.held.reader(lost))
    assert (lost.phase, world.timed("release")) == (Phase.FENCED, (0, 0))
    assert (world.gauge("partitions"), world.gauge("lag")) == (1, 7)


# -- Spans of handlers: children of the producer's span, with exceptions.


class Traces:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._tracer = self.provider.get_tracer("test")

    def sent(self) -> tuple[dict[str, bytes], int]:
        """Return headers as a consumer reads them, and the span of their producer."""
        with self._tracer.start_as_current_span("send") as span:
            headers = {name: value.encode() for name, value in context_headers().items() if isinstance(value, str)}
            return headers, span.get_span_context().span_id

    @property
    def processed(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.kind is SpanKind.CONSUMER]


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    made.provider.shutdown()


def entry_with(headers: Mapping[str, bytes | None] | None = None, offset: str = "1-0") -> Entry:
    return Entry(QueueName("orders"), 3, offset, b"k", b"v", 0, Epoch(7), True, headers or {})


def test_an_entrys_span_is_a_child_of_the_producers(traces: Traces) -> None:
    headers, producers = traces.sent()
    seen = []
    traced(lambda one: seen.append((one.offset, get_current_span().get_span_context().span_id)), traces.provider)(
        entry_with(headers)
    )
    (span,) = traces.processed
    assert span.name == "process orders" and span.parent is not None and span.parent.span_id == producers
    assert span.context is not None and seen == [("1-0", span.context.span_id)]
    assert span.attributes is not None
    attributes = dict(span.attributes)
    assert attributes["messaging.destination.partition.id"] == "3" and attributes["messaging.message.id"] == "1-0"
    assert attributes["baton.epoch"] == 7 and attributes["baton.redelivered"] is True


def test_a_handlers_exception_is_recorded_and_raised(traces: Traces) -> None:
    def handle(_: Entry) -> None:
        raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order"):
        traced(handle, traces.provider)(entry_with())
    (span,) = traces.processed
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


async def test_a_coroutines_span_lasts_until_it_returns(traces: Traces) -> None:
    during = []

    async def handle(_: Entry) -> None:
        during.append(len(traces.processed))

    handler = traced(handle, traces.provider)
    assert is_coroutine_function(handler)
    answer = handler(entry_with())
    assert isawaitable(answer)
    await answer
    assert during == [0] and len(traces.processed) == 1


def test_a_batch_is_linked_with_each_of_its_producers_once(traces: Traces) -> None:
    (one, first), (two, second) = traces.sent(), traces.sent()
    traced(lambda batch: None, traces.provider)(
        [entry_with(one), entry_with(one, "2-0"), entry_with(two, "3-0"), entry_with(offset="4-0")]
    )
    (span,) = traces.processed
    assert span.parent is None and {link.context.span_id for link in span.links} == {first, second} and len(span.links) == 2
    assert span.attributes is not None and span.attributes["messaging.batch.message_count"] == 4


PARENT = "traceparent"


@pytest.mark.parametrize("headers", [{}, {PARENT: None}, {PARENT: b""}, {PARENT: b"\xff\x00"}, {PARENT: b"00-" + b"0" * 10_000}])
def test_invalid_trace_headers_start_a_new_trace(headers: dict[str, bytes | None], traces: Traces) -> None:
    traced(lambda _: None, traces.provider)(entry_with(headers))
    (span,) = traces.processed
    assert span.parent is None


def test_the_programs_headers_are_kept(traces: Traces) -> None:
    with traces.provider.get_tracer("test").start_as_current_span("send"):
        headers = context_headers({"kind": b"order"})
    assert headers["kind"] == b"order" and "traceparent" in headers
    assert context_headers({"kind": b"order"}) == {"kind": b"order"}, "where there is no span, nothing is added"
