"""What a producer is given is looked at before anything is sent."""

import asyncio
from typing import Any

import pytest

from baton.queues.redis import AsyncRedisProducer, RedisProducer
from baton.queues.redis.sending import waiting_entries


@pytest.mark.parametrize("make", [RedisProducer, AsyncRedisProducer])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"patience": "5"}, "patience is '5': set it to a number, 0 or more"),
        ({"patience": float("nan")}, "patience is nan: set it to 0 or more"),
        ({"linger": -1}, "linger is -1: set it to 0 or more"),
        ({"max_entries": 0}, "max_entries is 0: set it to 1 or more"),
        ({"max_entries": 1.5}, "max_entries is 1.5: set it to a whole number, 1 or more"),
        ({"max_bytes": 0}, "max_bytes is 0: set it to 1 or more"),
        ({"buffer_bytes": None}, "buffer_bytes is None: set it to a number, 1 or more"),
        ({"replicas": -1}, "replicas is -1: set it to 0 or more"),
        ({"replicas": "1"}, "replicas is '1': set it to a whole number, 0 or more"),
    ],
)
def test_an_option_with_which_nothing_could_be_sent_is_named(make: Any, option: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        make("redis://127.0.0.1:1/0", "shop/orders", **option)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("ab", "an entry is .key, value. or .key, value, headers., not str"),
        (7, "an entry is .key, value. or .key, value, headers., not int"),
        (("key",), "an entry is key, value and headers, not 1 thing"),
        (("key", "value", None, 0), "an entry is key, value and headers, not 4 things"),
    ],
)
def test_what_is_no_entry_is_refused(entry: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        waiting_entries([("key", "value"), entry], 0.0)


@pytest.mark.parametrize("make", [RedisProducer, AsyncRedisProducer])
@pytest.mark.parametrize("queue", ["orders", "shop/", "/orders", "shop/orders/3", ""])
def test_a_queue_without_its_namespace_is_not_waited_for(make: Any, queue: str) -> None:
    with pytest.raises(ValueError, match="name it with its namespace, as in shop/orders"):
        make("redis://127.0.0.1:1/0", queue)


@pytest.mark.parametrize("make", [RedisProducer, AsyncRedisProducer])
@pytest.mark.parametrize(
    ("url", "queue", "said"),
    [
        (None, "shop/orders", "the URL is of type NoneType: give a text such as redis://redis.shop:6379/0"),
        (b"redis://:secret@redis", "shop/orders", "the URL is of type bytes: give a text"),
        ("redis://127.0.0.1:1/0", None, "the queue is None: give its name as a text, such as 'shop/orders'"),
        ("redis://127.0.0.1:1/0", b"shop/orders", "the queue is b'shop/orders': give its name as a text"),
    ],
)
def test_a_url_or_a_queue_that_is_no_text_is_named(make: Any, url: Any, queue: Any, said: str) -> None:
    """As where the variable with it is not set."""
    with pytest.raises(TypeError, match=said):
        make(url, queue)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (("\udcff", "value"), "a key has characters that are no text"),
        (("key", "\udcff"), "a value has characters that are no text"),
        (("key", "value", {"name": "\udcff"}), "a header's value has characters that are no text"),
    ],
)
def test_what_has_no_bytes_in_utf8_is_named(entry: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"{said} .surrogates.: give bytes"):
        waiting_entries([entry], 0.0)


def test_a_producer_of_another_event_loop_is_refused() -> None:
    """It would wait for an answer that comes to the other, or to nobody."""
    made: list[AsyncRedisProducer] = []

    async def begin() -> None:
        made.append(AsyncRedisProducer("redis://127.0.0.1:1/0", "shop/orders"))
        await made[0].flush()

    async def use(call: Any) -> None:
        await call(made[0])

    asyncio.run(begin())
    calls: list[Any] = [lambda one: one.send("key", "value"), lambda one: one.produce("key", "value"), lambda one: one.close()]
    for call in calls:
        with pytest.raises(RuntimeError, match="the producer of shop/orders belongs to another event loop"):
            asyncio.run(use(call))
