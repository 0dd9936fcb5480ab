"""Messages that a consumer sends together with the acknowledgement of the entries they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_IN_TRANSACTION = 32_000_000
"""Limit for the sum of the weights of a transaction's outputs. Brokers abort transactions that take longer than some seconds."""
EACH = 300
"""Fixed cost of sending a message, in bytes that take as long."""
_Bytes = str | bytes | None


@dataclass(frozen=True, slots=True)
class Output:
    """One message for a topic."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)
    """A value of None: the header has only a name."""
    partition: int | None = None
    """Partition of the topic. None: chosen by the key as Kafka's Java clients do; without a key, the same partition for all
    outputs of one source partition."""

    @classmethod
    def of(cls, topic: str, value: _Bytes, key: _Bytes, headers: Mapping[str, _Bytes] | None, partition: int | None) -> "Output":
        """Create an output from a program's arguments; text is encoded as UTF-8. Raises TypeError and ValueError for what Kafka
        does not accept."""
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"topic is {topic!r}: set it to the name of a topic")
        if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int)):
            raise TypeError(f"partition is {partition!r}: set it to a number, or leave it out")
        if partition is not None and partition < 0:
            raise ValueError(f"partition is {partition}: set it to 0 or more")
        made = {_name(name): _bytes(f"headers[{name!r}]", header) for name, header in (headers or {}).items()}
        return cls(topic, _bytes("value", value), _bytes("key", key), made, partition)

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        own = len(self.key or b"") + len(self.value or b"")
        return own + sum(len(name) + len(header or b"") for name, header in self.headers.items())

    @property
    def weight(self) -> int:
        """Cost of sending it, in bytes."""
        return self.size + EACH


class FinishedTogether(NamedTuple):
    """Entries of one partition that are finished in the same transaction that sends their outputs."""

    offsets: Sequence[str]
    """Offsets of the entries, in order."""
    outputs: Sequence[Output]
    """Outputs, in the order of sending."""


def _bytes(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{name} is {value!r}: set it to bytes or text, such as json.dumps(…)")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"headers has the name {name!r}: set it to a text")
    return name
