"""What the driver has in its hands: which grants a batch works on, and which it has let go of.

A partition that the ledger revokes is released at once when no batch has it, and otherwise as soon as its part of the batch is
finished. The next batch may take a grant before the one before has put it back, so each is counted. Taking and releasing exclude
each other: what has been released is never taken again.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from baton.model.ids import MemberId, Partition
from baton.model.session import Release
from baton.spark.ledger_view import LedgerView
from baton.spark.ownership import Ownership, PartitionGrant


class GrantsInUse:
    """Thread-safe: the batch takes and puts back, the ledger's watch and the session's renewals ask."""

    def __init__(self, ledger: LedgerView, tell: Callable[[frozenset[Release]], None]) -> None:
        self._ledger = ledger
        self._tell = tell
        self._lock = threading.RLock()
        self._taken: Counter[PartitionGrant] = Counter()
        self._released: frozenset[Release] = frozenset()
        ledger.on_change(self.review)

    def take(self, choose: Callable[[Ownership], Iterable[PartitionGrant]]) -> list[PartitionGrant]:
        """Take what `choose` picks from the newest ledger; nothing of it is released until it is put back."""
        with self._lock:
            chosen = list(choose(self._ledger.read().ownership))
            self._taken.update(chosen)
            return chosen

    def put_back(self, grants: Iterable[PartitionGrant]) -> None:
        """The batch is done with these; what the ledger revokes of them is released."""
        if not (back := list(grants)):
            return
        with self._lock:
            self._taken.subtract(back)
            self._taken = +self._taken
            self.review()

    def review(self) -> None:
        """Look what is to be released now, and tell when that has changed."""
        with self._lock:
            released = frozenset(grant.released() for grant in self._ledger.read().ownership.revoking - self._taken.keys())
            if released == self._released:
                return
            self._released = released
            self._tell(released)

    def taken(self) -> frozenset[PartitionGrant]:
        """What the batches that run work on."""
        with self._lock:
            return frozenset(self._taken)

    def busy(self) -> frozenset[MemberId]:
        """Members with something in the batch that runs."""
        return frozenset(grant.member for grant in self.taken())

    def missed(self) -> frozenset[MemberId]:
        """Members whose part of the running batch has been granted to another: a deadline was missed."""
        owners = self._ledger.read().ownership.owners
        return frozenset(
            grant.member for grant in self.taken() if owners.get(Partition(grant.queue, grant.partition), grant).uid != grant.uid
        )
