"""The owner record of a partition: the metadata string of the group's committed offset. Pure.

The record and the offset are one value at the broker, so that no commit can move one without the other.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from baton.model.ids import Epoch, Uid

LONGEST = 4095
"""Characters that a broker takes by default (offset.metadata.max.bytes is 4,096)."""
_VERSION = 1
_BOUND = 2**53
"""Of epochs and numbers of queries: no operator reaches it. A record with a higher one is not Baton's: any user with READ on a
group can commit one, and the operator grants over it, as if there were no record."""
_TOKEN_BOUND = 2**15
"""Of a token's epoch, as requests have it: one with a higher one can be sent in none."""
_MOST_PAIRS = {"tries": 50, "ends": 1}
"""How many offsets of these fields are written down: the first ones."""


BY_GIVER = "giver"
"""In the place of the process that reads: the former owner has granted the partition, and the new owner, which may have read, has
not put its mark there yet (`direct_handoffs`)."""


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
    """The process hands out no entry from this offset on before it has written a higher one, so entries that it has read beyond
    do not matter."""
    again: int = 0
    """Entries before this offset may have been handed out to a process that did not let go."""
    stale: int = 0
    """Entries before this offset such a process may yet hand out, until it hears that it is no owner: the broker refuses no
    reader."""
    tries: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """How often entries have failed, by offset."""
    ends: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many processes have ended while this offset was committed, since an attempt at its entry last failed; by offset, at
    most one."""
    released: bool = False
    """The owner has let go, and was done with all that it had."""
    most: int = 0
    """Redeliveries after which an entry becomes a dead letter; 0: any number."""
    unacked: int = 0
    """Entries that a pod may have in hand, of all the queue's partitions; 0: any number."""
    dead_letters: str = ""
    """The topic for dead letters."""
    query: int = 0
    """The Spark query that commits here, regardless of the owner; 0: only the owner commits."""

    def to_text(self) -> str:
        """As it stands beside the offset."""
        pairs = {own: [list(one) for one in sorted(getattr(self, own).items())[:most]] for own, most in _MOST_PAIRS.items()}
        values = {name: pairs[own] if own in pairs else getattr(self, own) for own, name in _FIELDS.items()}
        written = {"baton": _VERSION} | {name: value for name, value in values.items() if value or name in _ALWAYS}
        return json.dumps(written, separators=(",", ":"))

    @property
    def left_behind(self) -> bool:
        """A process has read the partition and did not release it."""
        return bool(self.query) or (bool(self.reader) and not self.released)

    def comes_again(self, end: int) -> int:
        """What `again` is for the next process: `end` is where the log ends: nothing beyond has been read."""
        return max(self.again, min(self.reserved, end) if self.left_behind else 0)

    def ended_on(self, offset: int, end: int) -> Mapping[int, int]:
        """What `ends` is for the next process, which begins at the offset. One that ended without a word may have ended by what
        it had in hand: that counts for the first of its entries. One that had none in hand has ended by none, nor has one that
        had not even put its mark there."""
        count = self.ends.get(offset, 0)
        if self.left_behind and self.reader != BY_GIVER and offset < min(self.reserved, end):
            count += 1
        return {offset: count} if count else {}

    def still_read(self) -> int:
        """What `stale` is for the next owner or query: all that was reserved, for this one may be at work until it hears."""
        return max(self.stale, self.reserved if self.left_behind else 0)

    @property
    def marked(self) -> int:
        """Entries before this offset are marked as redelivered."""
        return max(self.again, self.stale)

    def at(self, offset: int) -> "Record":
        """Without what says something of entries before the offset."""
        tries, ends = ({entry: one[entry] for entry in one if entry >= offset} for one in (self.tries, self.ends))
        again, stale = (bound if offset < bound else 0 for bound in (self.again, self.stale))
        return replace(self, again=again, stale=stale, tries=tries, ends=ends)


_FIELDS = {one.name: {"topic_id": "topic", "dead_letters": "dead"}.get(one.name, one.name) for one in fields(Record)}
"""Their names in the text."""
_ALWAYS = {"group", "queue", "uid", "epoch", "topic", "token", "first"}
"""What is written down also where it is empty."""


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
        written = json.loads(text.partition("\0")[0])
    except (ValueError, RecursionError):
        return None
    return _record(written) if isinstance(written, dict) and written.get("baton") == _VERSION else None


def _record(written: Mapping[str, Any]) -> Record | None:
    found = {own: written[name] for own, name in _FIELDS.items() if name in written}
    token: Any = found.get("token")
    pairs = {own: found.get(own, []) for own in _MOST_PAIRS}
    if not _are_pairs([token]) or not all(
        isinstance(some, list) and len(some) <= _MOST_PAIRS[own] and _are_pairs(some) for own, some in pairs.items()
    ):
        return None
    counts = {own: dict(some) for own, some in pairs.items()}
    try:
        record = Record(**{**found, **counts, "token": Token(*token), "released": found.get("released") is True})
    except TypeError:  # it has not all that it needs
        return None
    texts = record.group, record.queue, record.topic_id, record.reader, record.dead_letters
    numbers = record.epoch, record.first, record.reserved, record.again, record.stale, record.most, record.unacked, record.query
    if not all(isinstance(text, str) for text in (*texts, "" if record.uid is None else record.uid)):
        return None
    if not _are_numbers(numbers) or max(record.epoch, record.query) >= _BOUND or record.token.epoch >= _TOKEN_BOUND:
        return None
    return record


def _are_pairs(values: Iterable[object]) -> bool:
    return all(isinstance(one, list) and len(one) == 2 and _are_numbers(one) for one in values)


def _are_numbers(values: Iterable[object]) -> bool:
    return all(type(one) is int and 0 <= one < 2**63 for one in values)
