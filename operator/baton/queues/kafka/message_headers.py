"""The headers of a message, also where a producer has named one by bytes that are no text."""

import logging
from operator import methodcaller
from typing import Any

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
        message.set_headers([])
        log.error(
            "%s/%d: the message at offset %d comes without its headers: the name of one is no UTF-8. Correct what its producer "
            "sends",
            message.topic(),
            message.partition(),
            message.offset(),
        )
        return None
    return headers
