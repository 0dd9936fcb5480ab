"""The headers of a message, also where a producer has named one by bytes that are no text."""

import logging
from typing import Any

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes | None]]


def headers_of(message: Any) -> Headers | None:
    """In order; None: it has none. Where the name of one is no UTF-8, none of them can be had: confluent-kafka raises, and has a
    list with holes from then on, on which a process ends. So it is asked once, and the message has none afterwards."""
    try:
        headers: Headers | None = message.headers()
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
