"""Spans of handlers: children of the producer's span, with exceptions."""

from collections.abc import Iterator, Mapping
from inspect import isawaitable

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from baton.consumer.handler import is_coroutine_function
from baton.consumer.tracing import context_headers, traced
from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry


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


def entry(headers: Mapping[str, bytes | None] | None = None, offset: str = "1-0") -> Entry:
    return Entry(QueueName("orders"), 3, offset, b"k", b"v", 0, Epoch(7), True, headers or {})


def test_an_entrys_span_is_a_child_of_the_producers(traces: Traces) -> None:
    headers, producers = traces.sent()
    seen = []
    traced(lambda one: seen.append((one.offset, get_current_span().get_span_context().span_id)), traces.provider)(entry(headers))
    (span,) = traces.processed
    assert span.name == "process orders" and span.parent is not None and span.parent.span_id == producers
    assert span.context is not None and seen == [("1-0", span.context.span_id)]
    assert span.attributes is not None
    attributes = dict(span.attributes)
    assert attributes["messaging.destination.partition.id"] == "3" and attributes["messaging.message.id"] == "1-0"
    assert attributes["baton.epoch"] == 7 and attributes["baton.redelivered"] is True


def test_what_the_handler_raises_is_recorded_and_raised(traces: Traces) -> None:
    def handle(_: Entry) -> None:
        raise ValueError("no such order")

    with pytest.raises(ValueError, match="no such order"):
        traced(handle, traces.provider)(entry())
    (span,) = traces.processed
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


async def test_a_coroutine_functions_span_lasts_until_it_has_run_to_its_end(traces: Traces) -> None:
    during = []

    async def handle(_: Entry) -> None:
        during.append(len(traces.processed))

    handler = traced(handle, traces.provider)
    assert is_coroutine_function(handler)
    answer = handler(entry())
    assert isawaitable(answer)
    await answer
    assert during == [0] and len(traces.processed) == 1


def test_a_batch_is_linked_with_each_of_its_producers_once(traces: Traces) -> None:
    (one, first), (two, second) = traces.sent(), traces.sent()
    traced(lambda batch: None, traces.provider)([entry(one), entry(one, "2-0"), entry(two, "3-0"), entry(offset="4-0")])
    (span,) = traces.processed
    assert span.parent is None and {link.context.span_id for link in span.links} == {first, second} and len(span.links) == 2
    assert span.attributes is not None and span.attributes["messaging.batch.message_count"] == 4


PARENT = "traceparent"


@pytest.mark.parametrize("headers", [{}, {PARENT: None}, {PARENT: b""}, {PARENT: b"\xff\x00"}, {PARENT: b"00-" + b"0" * 10_000}])
def test_headers_that_are_no_context_begin_a_trace(headers: dict[str, bytes | None], traces: Traces) -> None:
    traced(lambda _: None, traces.provider)(entry(headers))
    (span,) = traces.processed
    assert span.parent is None


def test_headers_of_the_program_stay(traces: Traces) -> None:
    with traces.provider.get_tracer("test").start_as_current_span("send"):
        headers = context_headers({"kind": b"order"})
    assert headers["kind"] == b"order" and "traceparent" in headers
    assert context_headers({"kind": b"order"}) == {"kind": b"order"}, "where there is no span, nothing is added"
