"""OpenTelemetry traces from the producer to the handler (the extra `opentelemetry` of baton-consumer)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from baton import __version__
from baton.consumer.decoding import DecodingHandler, decoding
from baton.consumer.handler import Handler, UserHandler, is_coroutine_function
from baton.model.extras import extra
from baton.queues.entry import Entry

with extra("opentelemetry"):
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

_Header = TypeVar("_Header", bound=bytes | str | None)
_LONGEST_HEADER = 8192
_MOST_LINKS = 128
"""The most links of a batch's span; OpenTelemetry's own default limit."""


def context_headers(headers: Mapping[str, _Header] | None = None) -> dict[str, _Header | str]:
    """Return these headers with the context of the current span: `producer.send(key, value, headers=context_headers())`."""
    context: dict[str, str] = {}
    propagate.inject(context)
    return {**(headers or {}), **context}


def traced(handler: UserHandler, tracer_provider: TracerProvider | None = None) -> Handler:
    """Return the handler with a span around each call: `consumer.run(traced(handle))`.

    The span of an entry is a child of its producer's span; the span of a batch has links to its entries' producer spans.
    Exceptions of the handler are recorded. Without a provider the global one is used.
    """
    handler = decoding(handler)
    if isinstance(handler, DecodingHandler):
        return replace(handler, call=traced(handler.call, tracer_provider))
    tracer = trace.get_tracer("baton.consumer", __version__, tracer_provider)
    if is_coroutine_function(handler):

        async def awaited(work: Any) -> None:
            with _span(tracer, work):
                result: Any = handler(work)
                await result

        return awaited

    def called(work: Any) -> object:
        with _span(tracer, work):
            return handler(work)

    return called


@contextmanager
def _span(tracer: Tracer, work: Entry | Sequence[Entry]) -> Iterator[None]:
    """Open a span around the work on an entry or a batch."""
    alone = isinstance(work, Entry)
    entries = [work] if isinstance(work, Entry) else work
    queues = ",".join(sorted({entry.queue for entry in entries}))
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "baton",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": queues,
        **(_of_entry(entries[0]) if alone else {"messaging.batch.message_count": len(entries)}),
    }
    with tracer.start_as_current_span(
        f"process {queues}",
        context=_context(entries[0]) if alone else None,
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        links=None if alone else _links(entries),
    ):
        yield


def _of_entry(entry: Entry) -> dict[str, AttributeValue]:
    return {
        "messaging.destination.partition.id": str(entry.partition),
        "messaging.message.id": entry.offset,
        "baton.epoch": entry.epoch,
        "baton.redelivered": entry.redelivered,
    }


def _context(entry: Entry) -> Context | None:
    """Return the context that the producer sent; None: none, and the span becomes a child of the current one."""
    fields = propagate.get_global_textmap().fields
    texts = {name: entry.headers.get(name) or b"" for name in fields}
    carrier = {name: text.decode(errors="replace") for name, text in texts.items() if 0 < len(text) <= _LONGEST_HEADER}
    return propagate.extract(carrier) if carrier else None


def _links(entries: Sequence[Entry]) -> list[Link]:
    contexts = (trace.get_current_span(context).get_span_context() for entry in entries if (context := _context(entry)))
    distinct = {context.span_id: Link(context) for context in contexts if context.is_valid}
    return list(distinct.values())[:_MOST_LINKS]
