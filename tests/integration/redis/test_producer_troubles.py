"""Rare problems of a producer: a server busy with a long script, callbacks that block, a process that cannot start threads."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from baton.queues.redis import RedisProducer
from baton.queues.redis.producer import _MOST_CALLBACKS, PendingSend
from tests.integration.redis.conftest import Queue, make_queue
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


async def test_a_server_busy_with_a_foreign_script_is_tried_again(own: RedisServer) -> None:
    queue = await make_queue(own.url)
    queue.send("before")
    with own.client() as raw, own.client() as other:
        raw.config_set("busy-reply-threshold", 1)

        def run() -> None:
            with pytest.raises(Exception, match=r"[Kk]ill"):
                other.eval("while true do end", 0)

        running = threading.Thread(target=run)
        running.start()

        def busy() -> bool:
            try:
                raw.ping()
            except Exception as error:
                return "BUSY" in str(error)
            return False

        until(busy)
        delivery = queue.producer.produce(queue.key(0), "meanwhile")
        until(lambda: queue.producer._outbox.waits_for(delivery.entry))
        assert "long script" in (queue.producer._outbox.waits_for(delivery.entry) or "")
        raw.script_kill()
        running.join()
        assert delivery.result().offset is not None
    await queue.close()


def test_a_callback_may_flush_while_another_thread_does(queue: Queue) -> None:
    for _ in range(10):
        inside, both = threading.Event(), threading.Barrier(2)

        def delivered(_: PendingSend, inside: threading.Event = inside, both: threading.Barrier = both) -> None:
            inside.set()
            both.wait(PATIENCE)
            queue.producer.flush()

        def send(delivered: Callable[[PendingSend], None] = delivered) -> None:
            queue.producer.produce(queue.key(0), "x", on_delivery=delivered).result()

        def flush(both: threading.Barrier = both) -> None:
            queue.producer.produce(queue.key(1), "y").result()
            both.wait(PATIENCE)
            queue.producer.flush()

        threads = [threading.Thread(target=each, daemon=True) for each in (send, flush)]
        threads[0].start()
        assert inside.wait(PATIENCE)
        threads[1].start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_callbacks_run_one_at_a_time_and_in_order(queue: Queue) -> None:
    told, inside, go_on = list[str](), threading.Event(), threading.Event()

    def first(_: PendingSend) -> None:
        inside.set()
        assert go_on.wait(PATIENCE)
        told.append("first")

    queue.producer.produce(queue.key(0), "first", on_delivery=first)
    assert inside.wait(PATIENCE)
    for number in range(10):
        queue.producer.produce(queue.key(0), str(number), on_delivery=lambda one: told.append(one.entry.value.decode())).result()
    assert told == []
    go_on.set()
    queue.producer.flush()
    assert told == ["first", *map(str, range(10))]


def test_a_callback_that_exits_does_not_stop_later_ones(queue: Queue) -> None:
    told = threading.Event()
    queue.producer.produce(queue.key(0), "x", on_delivery=lambda _: sys.exit(1))
    queue.producer.produce(queue.key(0), "y", on_delivery=lambda _: told.set())
    queue.producer.flush()
    assert told.is_set()


class Interrupted(BaseException):
    pass


def test_an_interrupted_close_does_not_wait_for_a_hanging_callback(queue: Queue) -> None:
    inside, go_on, over, main = threading.Event(), threading.Event(), threading.Event(), threading.get_ident()

    def hang(_: PendingSend) -> None:
        inside.set()
        go_on.wait(PATIENCE)
        over.set()

    def interrupted(*_: object) -> None:
        raise Interrupted

    def interrupt() -> None:
        until(lambda: bool(producer._alarms), "it waits for the callback")
        signal.pthread_kill(main, signal.SIGUSR1)

    producer = RedisProducer(queue.url, queue.name, patience=PATIENCE)
    producer.produce(queue.key(0), "x", on_delivery=hang)
    assert inside.wait(PATIENCE)
    before = signal.signal(signal.SIGUSR1, interrupted)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(Interrupted):
        producer.close()
    assert not over.is_set()
    go_on.set()
    interrupting.join()
    signal.signal(signal.SIGUSR1, before)


def test_produce_waits_for_slow_callbacks(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    given, inside, go_on, waits = list[int](), threading.Event(), threading.Event(), threading.Event()
    wait = queue.producer._wait_for_callbacks

    def slow(_: PendingSend) -> None:
        inside.set()
        assert go_on.wait(PATIENCE)

    def waiting(until: float) -> None:
        waits.set()
        wait(until)

    def more() -> None:
        for number in range(2 * _MOST_CALLBACKS):
            queue.producer.produce(queue.key(0), "x", on_delivery=lambda _: None).result()
            given.append(number)

    monkeypatch.setattr(queue.producer, "_wait_for_callbacks", waiting)
    queue.producer.produce(queue.key(0), "first", on_delivery=slow)
    assert inside.wait(PATIENCE)
    producing = threading.Thread(target=more)
    producing.start()
    until(lambda: waits.is_set() or not producing.is_alive())
    assert len(given) < 2 * _MOST_CALLBACKS
    go_on.set()
    producing.join()
    assert len(given) == 2 * _MOST_CALLBACKS
