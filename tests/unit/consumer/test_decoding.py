"""A handler's annotations decide what it gets."""

import functools
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Protocol, TypeVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel, Field

from baton.consumer import Batch, Entry, Retry
from baton.consumer.tracing import traced
from baton.testing import TestQueue
from tests.unit.consumer.readers import handled

if TYPE_CHECKING:
    from elsewhere import Unknown  # type: ignore[import-not-found]


class Order(BaseModel):
    id: int
    kind: Literal["order"] = "order"


@dataclass
class Payment:
    order: int
    kind: Literal["payment"] = "payment"


class Later(BaseModel):
    id: int

    def model_post_init(self, context: object) -> None:
        raise Retry("not now", delay=60)


class Undefined(BaseModel):
    parent: "Unknown"


class HasKey(Protocol):
    key: Any


OrderId = NewType("OrderId", int)
Event = Annotated[Order | Payment, Field(discriminator="kind")]
seen: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def run(handler: Callable[..., object], *values: Any, **options: Any) -> TestQueue:
    """Return the queue after these values were handled, as JSON unless they are bytes or text."""
    return handled(handler, *(value if isinstance(value, (bytes, str)) else json.dumps(value) for value in values), **options)


def of_model(order: Order) -> None:
    seen.append(order)


def of_text(order: "Order") -> None:
    seen.append(order)


async def of_coroutine(order: Order) -> None:
    seen.append(order)


def of_entry_too(order: Order, entry: Entry) -> None:
    assert entry.value is order
    seen.append(order)


def of_entry_perhaps(order: Order, entry: Entry | None = None, more: str = "") -> None:
    assert entry is not None and not more
    seen.append(order)


def of_unnamed_entry(order: Order, entry, /) -> None:  # type: ignore[no-untyped-def]
    assert entry.value is order
    seen.append(order)


def with_default(order: Order, more: list[Any] = seen) -> None:
    more.append(order)


def with_more(into: list[Any], order: Order) -> None:
    into.append(order)


@functools.wraps(of_entry_too)
def wrapping(*arguments: Any) -> None:
    of_entry_too(*arguments)


class Handler:
    def method(self, order: Order) -> None:
        seen.append(order)

    async def __call__(self, order: Order) -> None:
        seen.append(order)


@pytest.mark.parametrize(
    "handler",
    [
        of_model,
        of_text,
        of_coroutine,
        of_entry_too,
        of_entry_perhaps,
        of_unnamed_entry,
        with_default,
        functools.partial(with_more, seen),
        functools.partial(of_entry_perhaps, more=""),
        wrapping,
        Handler().method,
        Handler(),
        traced(of_entry_too, TracerProvider()),
        traced(of_coroutine, TracerProvider()),
    ],
)
def test_a_value_becomes_the_annotated_model(handler: Callable[..., object]) -> None:
    queue = run(handler, {"id": 1}, {"id": "2"}, {"id": "no"}, b"{", {"id": 3})
    assert seen == [Order(id=1), Order(id=2), Order(id=3)]
    wrong, no_json = (letter.why.splitlines() for letter in queue.dead_letters)
    assert wrong[:2] == ["it could not be deserialized: ValidationError: 1 validation error for Order", "id"]
    assert no_json[1].startswith("  Invalid JSON: EOF while parsing an object")


def test_a_value_becomes_a_dataclass_a_union_or_none() -> None:
    def pay(payment: Payment) -> None:
        seen.append(payment)

    def either(event: Event) -> None:
        seen.append(event)

    def perhaps(order: Order | None) -> None:
        seen.append(order)

    run(pay, {"order": "1"})
    run(either, {"kind": "order", "id": 2}, {"kind": "payment", "order": 2})
    run(perhaps, {"id": 3}, "null")
    assert seen == [Payment(1), Order(id=2), Payment(2), Order(id=3), None]


@pytest.mark.parametrize("size", [1, 10])
def test_with_max_entries_a_handler_gets_a_list_of_models(size: int) -> None:
    def handle(orders: list[Order]) -> None:
        seen.extend(orders)

    async def with_batch(orders: Sequence[Order], batch: Batch) -> None:
        assert [entry.value for entry in batch] == orders
        seen.extend(orders)

    for handler in (handle, with_batch):
        seen.clear()
        queue = run(handler, *({"id": number} for number in range(3)), "{}", {"id": 4}, max_entries=size)
        assert [order.id for order in seen] == [0, 1, 2, 4]
        assert len(queue.dead_letters) == 1


def test_a_deserializer_runs_before_the_model() -> None:
    run(of_model, zlib.compress(b'{"id": 1}'), deserializer=zlib.decompress)
    run(of_model, {"id": 2}, deserializer=json.loads)
    run(of_model, {"id": 3}, deserializer=Order.model_validate_json)
    assert [order.id for order in seen] == [1, 2, 3]


def test_a_validator_may_ask_for_a_retry() -> None:
    def handle(later: Later) -> None: ...

    queue = run(handle, {"id": 1}, queue=TestQueue(max_redeliveries=1))
    assert (queue.moved > 59, [letter.why for letter in queue.dead_letters]) == (True, ["not now"])


def annotated(kind: Any) -> Callable[[Any], None]:
    """Return a handler whose argument has this annotation."""

    def handle(entry: Any) -> None:
        seen.append(entry)

    handle.__annotations__["entry"] = kind
    return handle


def of_unresolved_entry(entry: "Entry", unknown: "Unknown" = None) -> None:
    seen.append(entry)


def unannotated(entry, more: "Unknown" = None):  # type: ignore[no-untyped-def]
    seen.append(entry)


@pytest.mark.parametrize(
    "handler",
    [
        *map(annotated, (Any, bytes, object, HasKey, TypeVar("Some"), Entry)),
        of_unresolved_entry,
        unannotated,
        seen.append,
        print,
    ],
)
def test_a_handler_without_a_model_gets_the_entry(handler: Callable[..., object]) -> None:
    run(handler, {"id": 1})
    assert handler is print or [type(entry).__name__ for entry in seen] == ["HeldEntry"]


def test_a_handler_of_batches_gets_the_batch() -> None:
    def handle(batch: Batch) -> None:
        seen.append(batch)

    def of_entries(entries: Sequence[Entry]) -> None:
        seen.append(entries)

    def of_some(entries: Sequence) -> None:  # type: ignore[type-arg]
        seen.append(entries)

    def of_entries_perhaps(entries: Annotated[list[Entry], "those"] | None) -> None:
        seen.append(entries)

    for handler in (handle, of_entries, of_some, of_entries_perhaps):
        run(handler, {"id": 1}, max_entries=5)
    assert [type(one) for one in seen] == [Batch] * 4


def of_dict(order: dict[str, Any]) -> None: ...
def of_id(order: OrderId) -> None: ...
def of_orders(orders: list[Order]) -> None: ...
def of_orders_perhaps(orders: list[Order] | None) -> None: ...
def of_annotated_orders(orders: Annotated[list[Order], "those"]) -> None: ...
def of_lists(orders: list[list[Order]]) -> None: ...
def of_order_second(entry: Entry, order: Order) -> None: ...
def of_setting(order: Order, setting: int) -> None: ...
def of_three(order: Order, entry: Entry, more: int) -> None: ...
def of_unknown(order: "Unknown") -> None: ...
def of_unknown_list(orders: list["Unknown"]) -> None: ...
def of_undefined(one: Undefined) -> None: ...
def generator(order: Order) -> Any:
    yield order


@pytest.mark.parametrize(
    ("handler", "options", "said"),
    [
        (
            of_dict,
            {},
            r"of_dict .* annotated with dict\[str, typing.Any\]: annotate it with Entry to get the entry, or",
        ),
        (of_id, {}, "of_id .* annotated with .*OrderId: annotate it with Entry"),
        (of_orders, {}, "takes a list of models: set max_entries too"),
        *(
            (of, {"max_entries": 5}, "annotated with .*: annotate it")
            for of in (of_orders_perhaps, of_annotated_orders, of_lists)
        ),
        (of_model, {"max_entries": 5}, "takes one model, and max_entries is set: annotate its argument with a list of models"),
        (of_model, {"manual_ack": True}, "with manual_ack the handler needs the entry: give it a second argument"),
        (of_order_second, {}, r"takes \(entry, order\); it is called with \(entry or batch\)"),
        (of_setting, {}, "of_setting .* annotated with int, and it gets the entry .* bind what it is to be by functools.partial"),
        (of_three, {}, r"takes \(order, entry, more\); it is called with \(value, entry\)"),
        (of_unknown, {}, "cannot be resolved: name 'Unknown' is not defined; define or import .* not under TYPE_CHECKING"),
        (of_unknown_list, {}, r"annotated with list\['Unknown'\]: annotate it with Entry"),
        (of_undefined, {}, "values cannot be converted to Undefined: .*Unknown"),
        (generator, {}, "is a generator function"),
    ],
)
def test_a_handler_with_an_unsupported_annotation_is_rejected_at_the_start(handler: Any, options: Any, said: str) -> None:
    consumer = TestQueue().consumer()
    with pytest.raises(TypeError, match=said):
        consumer.run(handler, **options)


WITHOUT_PYDANTIC = """
import sys
from dataclasses import dataclass

from baton.consumer import Entry
from baton.testing import TestQueue

@dataclass
class Order:
    id: int

def handle(order: Order) -> None: ...
def of_entry(entry: Entry) -> None: ...

with TestQueue() as queue:
    queue.start(of_entry)
    queue.send("k", "{}")
    queue.settled()
assert "pydantic" not in sys.modules
sys.modules["pydantic"] = None
TestQueue().consumer().run(handle)
"""


def test_a_dataclass_without_pydantic_names_what_to_install() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_PYDANTIC], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "pydantic" in ended.stderr.splitlines()[-1]
