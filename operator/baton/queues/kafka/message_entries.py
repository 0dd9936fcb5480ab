"""Messages of a partition as entries."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName
from baton.queues.entries import Entries
from baton.queues.entry import NO_HEADERS, Entry
from baton.queues.kafka.message_headers import headers_of


class MessageEntries(Entries):
    """Each is made when somebody looks at it: to make one takes as long as librdkafka needs for its message."""

    without_key = None

    def __init__(
        self, queue: QueueName, partition: int, epoch: Epoch, messages: Sequence[Message], offsets: Sequence[int], again: int
    ) -> None:
        """`offsets`: of these messages. Those before the offset `again` were handed out before."""
        super().__init__(messages, partial(_entry, queue, partition, epoch, again))
        self._numbers = offsets
        self._again = again
        self.offsets = list(map(str, offsets))
        self.keys = cast("list[bytes]", list(map(Message.key, messages)))
        self.values = cast("list[bytes]", list(map(Message.value, messages)))

    @property
    def redelivered(self) -> int:
        return bisect_left(self._numbers, self._again)


def _entry(queue: QueueName, partition: int, epoch: Epoch, again: int, message: Any) -> Entry:
    offset, headers = message.offset(), headers_of(message)
    return Entry(
        queue,
        partition,
        str(offset),
        message.key(),
        message.value(),
        message.timestamp()[1],
        epoch,
        offset < again,
        NO_HEADERS if headers is None else dict(headers),
    )
