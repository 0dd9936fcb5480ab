"""What the operator tells the pods of a group between two ledgers: which pods a pause or a grant concerns, and to which an owner
hands over. Pure.

It stands in the metadata of one offset of a group of its own, `<group id>/announcements`: pods ask for that one offset, five
times a second. Who owns a partition stands in its owner record alone: an announcement that is lost or old costs time or a
question, and no order. Who can forge one can have an owner hand its partition over to a pod that there is not, which costs time:
the operator sees that, and grants above it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

from baton.model.ids import Uid
from baton.model.session import LONGEST_UID

LONGEST = 4000
"""Characters: a broker takes 4,095 by default."""
_MOST = 400
_PARTITIONS = 2**31
"""Kafka's protocol has numbers below it."""
_FURTHEST = 2**20
"""The next grant of a partition is no further above the one before."""
PARTITION = 0
"""At whose offset it stands."""


def announcing_group(group: str) -> str:
    """Where the announcements of a group are. No group of a queue has a slash in its id."""
    return f"{group}/announcements"


ANYBODY = -1
"""Everybody is to look."""


def mark(uid: str | None) -> int:
    """Of a pod; 0: of none. Two pods may have the same: they look without need."""
    return 1 + crc32(uid.encode()) % 9999 if uid else 0


class Said(NamedTuple):
    """That something has changed in a partition."""

    number: int
    """Of the announcement: it is the offset under which it stands, and grows."""
    partition: int
    epoch: int
    within: int
    """Milliseconds that its owner has to let go of it; -1: it was granted."""
    owner: int
    """Who has it until then (`mark`),"""
    receiver: int
    """and who gets it,"""
    then: int = 0
    """under which epoch, if the owner is to grant it itself; 0: the operator does."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """The latest changes of a queue."""

    queue: str
    said: tuple[Said, ...]
    pods: Mapping[int, Uid] = field(default_factory=dict)
    """Those to which partitions are handed over, by their marks. No two of them have the same."""

    def to_text(self) -> str:
        """As it stands beside the offset. What was said first is left out where there is too much."""
        said = list(self.said[-_MOST:])
        while len(text := self._text(said)) > LONGEST:
            said = said[max(1, len(said) // 4) :]
        return text

    def receiver(self, one: Said) -> Uid | None:
        """The pod to which its owner is to hand it over; None: the operator grants it."""
        return self.pods.get(one.receiver) if one.epoch < one.then <= one.epoch + _FURTHEST else None

    def _text(self, said: list[Said]) -> str:
        named = sorted({one.receiver for one in said if one.then} & self.pods.keys())
        fields: dict[str, Any] = {"baton": 1, "queue": self.queue, "said": [one if one.then else one[:-1] for one in said]}
        if named:
            fields["pods"] = [[one, self.pods[one]] for one in named]
        return json.dumps(fields, separators=(",", ":"))


def read(text: str | None) -> Announcement | None:
    """None: it is none of Baton's."""
    if not text or len(text) > LONGEST + 100:
        return None
    try:
        fields = json.loads(text.partition("\0")[0])
        if fields.get("baton") != 1 or not isinstance(fields["queue"], str):
            return None
        said = tuple(Said(*one) for one in fields["said"])
        pods = {number: Uid(uid) for number, uid in fields.get("pods", []) if mark(uid) == number and len(uid) <= LONGEST_UID}
        if all(_whole(one) and 0 <= one.partition < _PARTITIONS for one in said):
            return Announcement(fields["queue"], said, pods)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        pass
    return None


def _whole(values: Iterable[object]) -> bool:
    return all(isinstance(one, int) and not isinstance(one, bool) and -1 <= one < 2**63 for one in values)
