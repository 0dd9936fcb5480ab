"""What a producer is given is looked at before anything is sent."""

from typing import Any

import pytest

from baton.queues.redis import AsyncRedisProducer, RedisProducer
from baton.queues.redis.given import taken_many


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
        taken_many([("key", "value"), entry], 0.0)


@pytest.mark.parametrize("make", [RedisProducer, AsyncRedisProducer])
@pytest.mark.parametrize("queue", ["orders", "shop/", "/orders", "shop/orders/3", ""])
def test_a_queue_without_its_namespace_is_not_waited_for(make: Any, queue: str) -> None:
    with pytest.raises(ValueError, match="name it with its namespace, as in shop/orders"):
        make("redis://127.0.0.1:1/0", queue)
