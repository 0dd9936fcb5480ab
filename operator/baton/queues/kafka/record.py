"""The owner record of a partition: the metadata string of the group's committed offset. Pure.

Record and offset are one value at the broker, so no commit can move one without the other.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from baton.model.ids import Epoch, Uid

LONGEST = 4095
"""Characters that a broker accepts by default (offset.metadata.max.bytes is 4,096)."""
_VERSION = 1
_BOUND = 2**53
"""Limit of epochs and query numbers, which no operator reaches. A record with a higher one is not Baton's: any user with READ on
a group can commit one, and the operator grants over it as if there were no record."""
_TOKEN_BOUND = 2**15
"""Limit of a token's epoch in requests: a higher one cannot be sent."""
_MOST_PAIRS = {"tries": 50, "ends": 1}
"""How many pairs of these fields are written: the ones with the lowest offsets."""


BY_GIVER = "giver"
"""Stands in place of the reading process: the former owner granted the partition, and the new owner, which may be reading, has
not put its mark there yet (`direct_handoffs`)."""


class Token(NamedTuple):
    """Producer id and epoch from an init of the partition's transactional id: the broker accepts only commits with the latest
    one. The numbers do not say which is newer: after 32,768 inits they begin again with another producer id."""

    producer: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The owner of a partition, and the state that the owner has to know."""

    group: str
    """UID of the ConsumerGroup; empty: the partition was given up."""
    queue: str
    """Name of the PartitionedQueue, by which a consumer finds its topic."""
    uid: Uid | None
    epoch: Epoch
    topic_id: str
    token: Token
    first: int
    """How many partitions the topic had when the group began: later ones are read from their beginning."""
    reader: str = ""
    """The process that reads as the owner; empty: none yet."""
    reserved: int = 0
    """The process hands out no entry from this offset on before it has written a higher one; what it fetched beyond does not
    count."""
    again: int = 0
    """Entries before this offset may have been handed out to a process that did not release the partition."""
    stale: int = 0
    """A former owner may still hand out entries before this offset, until it sees that it lost the partition: brokers reject no
    reader."""
    tries: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """How often entries have failed, by offset."""
    ends: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many processes have ended while this offset was committed, since an attempt at its entry last failed; one offset at
    most."""
    released: bool = False
    """Whether the owner released the partition with everything finished."""
    most: int = 0
    """maxRedeliveries: after that many an entry becomes a dead letter; 0: no limit."""
    unacked: int = 0
    """maxDeliveredUnacked: entries that a pod may have in hand, of all the queue's partitions; 0: no limit."""
    dead_letters: str = ""
    """The topic for dead letters; empty: the default one."""
    query: int = 0
    """The Spark query that commits here, regardless of the owner; 0: only the owner commits."""

    def to_text(self) -> str:
        """Return the metadata string."""
        pairs = {own: [list(one) for one in sorted(getattr(self, own).items())[:most]] for own, most in _MOST_PAIRS.items()}
        values = {name: pairs[own] if own in pairs else getattr(self, own) for own, name in _FIELDS.items()}
        written = {"baton": _VERSION} | {name: value for name, value in values.items() if value or name in _ALWAYS}
        return json.dumps(written, separators=(",", ":"))

    @property
    def left_behind(self) -> bool:
        """Whether a process has read the partition and did not release it."""
        return bool(self.query) or (bool(self.reader) and not self.released)

    def again_for_next(self, end: int) -> int:
        """Return `again` for the next process. The log ends at `end`; nothing beyond was read."""
        return max(self.again, min(self.reserved, end) if self.left_behind else 0)

    def ends_for_next(self, offset: int, end: int) -> Mapping[int, int]:
        """Return `ends` for the next process, which begins at `offset`. A process that ended without a last record may have ended
        on what it had in hand, so that counts for the first of its entries. It does not count if the process had nothing in hand,
        or had not put its mark in the record."""
        count = self.ends.get(offset, 0)
        if self.left_behind and self.reader != BY_GIVER and offset < min(self.reserved, end):
            count += 1
        return {offset: count} if count else {}

    def stale_for_next(self) -> int:
        """Return `stale` for the next owner or query: everything reserved, as the present one reads until it sees the change."""
        return max(self.stale, self.reserved if self.left_behind else 0)

    @property
    def marked(self) -> int:
        """Entries before this offset are marked as redelivered."""
        return max(self.again, self.stale)

    def at(self, offset: int) -> "Record":
        """Return the record without what concerns entries before `offset`."""
        tries, ends = ({entry: one[entry] for entry in one if entry >= offset} for one in (self.tries, self.ends))
        again, stale = (bound if offset < bound else 0 for bound in (self.again, self.stale))
        return replace(self, again=again, stale=stale, tries=tries, ends=ends)


_FIELDS = {one.name: {"topic_id": "topic", "dead_letters": "dead"}.get(one.name, one.name) for one in fields(Record)}
"""The fields' names in the text."""
_ALWAYS = {"group", "queue", "uid", "epoch", "topic", "token", "first"}
"""Fields that are written even if empty."""


class Committed(NamedTuple):
    """A group's commit for a partition."""

    offset: int
    """The next message's offset; -1: nothing was committed."""
    record: Record | None
    """None: no record of Baton's."""


def names(record: Record | None, uid: Uid, epoch: Epoch) -> bool:
    """Whether the record names this owner."""
    return record is not None and (record.uid, record.epoch) == (uid, epoch)


def read(text: str | None) -> Record | None:
    """Return the record, or None if the text is not Baton's. Clients in C append a NUL; the text ends there."""
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
    except TypeError:  # a field is missing
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
