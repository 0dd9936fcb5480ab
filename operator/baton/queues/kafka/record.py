"""The owner record of a partition: the metadata string of the group's committed offset. Pure.

The record and the offset are one value at the broker, so that no commit can move one without the other.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from baton.model.ids import Epoch, Uid

LONGEST = 4095
"""Characters that a broker takes by default (offset.metadata.max.bytes is 4,096)."""
_VERSION = 1


class Token(NamedTuple):
    """What an init of the partition's transactional id gave: only commits with the latest are taken. The numbers say nothing of
    what is newer: they begin again with another producer id after 32,768 inits."""

    producer: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Who owns a partition, and what its owner is to know."""

    group: str
    """UID of the ConsumerGroup; empty: it was given up."""
    queue: str
    """The PartitionedQueue's name: by it a consumer finds its topic."""
    uid: Uid | None
    epoch: Epoch
    topic_id: str
    token: Token
    first: int
    """How many partitions the topic had when the group began: later ones are read from their beginning."""
    again: int = 0
    """Entries before this offset may have been handed out to an owner that did not let go."""
    released: bool = False
    """The owner has let go, and was done with all that it had."""
    most: int = 0
    """Redeliveries after which an entry becomes a dead letter; 0: any number."""
    dead_letters: str = ""
    """The topic for dead letters."""

    def to_text(self) -> str:
        """As it stands beside the offset."""
        fields: dict[str, Any] = {
            "baton": _VERSION,
            "group": self.group,
            "queue": self.queue,
            "uid": self.uid,
            "epoch": self.epoch,
            "topic": self.topic_id,
            "token": self.token,
            "first": self.first,
        }
        fields |= {"again": self.again} if self.again else {}
        fields |= {"released": True} if self.released else {}
        fields |= {"most": self.most} if self.most else {}
        fields |= {"dead": self.dead_letters} if self.dead_letters else {}
        return json.dumps(fields, separators=(",", ":"))


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    """Of the next message; -1: nothing was committed."""
    record: Record | None
    """None: there is no record of Baton's."""


def read(text: str | None) -> Record | None:
    """None: it is not Baton's. What follows a NUL is not part of it: clients in C write one."""
    if not text or len(text) > LONGEST + 1:
        return None
    try:
        fields = json.loads(text.partition("\0")[0])
    except (ValueError, RecursionError):
        return None
    return _record(fields) if isinstance(fields, dict) and fields.get("baton") == _VERSION else None


def _record(fields: dict[str, Any]) -> Record | None:
    group, queue, uid = fields.get("group"), fields.get("queue"), fields.get("uid")
    epoch, topic, token, first = fields.get("epoch"), fields.get("topic"), fields.get("token"), fields.get("first")
    again, most, dead = fields.get("again", 0), fields.get("most", 0), fields.get("dead", "")
    numbers = (epoch, first, again, most, *(token if isinstance(token, list) else ()))
    if (
        not all(isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63 for number in numbers)
        or len(numbers) != 6
    ):
        return None
    if not all(isinstance(word, str) for word in (group, queue, topic, dead, uid or "")):
        return None
    return Record(
        group=fields["group"],
        queue=fields["queue"],
        uid=None if uid is None else Uid(uid),
        epoch=Epoch(fields["epoch"]),
        topic_id=fields["topic"],
        token=Token(*fields["token"]),
        first=fields["first"],
        again=again,
        released=fields.get("released") is True,
        most=most,
        dead_letters=dead,
    )
