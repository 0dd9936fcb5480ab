"""What a producer is given: entries, and how it is to send them."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from baton.queues.redis.headers import Headers, pack
from baton.queues.redis.outbox import Outbox
from baton.queues.redis.outgoing import SendListener, Waiting, to_partition
from baton.queues.redis.routing import slot_of

Key = bytes | str | None
Given = tuple[Key, bytes | str] | tuple[Key, bytes | str, Headers | None]
"""Key, value, and headers."""


class SendOptions(NamedTuple):
    """How a producer sends (RedisProducer)."""

    patience: float
    linger: float
    max_entries: int
    max_bytes: int
    buffer_bytes: int

    def room(self, outbox: Outbox, entry: Waiting) -> bool:
        """Whether an entry may wait, too. One that is larger than the whole buffer may, by itself."""
        return not outbox.entries or outbox.bytes + entry.size <= self.buffer_bytes

    def full(self, why: str) -> str:
        return (
            f"{why} The producer's buffer is full ({self.buffer_bytes:,} bytes), so it took nothing new for {self.patience:g} s."
        )


def taken(
    key: Key,
    value: bytes | str,
    headers: Headers | None,
    partition: int | None,
    deadline: float,
    *,
    due: float = -inf,
    told: SendListener | None = None,
) -> Waiting:
    """Raises TypeError and ValueError for what is no entry."""
    coded = b"" if key is None else _bytes(key, "key")
    if partition is not None:
        if not isinstance(partition, int) or partition < 0:
            raise ValueError(f"a partition is a number from 0, not {partition!r}")
        slot: int | None = to_partition(partition)
    else:
        slot = None if key is None else slot_of(coded)
    return Waiting(slot, coded, _bytes(value, "value"), pack(headers), deadline, due=due, told=told)


def taken_many(entries: Iterable[Given], deadline: float) -> list[Waiting]:
    """Likewise."""
    return [taken(key, value, *_only(headers), None, deadline) for key, value, *headers in entries]


def _only(headers: Sequence[Headers | None]) -> tuple[Headers | None]:
    if len(headers) > 1:
        raise TypeError(f"an entry is key, value and headers, not {2 + len(headers)} things")
    return (headers[0] if headers else None,)


def _bytes(text: bytes | str, what: str) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")
