"""Messages of a partition as entries: their headers and their size."""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Any, NamedTuple, cast

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName
from baton.queues.entry import NO_HEADERS, Entries, Entry

# -- Headers, also if the name of one is not valid UTF-8.

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes | None]]

_ask = methodcaller("headers")
"""Sees an error at once. After a plain call that Python has specialised, the error is raised by whatever runs next (CPython 3.11,
`PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS`)."""


def headers_of(message: Any) -> Headers | None:
    """Return the headers in order, or None. If the name of one is not valid UTF-8, none of them can be read: confluent-kafka
    raises, and then keeps a list with holes, which crashes the process. So it is asked only once, and the headers are removed."""
    try:
        headers: Headers | None = _ask(message)
    except (UnicodeDecodeError, SystemError):
        _without(message)
        return None
    return headers


def all_headers_of(messages: Sequence[Message]) -> list[Headers | None]:
    """As `headers_of`, of each message."""
    found: list[Headers | None] = []
    while len(found) < len(messages):
        try:
            found.extend(cast("map[Headers | None]", map(Message.headers, islice(messages, len(found), None))))
        except (UnicodeDecodeError, SystemError):  # those of earlier messages are in `found`
            _without(messages[len(found)])
            found.append(None)
    return found


def _without(message: Any) -> None:
    message.set_headers([])
    log.error(
        "%s/%d: the message at offset %d comes without its headers: the name of one is not valid UTF-8. Correct its producer",
        message.topic(),
        message.partition(),
        message.offset(),
    )


# -- The size of messages.

_OF_A_MESSAGE = 300
_OF_A_HEADER = 170
"""Bytes that Python's objects take beside their content, as measured with CPython 3.11."""


class Size(NamedTuple):
    """The size of some messages."""

    content: int
    """Bytes of keys, values and headers."""
    in_memory: int
    """Bytes including the objects that hold them."""


def size_of(messages: Sequence[Message]) -> Size:
    """Return the size of messages together: asking for one after the other takes four times as long."""
    keys = cast("list[bytes | None]", map(Message.key, messages))
    content, in_memory = sum(map(len, messages)) + sum(map(len, filter(None, keys))), _OF_A_MESSAGE * len(messages)
    for headers in filter(None, all_headers_of(messages)):
        in_memory += _OF_A_HEADER * len(headers)
        for name, value in headers:
            content += len(name) + len(value or b"")
    return Size(content, content + in_memory)


# -- Messages of a partition as entries.


class MessageEntries(Entries):
    """Entries that are made on access: making one takes as long as librdkafka needs for its message."""

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
