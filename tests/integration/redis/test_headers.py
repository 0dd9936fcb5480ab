"""Headers travel with their entry, and a trace with them."""

import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from baton.consumer.tracing import context_headers, traced
from baton.model.ids import Epoch
from baton.queues.entry import Entry
from tests.integration.redis.conftest import Queue
from tests.integration.redis.pods import operating
from tests.waiting import until

ONE = Epoch(1)
ALL_BYTES = bytes(range(256))


async def test_headers_travel_with_their_entry(queue: Queue) -> None:
    key = queue.key(0)
    queue.producer.send(key, "a", headers={"traceparent": "00-4bf9-00", "Grüße": ALL_BYTES})
    queue.producer.send_many([(key, "b"), (key, "c", {"n": b"1"}), (key, "d", None)])
    owner = await queue.granted("a", ONE)
    found = owner.read(0, ONE)
    assert [entry.value for entry in found] == [b"a", b"b", b"c", b"d"]
    assert [entry.headers for entry in found] == [{"traceparent": b"00-4bf9-00", "Grüße": ALL_BYTES}, {}, {"n": b"1"}, {}]


async def test_a_dead_letter_keeps_them(queue: Queue) -> None:
    queue.producer.send(queue.key(0), "a", {"n": "1"})
    owner = await queue.granted("a", ONE)
    (entry,) = owner.read(0, ONE)
    owner.set_aside(0, ONE, entry.offset, "no")
    with queue.raw() as raw:
        ((_, letter),) = raw.xrange(f"pq:{{{queue.name}}}:0:dead")
    assert json.loads(letter[b"headers"]) == {"n": "1"}
    assert (letter[b"value"], letter[b"why"]) == (b"a", b"no")


async def test_what_is_no_header_is_refused_before_anything_is_sent(queue: Queue) -> None:
    for headers in ({1: "a"}, {"a": 1}, {"a": None}):
        with pytest.raises(TypeError, match="a header's"):
            queue.producer.send_many([(queue.key(0), "x"), (queue.key(0), "y", headers)])  # type: ignore[list-item]
    owner = await queue.granted("a", ONE)
    assert owner.read(0, ONE) == []


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
