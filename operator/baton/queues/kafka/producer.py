"""A producer for a topic: confluent-kafka's, with Java's partitioner, without duplicates, and polled by its own thread."""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from inspect import iscoroutinefunction
from math import inf
from typing import Any
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from baton.model.options import function, number
from baton.model.wording import counted
from baton.queues.kafka.address import KafkaAddress, read
from baton.queues.producer_side import CloseOnExit, Given, Headers, Key, Sent
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.1
_ANY_SIZE = 1_000_000_000
"""Bytes: librdkafka's maximum. Its default is a megabyte; here the topic limits the size."""
_LAST_PARTITION = 2**31 - 1


class KafkaDelivery:
    """The outcome of a message that was given to `KafkaProducer.produce`.

    ```python
    delivery = producer.produce("customer-17", b"shipped")
    print(delivery.result(timeout=5).offset)
    ```
    """

    def __init__(self, producer: "KafkaProducer", on_delivery: "Callable[[KafkaDelivery], object] | None") -> None:
        self._future: Future[Sent] = Future()
        self._producer = producer
        self._seen = False
        if on_delivery is not None:
            self.add_done_callback(on_delivery)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Sent:
        """Wait for the outcome. Raises QueueUnreachable if the message may not be in the topic, ValueError if no retry would
        help, TimeoutError if it is still under way after `timeout` seconds, and RuntimeError in a callback, which would wait for
        ever."""
        if not self.done():
            self._producer._see_no_callback()
        try:
            sent = self._future.result(timeout)
        except (QueueUnreachable, ValueError):
            self._look()
            raise
        self._look()
        return sent

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the outcome, and return what `result` raises, or None."""
        try:
            self.result(timeout)
        except (QueueUnreachable, ValueError) as error:
            return error
        return None

    def add_done_callback(self, callback: "Callable[[KafkaDelivery], object]", /) -> None:
        """Call it with the delivery once the outcome is known, on the producer's thread, one at a time; its errors are logged.
        Raises TypeError if it cannot be called so."""
        function("callback", callback, "delivery")
        if iscoroutinefunction(callback):
            raise TypeError(f"{callback!r} is a coroutine function, which nothing would await: give a plain function")
        self._look()
        self._future.add_done_callback(lambda _: self._call(callback))

    def _look(self) -> None:
        self._seen = True
        self._producer._failed.discard(self)

    def _call(self, callback: "Callable[[KafkaDelivery], object]") -> None:
        try:
            callback(self)
        except BaseException:  # including SystemExit, which would end the thread of all deliveries
            log.exception("a callback of a delivery failed")


class KafkaProducer(CloseOnExit):
    """Sends messages to a topic; safe to use from several threads, but not on both sides of a fork.

    ```python
    with KafkaProducer("kafka://broker.shop:9092", "orders") as producer:
        producer.send("customer-17", b"shipped")
    ```

    Messages of a key stay in the order in which they were sent, and a retry makes no duplicate (enable.idempotence, acks=all).
    One thread sends and calls back. What is left at the end of the process is sent, and a failure then is logged.
    """

    def __init__(
        self,
        url: str | KafkaAddress,
        topic: str,
        *,
        patience: float = 30.0,
        linger: float = 0.005,
        buffer_bytes: int = 32_000_000,
    ) -> None:
        """`url`: as in BATON_KAFKA_URL. `patience`: seconds for which a message is retried. `linger`: seconds that a message
        given to `produce` waits for others, half of `patience` at most. `buffer_bytes`: bytes that may wait; then `produce` waits
        for room. Raises QueueUnreachable for a malformed URL, ValueError and TypeError for other options."""
        number("patience", patience, 0.001)
        number("linger", linger, 0, 900)
        number("buffer_bytes", buffer_bytes, 1)
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"the topic is {topic!r}: give its name as a text")
        self._topic, self._patience, self._buffer = topic, patience, buffer_bytes
        self._address = url if isinstance(url, KafkaAddress) else read(url)
        self._under_way: set[KafkaDelivery] = set()
        self._failed: set[KafkaDelivery] = set()
        """Failures that the program has not looked at."""
        self._trouble = ""
        self._fatal: KafkaError | None = None
        self._lock = threading.Lock()
        """Held to take a message, and to begin closing."""
        self._closing, self._ended, self._hurry = False, threading.Event(), threading.Event()
        self._client = Client(
            {
                **self._address.for_librdkafka(),
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": min(linger, patience / 2) * 1000,
                "delivery.timeout.ms": max(2, int(patience * 1000)),
                "topic.metadata.propagation.max.ms": min(5_000, int(patience * 500)),
                "queue.buffering.max.kbytes": max(1, int(buffer_bytes) // 1024),
                "message.max.bytes": _ANY_SIZE,
                "error_cb": self._heard,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._poll, name=f"baton-producer-{topic}", daemon=True)
        self._thread.start()
        _producers.add(self)

    def send(self, key: Key, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None) -> Sent:
        """Send one message and return where it was stored. `key`: messages of a key go to one partition; None: to any.
        `partition`: send it there instead. Raises as `KafkaDelivery.result`."""
        self._see_no_callback()
        delivery = self.produce(key, value, headers, partition=partition)
        self._hurry.set()
        return delivery.result()

    def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers); returns when the topic has all of them. Raises TypeError before anything is
        sent."""
        self._see_no_callback()
        those = [(entry[0], entry[1], entry[2] if len(entry) == 3 else None) for entry in entries]
        for entry in those:
            self._check(*entry)
        deliveries = [self.produce(*entry) for entry in those]
        self._hurry.set()
        errors = [error for delivery in deliveries if (error := delivery.exception()) is not None]
        if errors:
            raise errors[0]
        return [delivery.result() for delivery in deliveries]

    def produce(
        self,
        key: Key,
        value: bytes | str,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        on_delivery: Callable[[KafkaDelivery], object] | None = None,
    ) -> KafkaDelivery:
        """Send it within `linger`, together with others, waiting only for room in the buffer. `flush` or `close` raises a failure
        that the program has not looked at. Raises QueueUnreachable if there was no room for `patience` seconds."""
        self._check(key, value, headers)
        if partition is not None and not (isinstance(partition, int) and 0 <= partition <= _LAST_PARTITION):
            raise ValueError(f"a partition is a number from 0 to {_LAST_PARTITION}, not {partition!r}")
        delivery = KafkaDelivery(self, on_delivery)
        until = time.monotonic() + self._patience
        where: Mapping[str, Any] = {} if partition is None else {"partition": partition}
        while not self._taken(delivery, key, value, headers, where):
            if time.monotonic() >= until:
                raise QueueUnreachable(
                    f"{self._address.place}: the producer's buffer is full ({self._buffer:,} bytes), so it took nothing new for "
                    f"{self._patience:g} s{self._trouble}."
                )
            self._hurry.set()
            self._ended.wait(_LOOK_EVERY)
        return delivery

    def flush(self, within: float | None = None) -> None:
        """Send everything given to `produce` at once, and wait until the outcome is known, `within` seconds at most. Raises
        QueueUnreachable if a message may not be in the topic and the program has not looked at its delivery."""
        if left := self._flushed(within):
            what = f"{counted(left, 'message')} to {self._topic} not sent after {within:g} s"
            raise QueueUnreachable(f"{self._address.place}: {what}{self._trouble}")
        self._report()

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up what was not sent in time."""
        self._see_no_callback()
        with self._lock:
            self._closing = True
        if self._ended.is_set():
            return
        if self._flushed(within):
            self._client.purge()
            self._flushed(1.0)
        self._ended.set()
        self._thread.join()
        self._report()

    def _poll(self) -> None:
        """Run in the producer's thread, which alone serves deliveries."""
        while not self._ended.is_set():
            try:
                if self._hurry.is_set():
                    self._hurry.clear()
                    self._client.flush(_LOOK_EVERY)
                else:
                    self._client.poll(_LOOK_EVERY)
            except KafkaException as failure:  # librdkafka sends nothing more, for example because the user may not write
                self._fatal = failure.args[0]
                for delivery in list(self._under_way):
                    self._delivered(delivery, self._fatal, None)
                self._ended.wait(_LOOK_EVERY)

    def _flushed(self, within: float | None) -> int:
        """Wait, and return how many messages are left."""
        self._see_no_callback()
        until = inf if within is None else time.monotonic() + within
        while self._under_way and time.monotonic() < until:
            self._hurry.set()
            with suppress(TimeoutError, StopIteration, QueueUnreachable, ValueError):
                next(iter(list(self._under_way)))._future.result(min(_LOOK_EVERY, max(0.0, until - time.monotonic())))
        return len(self._under_way)

    def _report(self) -> None:
        failed = list(self._failed)
        self._failed.difference_update(failed)
        if failed:
            what = f"{counted(len(failed), 'message')} to {self._topic} not sent"
            raise QueueUnreachable(f"{what}: {failed[0]._future.exception()}")

    def _see_no_callback(self) -> None:
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("a callback of a delivery would wait for itself here: call produce, or do this in another thread")

    def _check(self, key: Key, value: bytes | str, headers: Headers | None) -> None:
        for name, given in (("key", b"" if key is None else key), ("value", value), *(headers or {}).items()):
            if not isinstance(given, (bytes, str)):
                raise TypeError(f"a {name} is bytes or str, not {type(given).__name__}")
        size = sum(len(part) for part in (key or b"", value, *(headers or {}).values()))
        if size > self._buffer:
            raise ValueError(f"the message has {size:,} bytes, the producer's buffer only {self._buffer:,}: raise buffer_bytes")

    def _taken(
        self, delivery: KafkaDelivery, key: Key, value: bytes | str, headers: Headers | None, where: Mapping[str, Any]
    ) -> bool:
        """Return False if there is no room now."""
        with self._lock:
            if self._closing:
                raise RuntimeError("this producer is closed: create another")
            self._under_way.add(delivery)
            try:
                self._client.produce(
                    self._topic,
                    key=key,
                    value=value,
                    headers=list(headers.items()) if headers else None,
                    on_delivery=lambda error, message: self._delivered(delivery, error, message),
                    **where,
                )
            except BufferError:
                self._under_way.discard(delivery)
                return False
            except KafkaException as failure:
                refused: KafkaError = failure.args[0]
            except BaseException:
                self._under_way.discard(delivery)
                raise
            else:
                return True
        self._delivered(delivery, refused, None)
        return True

    def _heard(self, error: KafkaError) -> None:
        """Keep the latest error that names a cause, as `KafkaOnlooker` does."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._trouble:
            self._trouble = f" ({error.str()})"

    def _delivered(self, delivery: KafkaDelivery, error: KafkaError | None, message: Message | None) -> None:
        if delivery not in self._under_way:
            return  # `close` has given it up
        if error is None and message is not None:
            self._trouble = ""
            delivery._future.set_result(Sent(message.partition() or 0, str(message.offset())))
        elif error is not None:
            if not delivery._seen:
                self._failed.add(delivery)
            delivery._future.set_exception(self._error(error))
        self._under_way.discard(delivery)

    def _error(self, error: KafkaError) -> Exception:
        """Return the error, with its cure."""
        if error.code() == KafkaError._FATAL and self._fatal is not None:
            error = self._fatal
        code, place = error.code(), self._address.place
        if code in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return QueueUnreachable(f"{place} has no topic {self._topic}: create it, or name another")
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return ValueError(f"the message is larger than the topic {self._topic} takes: raise its max.message.bytes")
        if code == KafkaError._UNKNOWN_PARTITION:
            return ValueError(f"the topic {self._topic} has no such partition")
        if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            return QueueUnreachable(f"{self._address.who} may not WRITE the topic {self._topic}: allow it by an ACL")
        if code == KafkaError._MSG_TIMED_OUT:
            return QueueUnreachable(f"{place} has not taken the message within {self._patience:g} s{self._trouble}")
        return (ValueError if code == KafkaError.INVALID_RECORD else QueueUnreachable)(
            f"{place}: the message was not sent ({error.str()})"
        )


_producers: WeakSet[KafkaProducer] = WeakSet()


def _exit() -> None:
    for producer in list(_producers):
        producer.end()


atexit.register(_exit)
