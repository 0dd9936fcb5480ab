"""The owner records of one queue: from looks at all of them, from the answers to grants, and from owners that hand over."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from baton.model.ids import Epoch
from baton.queues.protocol import Ownership


class OwnerRecords:
    """The records, with what this operator changed since its last look, so that a look shows what others changed."""

    def __init__(self) -> None:
        self.known: dict[int, Ownership] = {}
        """By the partition's number."""
        self.surprises = 0
        """How often a look found others than those that were known. The first look is one."""
        self._untold: dict[int, Ownership] = {}
        """Those that the last look left to be told when they are asked about."""
        self._in_hand: Counter[int] = Counter()
        """Pauses and grants that have not been answered, by partition: a grant may be begun beside a pause."""
        self._touched: set[int] = set()
        """Those that were, since a look began."""
        self._doubted: dict[int, Ownership] = {}
        """Those of the last look that were from before what is known."""

    @contextmanager
    def changing(self, number: int) -> Iterator[None]:
        """Around a pause or a grant of this partition."""
        self._in_hand[number] += 1
        self._touched.add(number)
        try:
            yield
        finally:
            self._in_hand[number] -= 1
            if not self._in_hand[number]:
                del self._in_hand[number]

    def granted(self, number: int, record: Ownership) -> None:
        """What stood there after a grant, or a hand-over: a look that began before it may have read what was there then."""
        self.known[number] = record
        self._untold.pop(number, None)
        self._touched.add(number)

    def seen(self, number: int) -> Ownership | None:
        """What stood there at the last look or since, also if that was not told."""
        return self._untold.get(number, self.known.get(number))

    def paused(self, number: int, epoch: Epoch) -> None:
        """The partition was paused under this epoch, which does nothing where another is in force."""
        record = self.known.get(number)
        if record is not None and record.epoch == epoch:
            self.known[number] = record._replace(paused=True)

    def look(self) -> None:
        """All records are about to be read."""
        self._touched = set(self._in_hand)

    def found(self, records: Mapping[int, Ownership], *, afresh: bool, next_owners: Mapping[int, Collection[Ownership]]) -> bool:
        """What was read; True if it is a surprise. Of partitions that were touched meanwhile what is known since then counts,
        unless (`afresh`) nothing that was known counts any more. `next_owners`: who is or was to have those that are paused.
        Their owners may have handed them over, which is no surprise, and is told when they are asked about. A record from before
        what is known counts from the second look that finds it: a server of Kafka that is none any more answers from its past."""
        found = dict(records)
        handed_over = [one for one, owners in next_owners.items() if found.get(one) in owners and not afresh]
        stays = {} if afresh else {one: owner for one, owner in self._untold.items() if one in self._touched}
        self._untold = stays | {one: found[one] for one in handed_over if one not in self._touched}
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
        """It is from before the record that is known. Epoch 0 is none: the record was taken away."""
        known = self.known.get(number)
        return known is not None and 0 < owner.epoch < known.epoch
