"""A member's key of the ledger ConfigMap, which its pod reads: one JSON object per member (docs/concepts/rules.md)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ranges import Grants, format_grants, parse_grants

T = TypeVar("T")

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
"""One encoder for all keys: `json.dumps` would make another for each key."""


class LedgerError(ValueError):
    """A key of the ledger cannot be read. The message names the cause."""


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """One member's part of the assignment.

    `owned` and `revoking` map a queue to its partitions with the epochs of their grants. A partition in `revoking` is to be
    released: nothing new is read from it. A pod ignores an entry whose `uid` is not its own: it was written for an earlier pod
    of that name.
    """

    group: str
    """namespace/name of the ConsumerGroup."""
    member: MemberId
    uid: Uid
    generation: int
    active: bool
    """False: a standby, which owns nothing and waits for a slot."""
    owned: Mapping[QueueName, Grants] = field(default_factory=dict)
    revoking: Mapping[QueueName, Grants] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of partitions that it owns, without those in `revoking`."""
        return sum(map(len, self.owned.values()))

    def to_json(self) -> str:
        """The text in the ConfigMap; equal entries give equal text."""
        return _ENCODER.encode(
            {
                "group": self.group,
                "member": self.member,
                "uid": self.uid,
                "generation": self.generation,
                "active": self.active,
                "owned": _to_text(self.owned),
                "revoking": _to_text(self.revoking),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "MemberEntry":
        """Raises LedgerError, which names the field, for a text that is not an entry."""
        return cls.from_raw(read_object(text))

    @classmethod
    def from_raw(cls, raw: dict[str, object]) -> "MemberEntry":
        """The same from what `read_object` made of the text."""
        return cls(
            group=_take(raw, "group", str),
            member=MemberId(_take(raw, "member", str)),
            uid=Uid(_take(raw, "uid", str)),
            generation=_take(raw, "generation", int),
            active=_take(raw, "active", bool),
            owned=_from_text(_take(raw, "owned", dict), "owned"),
            revoking=_from_text(_take(raw, "revoking", dict), "revoking"),
        )


def read_object(text: str) -> dict[str, object]:
    """The JSON of a key. Raises LedgerError."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise LedgerError(f"not JSON: {error}") from None
    except RecursionError:
        raise LedgerError("nested too deeply") from None
    if not isinstance(raw, dict):
        raise LedgerError("not a JSON object")
    return raw


def flat(queues: Mapping[QueueName, Grants]) -> Iterator[tuple[Partition, Epoch]]:
    """Each partition of an entry's `owned` or `revoking`, with the epoch of its grant."""
    for queue, grants in queues.items():
        for number, epoch in grants.items():
            yield Partition(queue, number), epoch


def _take(raw: dict[str, object], name: str, kind: type[T]) -> T:
    value = raw.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise LedgerError(f"{name}: expected {kind.__name__}, found {value!r}")
    return value


def _to_text(queues: Mapping[QueueName, Grants]) -> dict[str, str]:
    return {queue: format_grants(queues[queue]) for queue in sorted(queues) if queues[queue]}


def _from_text(raw: dict[str, object], name: str) -> dict[QueueName, dict[int, Epoch]]:
    try:
        return {QueueName(queue): parse_grants(str(text)) for queue, text in raw.items()}
    except ValueError as error:
        raise LedgerError(f"{name}: {error}") from None
