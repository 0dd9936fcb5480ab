"""A trace goes from a producer through a real Redis to the handler."""

from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from baton.consumer.tracing import context_headers, traced
from baton.queues.entry import Entry
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import operating
from tests.waiting import until


async def test_the_handler_is_in_the_trace_of_the_producer(queue: Queue, tmp_path: Path) -> None:
    provider, seen = TracerProvider(), []

    def handle(entry: Entry) -> None:
        seen.append((entry.value, get_current_span().get_span_context().trace_id))

    with provider.get_tracer("shop").start_as_current_span("order") as span:
        queue.producer.send(queue.key(0), "a", headers=context_headers())
    async with operating(queue, tmp_path) as operator:
        await operator.grant(operator.pod("a", handler=traced(handle, provider)), (0, 1))
        until(lambda: len(seen) == 1)
    assert seen == [(b"a", span.get_span_context().trace_id)]
    provider.shutdown()
