"""Arguments of producers are checked before anything is sent; requests are sent in batches."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import AsyncRedisProducer, RedisProducer, scripts
from baton.queues.redis.batches import ANSWERED_AT_ONCE, MOST, Batches, ScriptRun
from baton.queues.redis.sending import waiting_entries
from tests.waiting import until


@pytest.mark.parametrize("make", [RedisProducer, AsyncRedisProducer])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"patience": "5"}, "patience is '5': set it to a number, 0.001 or more"),
        ({"patience": float("nan")}, "patience is nan: set it to 0.001 or more"),
        ({"patience": 0}, "patience is 0: set it to 0.001 or more"),
        ({"linger": -1}, "linger is -1: set it to 0 or more"),
        ({"max_entries": 0}, "max_entries is 0: set it to 1 or more"),
        ({"max_entries": 1.5}, "max_entries is 1.5: set it to a whole number, 1 or more"),
        ({"max_bytes": 0}, "max_bytes is 0: set it to 1 or more"),
        ({"buffer_bytes": None}, "buffer_bytes is None: set it to a number, 1 or more"),
        ({"replicas": -1}, "replicas is -1: set it to 0 or more"),
        ({"replicas": "1"}, "replicas is '1': set it to a whole number, 0 or more"),
    ],
)
def test_an_invalid_option_is_named(make: Any, option: Any, said: str) -> None:
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
def test_an_invalid_entry_is_refused(entry: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        waiting_entries([("key", "value"), entry], 0.0)


@pytest.mark.parametrize("make", [RedisProducer, AsyncRedisProducer])
@pytest.mark.parametrize("queue", ["orders", "shop/", "/orders", "shop/orders/3", ""])
def test_a_queue_name_without_its_namespace_is_refused(make: Any, queue: str) -> None:
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
def test_a_url_or_queue_that_is_not_text_is_refused(make: Any, url: Any, queue: Any, said: str) -> None:
    """For example if the environment variable is not set."""
    with pytest.raises(TypeError, match=said):
        make(url, queue)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (("\udcff", "value"), "a key has characters that cannot be encoded"),
        (("key", "\udcff"), "a value has characters that cannot be encoded"),
        (("key", "value", {"name": "\udcff"}), "a header's value has characters that cannot be encoded"),
    ],
)
def test_text_that_cannot_be_encoded_is_refused(entry: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"{said} .surrogates.: pass bytes"):
        waiting_entries([entry], 0.0)


def test_an_async_producer_of_another_event_loop_is_refused() -> None:
    """It would wait for an answer that arrives in the other loop, or never."""
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


# -- Callbacks for the outcome of an entry.


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
async def test_an_unsuitable_callback_is_refused_and_its_entry_not_accepted(given: Any) -> None:
    of_threads, of_tasks = RedisProducer(NOWHERE, "shop/orders"), AsyncRedisProducer(NOWHERE, "shop/orders", patience=0.001)
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
def test_any_callable_that_takes_a_delivery_is_accepted(given: Callable[[object], object]) -> None:
    with RedisProducer(NOWHERE, "shop/orders", patience=0.001) as producer:
        assert producer.produce("key", "value", on_delivery=given).exception()


async def test_an_async_delivery_behaves_like_a_future() -> None:
    heard: list[Exception | None] = []
    async with AsyncRedisProducer(NOWHERE, "shop/orders", patience=0.001) as producer:
        delivery = await producer.produce("key", "value", on_delivery=lambda delivery: heard.append(delivery.exception()))
        for ask in (delivery.result, delivery.exception):
            with pytest.raises(asyncio.InvalidStateError, match="await the delivery"):
                ask()
        with pytest.raises(QueueUnreachable) as raised:
            await delivery
        with pytest.raises(QueueUnreachable, match=str(raised.value)[:20]):
            delivery.result()
        assert str(delivery.exception()) == str(raised.value) == str(heard[0])


# -- Requests made at the same time share a round trip, and each gets its own answer.


def request(number: int) -> ScriptRun:
    return ScriptRun(scripts.GRANT, [str(number)], [number])


class Server:
    def __init__(self, *, is_open: bool = True) -> None:
        self.trips: list[int] = []
        self.sent: list[int] = []
        self.open = asyncio.Event()
        if is_open:
            self.open.set()

    async def send(self, requests: Sequence[ScriptRun]) -> list[Any]:
        self.trips.append(len(requests))
        self.sent += [one.arguments[0] for one in requests]
        await self.open.wait()
        if any(one.arguments[0] == -1 for one in requests):
            raise QueueUnreachable("down")
        return [ValueError("refused") if one.arguments[0] == 7 else one.arguments[0] * 10 for one in requests]


class Hanging:
    def __init__(self) -> None:
        self.asked = False

    async def send(self, requests: Sequence[ScriptRun]) -> list[Any]:
        assert not self.asked, "it is asked again"
        self.asked = True
        raise RedisTimeoutError("no answer")


async def some_turns() -> None:
    """Run the event loop long enough to send the requests."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_requests_of_one_loop_turn_share_a_round_trip() -> None:
    server = Server()
    batches = Batches(server.send)
    answers = await asyncio.gather(*(batches.ask(request(n)) for n in range(5)))
    assert (answers, server.trips) == ([0, 10, 20, 30, 40], [5])


async def test_many_requests_are_sent_in_parallel_round_trips() -> None:
    server = Server(is_open=False)
    batches = Batches(server.send)
    asking = asyncio.gather(*(batches.ask(request(8)) for _ in range(2 * MOST + 1)))
    await some_turns()
    assert server.trips == [MOST, MOST, 1]
    server.open.set()
    await asking


async def test_round_trips_are_bounded_and_cancelled_requests_not_sent() -> None:
    server = Server(is_open=False)
    batches = Batches(server.send, at_once=2)
    asking = [asyncio.create_task(batches.ask(request(8)._replace(weight=MOST))) for _ in range(4)]
    await some_turns()
    asking.pop().cancel()
    await some_turns()
    assert server.trips == [1, 1]
    server.open.set()
    assert await asyncio.gather(*asking) == [80, 80, 80]
    assert server.trips == [1, 1, 1]


async def test_later_requests_wait_until_no_other_is_waiting() -> None:
    server = Server(is_open=False)
    batches = Batches(server.send, at_once=1)
    asking = []
    for number, later in ((1, True), (2, True), (3, False), (4, True)):
        asking.append(asyncio.create_task(batches.ask(request(number)._replace(later=later, weight=MOST))))
        await some_turns()
    server.open.set()
    await asyncio.gather(*asking)
    assert server.sent == [1, 3, 2, 4]


async def test_a_hanging_request_fails_those_waiting_behind_it() -> None:
    batches = Batches(Hanging().send, at_once=1)
    asking = [batches.ask(request(8)._replace(later=later, weight=MOST)) for later in (False, False, True)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisTimeoutError] * 3


async def test_heavy_requests_share_a_round_trip_with_fewer() -> None:
    server = Server()
    batches = Batches(server.send)
    await batches.ask_all([request(8)._replace(weight=weight) for weight in (MOST // 2, MOST // 2, 1, 2 * MOST, 1)])
    assert server.trips == [2, 1, 1, 1]


async def test_a_refusal_is_raised_only_to_its_caller() -> None:
    batches = Batches(Server().send)
    answers = await asyncio.gather(*(batches.ask(request(n)) for n in (6, 7, 8)), return_exceptions=True)
    assert (answers[0], str(answers[1]), answers[2]) == (60, "refused", 80)


async def test_a_failed_round_trip_is_raised_to_all_its_callers() -> None:
    batches = Batches(Server().send)
    answers = await asyncio.gather(*(batches.ask(request(n)) for n in (1, -1)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [QueueUnreachable] * 2
    assert await batches.ask(request(2)) == 20


async def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    server = Server(is_open=False)
    batches = Batches(server.send)
    impatient = asyncio.create_task(batches.ask(request(1)))
    patient = asyncio.create_task(batches.ask(request(2)))
    await some_turns()
    impatient.cancel()
    server.open.set()
    assert await patient == 20


async def test_closing_fails_the_requests_still_waiting() -> None:
    server = Server(is_open=False)
    batches = Batches(server.send)
    asking = asyncio.create_task(batches.ask(request(1)))
    await some_turns()
    await batches.close()
    with pytest.raises(QueueUnreachable, match="closed"):
        await asking


async def test_requests_beside_and_after_closing_fail() -> None:
    """Including requests whose round trip was about to begin."""
    batches = Batches(Server().send)
    beside = asyncio.ensure_future(batches.ask(request(1)))
    await asyncio.sleep(0)
    await batches.close()
    answers = await asyncio.gather(beside, batches.ask(request(2)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["the connection was closed"] * 2


async def test_the_callers_of_one_round_trip_go_on_a_few_at_a_time() -> None:
    """Many queues are asked together and each works on its answer; other tasks run in between."""
    batches, turn, went_on = Batches(Server().send), 0, Counter[int]()

    async def ask() -> None:
        await batches.ask(request(8))
        went_on[turn] += 1

    asking = asyncio.gather(*(ask() for _ in range(MOST)))
    while not asking.done():
        await asyncio.sleep(0)
        turn += 1
    assert went_on.total() == MOST
    assert max(went_on.values()) <= ANSWERED_AT_ONCE


async def test_a_refusal_cancels_no_caller_whose_request_was_accepted() -> None:
    """A task group requests many grants, and one key has a foreign type: the server accepts the others."""
    accepted: list[object] = []

    async def send(requests: Sequence[ScriptRun]) -> Sequence[object]:
        return [ValueError("foreign"), *range(1, len(requests))]

    async def ask(batches: Batches) -> None:
        accepted.append(await batches.ask(request(8)))

    async def ask_all(batches: Batches) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MOST):
                tasks.create_task(ask(batches))

    with pytest.raises(ExceptionGroup):
        await ask_all(Batches(send))
    assert len(accepted) == MOST - 1


async def test_callers_get_answers_that_have_arrived_when_the_connection_closes() -> None:
    batches, answered = Batches(Server().send), asyncio.Event()

    async def ask() -> object:
        answer = await batches.ask(request(8))
        answered.set()
        return answer

    asking = asyncio.gather(*(ask() for _ in range(MOST)))
    await answered.wait()
    await batches.close()
    assert len(await asking) == MOST


async def test_callers_that_ask_again_on_their_answer_share_round_trips() -> None:
    server = Server()
    batches = Batches(server.send)

    async def ask_twice() -> None:
        await batches.ask(request(8))
        await batches.ask(request(8))

    await asyncio.gather(*(ask_twice() for _ in range(MOST)))
    assert server.trips == [MOST, MOST]


class InterruptError(Exception):
    """The exception of a signal handler."""


def test_a_producer_whose_thread_was_interrupted_at_its_start_starts_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = RedisProducer(NOWHERE, "shop/one-thread", patience=0.001)
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise InterruptError

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(InterruptError):
            producer.produce("key", "value")
    producer.produce("key", "value")
    assert [thread.name for thread in threading.enumerate()].count("producer of shop/one-thread") == 1
    with pytest.raises(QueueUnreachable):
        producer.close()


def test_a_producer_that_could_start_no_thread_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = RedisProducer(NOWHERE, "shop/no-thread", patience=0.001)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start"):
            producer.produce("key", "value")
    assert not producer._outbox.open
    delivery = producer.produce("key", "value")
    until(delivery.done, "the thread has sent it, or given it up")
    with pytest.raises(QueueUnreachable):
        producer.close()
