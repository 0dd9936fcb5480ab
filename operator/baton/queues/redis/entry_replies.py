"""Entries, as a script answers them."""

from collections.abc import Iterator

from baton.model.ids import Epoch, QueueName
from baton.queues.entry import Entry
from baton.queues.redis.headers import unpack
from baton.queues.redis.keys import entry_number


def entries_of_reply(
    queue: QueueName, partition: int, epoch: Epoch, about: bytes, texts: bytes, *, again: int = 0, seen: int
) -> Iterator[Entry]:
    """What `told` in partition.lua answers, in order. The first `again` of these were handed out before, as were those up to the
    number `seen`."""
    words = iter(about.decode().split())
    end, new = 0, False
    for nth, (offset, timestamp, of_key, of_value, of_headers) in enumerate(zip(words, words, words, words, words, strict=True)):
        value = end + int(of_key)
        headers = value + int(of_value)
        begin, end = end, headers + int(of_headers)
        new = new or (nth >= again and entry_number(offset) > seen)
        key, payload, others = texts[begin:value], texts[value:headers], texts[headers:end]
        yield Entry(queue, partition, offset, key, payload, int(timestamp), epoch, not new, unpack(others))
