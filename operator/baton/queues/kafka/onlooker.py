"""Messages of a topic for people, read by a consumer that joins no group and commits nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from re import ASCII, fullmatch
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import NONE_ANSWERS
from baton.queues.kafka.fetcher import END_OF_LOG, fetching_client, why_not_read
from baton.queues.kafka.messages import MessageEntries
from baton.queues.kafka.producer import KafkaProducer
from baton.queues.protocol import QueueUnreachable

_ANSWERS_WITHIN = 10.0
_LOOK_EVERY = 0.2
_AT_ONCE = 100
_KILOBYTES = 16_384
"""Prefetched at most."""
_NO_GROUP = "baton-onlooker"
"""librdkafka needs a group id."""


class KafkaOnlooker:
    """`Onlooker` (baton.queues.onlooker). It needs READ on topic and group, which operator and pods have."""

    def __init__(self, address: KafkaAddress, topic: str, group: str | None = None) -> None:
        """`group`: the group whose offsets say what is finished."""
        self._address, self._topic, self._group = address, topic, group
        self._trouble = ""
        more = {"error_cb": self._heard, "queued.max.messages.kbytes": _KILOBYTES}
        self._client = fetching_client(address, group or _NO_GROUP, **more)

    def partitions(self) -> int:
        with self._explained():
            topic = self._client.list_topics(self._topic, timeout=_ANSWERS_WITHIN).topics[self._topic]
            self._trouble = ""
            if topic.error is not None:
                raise QueueUnreachable(why_not_read(self._address, self._topic, None, topic.error))
            return len(topic.partitions)

    def peek(self, partition: int, offset: str | None = None) -> Iterator[Entry]:
        """Yield the entries that are there now; of transactions only committed ones."""
        if offset is not None and not fullmatch("[0-9]{1,18}", offset, ASCII):
            raise ValueError("a topic has offsets such as 4711")
        with self._explained(partition):
            first, end = self._ends(partition)
            begin = max(first, self._committed(partition) if offset is None else int(offset))
            if begin >= end:
                return
            self._client.assign([TopicPartition(self._topic, partition, begin)])
            until = time.monotonic() + _ANSWERS_WITHIN
            while time.monotonic() < until:
                for message in self._consumed():
                    if _ends_log(message) or (message.error() is None and (message.offset() or 0) >= end):
                        return
                    yield self._entry(message)
                    until = time.monotonic() + _ANSWERS_WITHIN
        raise self._silent()

    def tail(self) -> Iterator[Entry | None]:
        """Yield new entries of the partitions that exist at the start, and None while there are none."""
        known = range(self.partitions())
        with self._explained():
            self._client.assign([TopicPartition(self._topic, partition, self._ends(partition)[1]) for partition in known])
            while True:
                yield None
                for message in self._consumed():
                    if not _ends_log(message):
                        yield self._entry(message)

    def producer(self) -> KafkaProducer:
        return KafkaProducer(self._address, self._topic)

    def close(self) -> None:
        self._client.close()

    def _consumed(self) -> list[Message]:
        """Leave out errors about the group, which only `_committed` needs."""
        those, of_group = self._client.consume(_AT_ONCE, _LOOK_EVERY), KafkaError.GROUP_AUTHORIZATION_FAILED
        return [one for one in those if (error := one.error()) is None or error.code() != of_group]

    def _ends(self, partition: int) -> tuple[int, int]:
        found = self._client.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_ANSWERS_WITHIN)
        if found is None:
            raise self._silent()
        self._trouble = ""
        return found

    def _committed(self, partition: int) -> int:
        """Return the group's offset; below 0: nothing committed."""
        if self._group is None:
            raise ValueError("no group is known that reads the topic: give --offset, or ?group=… in the URL")
        [found] = self._client.committed([TopicPartition(self._topic, partition)], timeout=_ANSWERS_WITHIN)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset

    def _entry(self, message: Any) -> Entry:
        """Raises QueueUnreachable if the message stands for an error."""
        partition = message.partition()
        if message.error() is not None:
            raise QueueUnreachable(why_not_read(self._address, self._topic, partition, message.error()))
        self._trouble = ""
        return MessageEntries(QueueName(self._topic), partition, Epoch(0), [message], [message.offset()], 0)[0]

    @contextmanager
    def _explained(self, partition: int | None = None) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
                self._client.poll(0)  # which calls `_heard`
                raise self._silent() from None
            raise QueueUnreachable(why_not_read(self._address, self._topic, partition, error.args[0])) from None

    def _silent(self) -> QueueUnreachable:
        cure = f"{NONE_ANSWERS}; or correct the address"
        return QueueUnreachable(f"{self._address.place} has not answered within {_ANSWERS_WITHIN:g} s{self._trouble}: {cure}")

    def _heard(self, error: KafkaError) -> None:
        """Keep the latest error since the last answer that names a cause: "1/1 brokers are down", which librdkafka adds to it,
        names none."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._trouble:
            self._trouble = f" ({error.str()})"


def _ends_log(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == END_OF_LOG
