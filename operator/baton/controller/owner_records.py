"""The owner records of one queue: from looks at all of them, from answers to grants, and from direct hand-offs by owners."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from baton.model.ids import Epoch
from baton.queues.protocol import Ownership


class OwnerRecords:
    """The known records, including what this operator changed since the last look, so that a look shows what others changed."""

    def __init__(self) -> None:
        self.known: dict[int, Ownership] = {}
        """Records by partition number."""
        self.surprises = 0
        """How many looks found other records than the known ones. The first look is one of them."""
        self._handed_over: dict[int, Ownership] = {}
        """Records of direct hand-offs that a look found. They become known when the queue is asked about the partition."""
        self._in_hand: Counter[int] = Counter()
        """Unanswered pauses and grants per partition. A grant may begin beside a pause."""
        self._touched: set[int] = set()
        """Partitions that had an unanswered pause or grant since a look began."""
        self._doubted: dict[int, Ownership] = {}
        """Records of the last look that are older than the known ones."""

    @contextmanager
    def changing(self, number: int) -> Iterator[None]:
        """Surround a pause or a grant of this partition."""
        self._in_hand[number] += 1
        self._touched.add(number)
        try:
            yield
        finally:
            self._in_hand[number] -= 1
            if not self._in_hand[number]:
                del self._in_hand[number]

    def granted(self, number: int, record: Ownership) -> None:
        """Take in the record after a grant or a direct hand-off. A look that began earlier may have read an older one."""
        self.known[number] = record
        self._handed_over.pop(number, None)
        self._touched.add(number)

    def seen(self, number: int) -> Ownership | None:
        """Return the latest record, including one of a direct hand-off that is not known yet."""
        return self._handed_over.get(number, self.known.get(number))

    def paused(self, number: int, epoch: Epoch) -> None:
        """Take in that the partition was paused at this epoch. The queue ignores a pause at any epoch but the current one."""
        record = self.known.get(number)
        if record is not None and record.epoch == epoch:
            self.known[number] = record._replace(paused=True)

    def look(self) -> None:
        """Begin a look: all records are about to be read."""
        self._touched = set(self._in_hand)

    def found(self, records: Mapping[int, Ownership], *, afresh: bool, next_owners: Mapping[int, Collection[Ownership]]) -> bool:
        """Take in the records that were read. Returns True if they are a surprise.

        For partitions that were touched meanwhile the known records count, unless nothing known counts any more (`afresh`).
        `next_owners`: present and former next owners of paused partitions. The owners may have handed these partitions over,
        which is no surprise, and becomes known when the queue is asked about them. A record older than the known one counts
        only if two looks in a row find it: a Kafka server that has left the cluster answers from its past.
        """
        found = dict(records)
        handed_over = [one for one, owners in next_owners.items() if found.get(one) in owners and not afresh]
        stays = {} if afresh else {one: owner for one, owner in self._handed_over.items() if one in self._touched}
        self._handed_over = stays | {one: found[one] for one in handed_over if one not in self._touched}
        if not afresh:
            for number in self._touched.union(handed_over):
                found.pop(number, None)
                if number in self.known:
                    found[number] = self.known[number]
        doubted = {} if afresh else {one: owner for one, owner in found.items() if self._is_before(one, owner)}
        found |= {one: self.known[one] for one, owner in doubted.items() if self._doubted.get(one) != owner}
        self._doubted = doubted
        surprised = afresh or found != self.known
        self.known = found
        self.surprises += surprised
        return surprised

    def _is_before(self, number: int, owner: Ownership) -> bool:
        """True if the record is older than the known one. Epoch 0 means that the record was removed."""
        known = self.known.get(number)
        return known is not None and 0 < owner.epoch < known.epoch
