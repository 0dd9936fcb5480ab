"""The owner record of a partition: the metadata string of the group's committed offset. Pure.

The record and the offset are one value at the broker, so that no commit can move one without the other.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from baton.model.ids import Epoch, Uid

LONGEST = 4095
"""Characters that a broker takes by default (offset.metadata.max.bytes is 4,096)."""
_VERSION = 1
_BOUND = 2**53
"""Of epochs and numbers of queries: no operator comes to it. A record with a higher one is not Baton's. Whoever may READ a group
may commit one, and is granted over, as where there is no record."""
_TOKEN_BOUND = 2**15
"""Of a token's epoch, as requests have it: one with a higher one can be sent in none."""
_MOST_TRIES = 50
"""Entries of which it is written down how often they failed: those that come first."""


BY_GIVER = "giver"
"""In the place of the process that reads: the owner before has granted it, and whoever owns it may have read, and has not put its
mark there yet (`direct_handoffs`)."""


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
    reader: str = ""
    """The process that reads as the owner; empty: none does yet."""
    reserved: int = 0
    """It hands out no entry from this offset on before it has written a higher one: what else it may have read nobody needs to
    fear."""
    again: int = 0
    """Entries before this offset may have been handed out to a process that did not let go."""
    stale: int = 0
    """Entries before this offset such a process may yet hand out, until it hears that it is no owner: the broker refuses no
    reader."""
    tries: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """How often entries have failed, or had a process end on them, by offset."""
    released: bool = False
    """The owner has let go, and was done with all that it had."""
    most: int = 0
    """Redeliveries after which an entry becomes a dead letter; 0: any number."""
    unacked: int = 0
    """Entries that a pod may have in hand, of all the queue's partitions; 0: any number."""
    dead_letters: str = ""
    """The topic for dead letters."""
    query: int = 0
    """The Spark query that commits here, whoever owns the partition; 0: none does, but its owner."""

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
        more: dict[str, Any] = {
            "reader": self.reader,
            "reserved": self.reserved,
            "again": self.again,
            "stale": self.stale,
            "tries": [list(one) for one in sorted(self.tries.items())[:_MOST_TRIES]],
            "released": self.released,
            "most": self.most,
            "unacked": self.unacked,
            "dead": self.dead_letters,
            "query": self.query,
        }
        fields |= {name: value for name, value in more.items() if value}
        return json.dumps(fields, separators=(",", ":"))

    @property
    def left_behind(self) -> bool:
        """Somebody has read, and did not let go."""
        return bool(self.query) or (bool(self.reader) and not self.released)

    def comes_again(self, end: int) -> int:
        """What `again` is for the next process: `end` is where the log ends: nothing beyond has been read."""
        return max(self.again, min(self.reserved, end) if self.left_behind else 0)

    def ended_on(self, offset: int, end: int) -> Mapping[int, int]:
        """What `tries` is for the next process, which begins at the offset. One that ended without a word may have ended by what
        it had in hand: that counts as a try of the first of its entries. One that had none in hand has ended by none, nor has
        one that had not even put its mark there."""
        tries = {entry: count for entry, count in self.tries.items() if entry >= offset}
        if self.left_behind and self.reader != BY_GIVER and offset < min(self.reserved, end):
            tries[offset] = tries.get(offset, 0) + 1
        return tries

    def still_read(self) -> int:
        """What `stale` is for the next owner or query: all that was reserved, for this one may be at work until it hears."""
        return max(self.stale, self.reserved if self.left_behind else 0)

    @property
    def marked(self) -> int:
        """Entries before this offset are marked as redelivered."""
        return max(self.again, self.stale)

    def at(self, offset: int) -> "Record":
        """Without what says something of entries before the offset."""
        tries = {entry: count for entry, count in self.tries.items() if entry >= offset}
        again, stale = (bound if offset < bound else 0 for bound in (self.again, self.stale))
        return replace(self, again=again, stale=stale, tries=tries)


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    """Of the next message; -1: nothing was committed."""
    record: Record | None
    """None: there is no record of Baton's."""


def names(record: Record | None, uid: Uid, epoch: Epoch) -> bool:
    """Whether the record names this owner."""
    return record is not None and (record.uid, record.epoch) == (uid, epoch)


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
    topic, dead, reader = fields.get("topic"), fields.get("dead", ""), fields.get("reader", "")
    epoch, token, first = fields.get("epoch"), _numbers(fields.get("token"), 2), fields.get("first")
    more = [fields.get(name, 0) for name in ("reserved", "again", "stale", "most", "unacked", "query")]
    tries = fields.get("tries", [])
    if not isinstance(tries, list) or len(tries) > _MOST_TRIES or not all(_numbers(one, 2) for one in tries):
        return None
    if token is None or token[1] >= _TOKEN_BOUND:
        return None
    if not _are_numbers((epoch, first, *more)) or max(fields["epoch"], more[-1]) >= _BOUND:
        return None
    if not all(isinstance(word, str) for word in (group, queue, topic, dead, reader, "" if uid is None else uid)):
        return None
    reserved, again, stale, most, unacked, query = more
    return Record(
        group=fields["group"],
        queue=fields["queue"],
        uid=None if uid is None else Uid(uid),
        epoch=Epoch(fields["epoch"]),
        topic_id=fields["topic"],
        token=Token(*token),
        first=fields["first"],
        reader=reader,
        reserved=reserved,
        again=again,
        stale=stale,
        tries=dict(tries),
        released=fields.get("released") is True,
        most=most,
        unacked=unacked,
        dead_letters=dead,
        query=query,
    )


def _numbers(value: object, count: int) -> list[int] | None:
    return value if isinstance(value, list) and len(value) == count and _are_numbers(value) else None


def _are_numbers(values: Iterable[object]) -> bool:
    return all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**63 for one in values)
