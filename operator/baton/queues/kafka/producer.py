"""A producer for a topic: confluent-kafka's, with Java's partitioner, which adds nothing twice and polls by itself."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from math import inf
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from baton.model.options import function, number
from baton.model.wording import counted
from baton.queues.kafka.address import read
from baton.queues.producer_side import Given, Headers, Key, Sent
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.1
_HOPELESS = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._UNKNOWN_PARTITION, KafkaError.INVALID_RECORD}
_ANY_SIZE = 1_000_000_000
"""Bytes: librdkafka's largest. Its own bound is a megabyte; here the topic says how large a message may be."""


class KafkaDelivery:
    """What becomes of a message that was given to `KafkaProducer.produce`."""

    def __init__(self, producer: "KafkaProducer", on_delivery: "Callable[[KafkaDelivery], object] | None") -> None:
        self._future: Future[Sent] = Future()
        self._producer = producer
        if on_delivery is not None:
            self.add_done_callback(on_delivery)

    def done(self) -> bool:
        """Whether it is known."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Sent:
        """Wait for it. Raises QueueUnreachable where the message may not be in the topic, ValueError where no other try would
        help, and TimeoutError after `timeout` seconds: it is still under way."""
        self._producer._seen(self)
        try:
            return self._future.result(timeout)
        except TimeoutError:
            if not self._future.done():
                self._producer._unseen.add(self)
            raise

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Likewise: what `result` raises, or None."""
        try:
            self.result(timeout)
        except (QueueUnreachable, ValueError) as error:
            return error
        return None

    def add_done_callback(self, callback: "Callable[[KafkaDelivery], object]", /) -> None:
        """Call it with the delivery when the outcome is known, on the producer's thread. Raises TypeError for what cannot be."""
        function("callback", callback, "delivery")
        self._producer._seen(self)
        self._future.add_done_callback(lambda _: callback(self))


class KafkaProducer:
    """Sends messages to a topic; safe to use from several threads, but not on both sides of a fork.

    Messages of a key stay in the order in which they were sent, and a retry makes no duplicate (enable.idempotence, acks=all).
    """

    def __init__(
        self, url: str, topic: str, *, patience: float = 30.0, linger: float = 0.005, buffer_bytes: int = 32_000_000
    ) -> None:
        """`url`: as in BATON_KAFKA_URL. `patience`: seconds for which a message is tried again. `linger`: seconds that what is
        given to `produce` waits for others, half of `patience` at most. `buffer_bytes`: so much may wait; then `produce` waits
        for room. Raises QueueUnreachable for a URL that is none, ValueError and TypeError for other options.
        """
        number("patience", patience, 0.001)
        number("linger", linger, 0)
        number("buffer_bytes", buffer_bytes, 1)
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"the topic is {topic!r}: give its name as a text")
        self._topic, self._patience, self._buffer = topic, patience, buffer_bytes
        self._address = read(url)
        self._unseen: set[KafkaDelivery] = set()
        self._trouble = ""
        self._closed = threading.Event()
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

    def send(self, key: Key, value: bytes | str, headers: Headers | None = None, *, partition: int | None = None) -> Sent:
        """Where it is now. `key`: messages of a key go to one partition; None: to any. `partition`: where it goes instead. Raises
        as `KafkaDelivery.result`."""
        delivery = self.produce(key, value, headers, partition=partition)
        self._client.flush(0)
        return delivery.result()

    def send_many(self, entries: Iterable[Given]) -> list[Sent]:
        """Send (key, value) or (key, value, headers); returns when the topic has all of them."""
        deliveries = [self.produce(*entry) for entry in entries]
        for delivery in deliveries:
            self._seen(delivery)
        self._client.flush(self._patience)
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
        """Send it within `linger`, together with others, and wait for nothing but room in the buffer. A failure that nothing
        looked at is raised by `flush` or `close`. Raises QueueUnreachable where there was no room for `patience` seconds."""
        if self._closed.is_set():
            raise RuntimeError("this producer is closed: make another")
        for name, given in (("key", key), ("value", value)):
            if not isinstance(given, (bytes, str)) and not (name == "key" and given is None):
                raise TypeError(f"a {name} is bytes or str, not {type(given).__name__}")
        if partition is not None and (not isinstance(partition, int) or partition < 0):
            raise ValueError(f"a partition is a number from 0, not {partition!r}")
        delivery = KafkaDelivery(self, on_delivery)
        if on_delivery is None:
            self._unseen.add(delivery)
        until = time.monotonic() + self._patience
        where: Mapping[str, Any] = {} if partition is None else {"partition": partition}
        while True:
            try:
                self._client.produce(
                    self._topic,
                    key=key,
                    value=value,
                    headers=list(headers.items()) if headers else None,
                    on_delivery=lambda error, message: self._delivered(delivery, error, message),
                    **where,
                )
                return delivery
            except BufferError:
                if time.monotonic() >= until:
                    self._seen(delivery)
                    raise QueueUnreachable(
                        f"{self._address.place}: the producer's buffer is full ({self._buffer:,} bytes), so it took nothing new "
                        f"for {self._patience:g} s{self._trouble}."
                    ) from None
                self._closed.wait(_LOOK_EVERY)
            except KafkaException as failure:
                delivery._future.set_exception(self._error(failure.args[0]))
                return delivery

    def flush(self, within: float | None = None) -> None:
        """Send at once what was given to `produce`, and wait until the outcome is known, for `within` seconds at most. Raises
        QueueUnreachable where a message may not be in the topic and the program did not look at its delivery."""
        left = self._flushed(within)
        if left:
            raise QueueUnreachable(
                f"{self._address.place}: {counted(left, 'message')} to {self._topic} not sent after {within:g} s"
            )
        self._report()

    def close(self, within: float | None = None) -> None:
        """`flush`, and give up what was not sent in time."""
        if self._closed.is_set():
            return
        if self._flushed(within):
            self._client.purge()
            self._client.flush(_LOOK_EVERY)
        self._closed.set()
        self._thread.join()
        self._report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except QueueUnreachable as why:
            log.error("%s", why)

    def _poll(self) -> None:
        while not self._closed.is_set():
            self._client.poll(_LOOK_EVERY)

    def _flushed(self, within: float | None) -> int:
        """How many messages are left then."""
        until = inf if within is None else time.monotonic() + within
        while (left := len(self._client)) and time.monotonic() < until:
            self._client.flush(min(_LOOK_EVERY, max(0.0, until - time.monotonic())))
        return left

    def _report(self) -> None:
        failed = [one for one in list(self._unseen) if one.done() and one._future.exception() is not None]
        for one in failed:
            self._seen(one)
        if failed:
            raise QueueUnreachable(
                f"{counted(len(failed), 'message')} to {self._topic} not sent: {failed[0]._future.exception()}"
            )

    def _seen(self, delivery: KafkaDelivery) -> None:
        self._unseen.discard(delivery)

    def _heard(self, error: KafkaError) -> None:
        self._trouble = f" ({error.str()})"

    def _delivered(self, delivery: KafkaDelivery, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._trouble = ""
            self._seen(delivery)
            delivery._future.set_result(Sent(message.partition() or 0, str(message.offset())))
        else:
            delivery._future.set_exception(self._error(error))

    def _error(self, error: KafkaError) -> Exception:
        """A sentence with the cure."""
        code, place = error.code(), self._address.place
        if code in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return QueueUnreachable(f"{place} has no topic {self._topic}: create it, or name another")
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return ValueError(f"the message is larger than the topic {self._topic} takes: raise its max.message.bytes")
        if code == KafkaError._UNKNOWN_PARTITION:
            return ValueError(f"the topic {self._topic} has no such partition")
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return QueueUnreachable(f"{self._address.who} may not WRITE the topic {self._topic}: allow it by an ACL")
        if code == KafkaError._MSG_TIMED_OUT:
            return QueueUnreachable(f"{place} has not taken the message within {self._patience:g} s{self._trouble}")
        return (ValueError if code in _HOPELESS else QueueUnreachable)(f"{place}: the message was not sent ({error.str()})")
