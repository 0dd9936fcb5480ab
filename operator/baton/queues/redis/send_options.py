"""What a producer is given: entries, and how it is to send them."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from baton.model.options import number, whole
from baton.model.wording import counted
from baton.queues.redis.headers import Headers, pack, utf8
from baton.queues.redis.outbox import Outbox
from baton.queues.redis.outgoing import SendListener, Waiting, to_partition
from baton.queues.redis.routing import slot_of

Key = bytes | str | None
Given = tuple[Key, bytes | str] | tuple[Key, bytes | str, Headers | None]
"""Key, value, and headers."""

MOST_BYTES = 64 * 2**20
"""Of an entry. Whoever reads it has it whole, and the server serves nobody while it copies one: half a second for this much.
Redis itself would take eight times as much, and then nobody could read it in time."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How a producer sends (RedisProducer)."""

    patience: float
    linger: float
    max_entries: int
    max_bytes: int
    buffer_bytes: int
    replicas: int

    def __post_init__(self) -> None:
        """Raises TypeError for what is no number, and ValueError for one with which nothing could be sent."""
        number("patience", self.patience, 0)
        number("linger", self.linger, 0)
        whole("max_entries", self.max_entries, 1)
        number("max_bytes", self.max_bytes, 1)
        number("buffer_bytes", self.buffer_bytes, 1)
        whole("replicas", self.replicas, 0)

    def room(self, outbox: Outbox, entry: Waiting) -> bool:
        """Whether an entry may wait, too. One that is larger than the whole buffer may, by itself."""
        return not outbox.open or outbox.bytes + entry.size <= self.buffer_bytes

    def full(self, why: str) -> str:
        return (
            f"{why} The producer's buffer is full ({self.buffer_bytes:,} bytes), so it took nothing new for {self.patience:g} s."
        )


def still_wait(count: int, queue: str) -> str:
    """How many entries wait, as a producer says it."""
    return f"{counted(count, 'entry', 'entries')} to {queue} still {'waits' if count == 1 else 'wait'}"


def named(queue: str) -> str:
    """Raises ValueError for a queue without its namespace: it would be waited for, as one that is not made yet. TypeError for
    what is no text."""
    if not isinstance(queue, str):
        raise TypeError(f"the queue is {queue!r}: give its name as a text, such as 'shop/orders'")
    namespace, slash, name = queue.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(f"the queue is {queue!r}: name it with its namespace, as in shop/orders")
    return queue


def waiting_entry(
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
    payload, packed = _bytes(value, "value"), pack(headers) if headers else b""
    if (size := len(coded) + len(payload) + len(packed)) > MOST_BYTES:
        raise ValueError(
            f"an entry has {MOST_BYTES:,} bytes of key, value and headers at most, not {size:,}: put what is larger elsewhere, "
            "and send where it is"
        )
    return Waiting(slot, coded, payload, packed, deadline, due=due, told=told)


def waiting_entries(entries: Iterable[Given], deadline: float) -> list[Waiting]:
    """Likewise."""
    return [waiting_entry(*_parts(entry), None, deadline) for entry in entries]


def _parts(entry: object) -> tuple[Key, bytes | str, Headers | None]:
    if not isinstance(entry, (tuple, list)):
        raise TypeError(f"an entry is (key, value) or (key, value, headers), not {type(entry).__name__}")
    if not 2 <= len(entry) <= 3:
        raise TypeError(f"an entry is key, value and headers, not {counted(len(entry), 'thing')}")
    return entry[0], entry[1], entry[2] if len(entry) == 3 else None


def _bytes(text: bytes | str, what: str) -> bytes:
    if isinstance(text, str):
        return utf8(text, what)
    if isinstance(text, bytes):
        return text
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")
