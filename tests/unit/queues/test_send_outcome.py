"""Who is to hear what became of an entry, and how it is asked."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer

NOWHERE = "redis://127.0.0.1:1/0"


def takes_none() -> None: ...


def takes_two(delivery: object, other: object) -> None: ...


def takes_a_word(delivery: object, *, word: str) -> None: ...


async def is_awaited(delivery: object) -> None: ...


class Listener:
    def hears(self, delivery: object) -> None: ...

    def hears_two(self, delivery: object, other: object) -> None: ...

    async def is_awaited(self, delivery: object) -> None: ...


REFUSED = [
    *(3, "print", takes_none, takes_two, takes_a_word, is_awaited),
    *(Listener.hears, Listener().hears_two, Listener().is_awaited, partial(takes_two, 1, 2)),
]
TAKEN = [print, list[object]().append, lambda _: None, Listener().hears, partial(takes_two, 1), partial(takes_a_word, word="a")]


@pytest.mark.parametrize("given", REFUSED)
async def test_what_cannot_hear_of_a_delivery_is_refused_where_it_is_given_and_nothing_is_taken(given: Any) -> None:
    of_threads, of_tasks = RedisProducer(NOWHERE, "shop/orders"), AsyncRedisProducer(NOWHERE, "shop/orders", patience=0)
    with pytest.raises(TypeError, match="on_delivery is "):
        of_threads.produce("key", "value", on_delivery=given)
    with pytest.raises(TypeError, match="on_delivery is "):
        await of_tasks.produce("key", "value", on_delivery=given)
    assert not of_threads._outbox.open and not of_tasks._outbox.open
    delivery = await of_tasks.produce("key", "value")
    with pytest.raises(TypeError, match="callback is "):
        delivery.add_done_callback(given)
    with pytest.raises(QueueUnreachable):
        await delivery
    of_threads.close()
    await of_tasks.close()


@pytest.mark.parametrize("given", TAKEN)
def test_what_takes_a_delivery_may_hear_of_it(given: Callable[[object], object]) -> None:
    with RedisProducer(NOWHERE, "shop/orders", patience=0) as producer:
        assert producer.produce("key", "value", on_delivery=given).exception()


async def test_a_delivery_of_tasks_answers_as_a_future_does() -> None:
    heard: list[Exception | None] = []
    async with AsyncRedisProducer(NOWHERE, "shop/orders", patience=0) as producer:
        delivery = await producer.produce("key", "value", on_delivery=lambda delivery: heard.append(delivery.exception()))
        for ask in (delivery.result, delivery.exception):
            with pytest.raises(asyncio.InvalidStateError, match="await the delivery"):
                ask()
        with pytest.raises(QueueUnreachable) as raised:
            await delivery
        with pytest.raises(QueueUnreachable, match=str(raised.value)[:20]):
            delivery.result()
        assert str(delivery.exception()) == str(raised.value) == str(heard[0])
