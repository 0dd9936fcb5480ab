"""Rare troubles of a producer: a server that is busy with somebody's script, callbacks that wait, a process without room for
another thread."""

import threading
from collections.abc import Iterator

import pytest

from baton.queues.redis import RedisProducer
from baton.queues.redis.producer import PendingSend
from tests.integration.redis.conftest import Queue, make_queue
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


async def test_a_server_that_is_busy_with_somebodys_script_is_tried_again(own: RedisServer) -> None:
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


def test_callbacks_of_several_threads_may_flush(queue: Queue) -> None:
    for _ in range(10):
        inside = [threading.Event(), threading.Event()]

        def send(partition: int, inside: list[threading.Event] = inside) -> None:
            def delivered(_: PendingSend) -> None:
                inside[partition].set()
                assert inside[1].wait(PATIENCE)
                queue.producer.flush()

            queue.producer.produce(queue.key(partition), "x", on_delivery=delivered).result()

        threads = [threading.Thread(target=send, args=(partition,), daemon=True) for partition in (0, 1)]
        threads[0].start()
        assert inside[0].wait(PATIENCE)  # else one thread might call back for both
        threads[1].start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_without_room_for_another_thread_nothing_is_taken(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with RedisProducer(queue.url, queue.name, patience=PATIENCE) as producer:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            with pytest.raises(RuntimeError, match="new thread"):
                producer.produce(queue.key(0), "not taken")
        assert not producer._outbox.open
        delivery = producer.produce(queue.key(0), "taken")
        until(delivery.done)
        assert delivery.result().offset is not None
