"""The headers of a message, also where a producer has named one by bytes that are no text."""

import logging
from collections.abc import Sequence
from itertools import islice
from operator import methodcaller
from typing import Any, cast

from confluent_kafka import Message

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes | None]]

_ask = methodcaller("headers")
"""Sees an error at once. A plain call does not where Python has specialised it: the error comes up in whatever is done next
(CPython 3.11, `PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS`)."""


def headers_of(message: Any) -> Headers | None:
    """In order; None: it has none. Where the name of one is no UTF-8, none of them can be had: confluent-kafka raises, and has a
    list with holes from then on, on which a process ends. So it is asked once, and the message has none afterwards."""
    try:
        headers: Headers | None = _ask(message)
    except (UnicodeDecodeError, SystemError):
        _without(message)
        return None
    return headers


def all_headers_of(messages: Sequence[Message]) -> list[Headers | None]:
    """The same of each."""
    found: list[Headers | None] = []
    while len(found) < len(messages):
        try:
            found.extend(cast("map[Headers | None]", map(Message.headers, islice(messages, len(found), None))))
        except (UnicodeDecodeError, SystemError):  # those before it are there
            _without(messages[len(found)])
            found.append(None)
    return found


def _without(message: Any) -> None:
    message.set_headers([])
    log.error(
        "%s/%d: the message at offset %d comes without its headers: the name of one is no UTF-8. Correct what its producer sends",
        message.topic(),
        message.partition(),
        message.offset(),
    )
