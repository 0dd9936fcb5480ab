"""How many partitions all groups of this operator have together: its memory has a bound, and each partition takes some of it.

What a group has is booked. Where groups of several namespaces are served, one namespace has half at most; and a part of the whole
is kept for the first few partitions of each, so that large groups do not shut small ones out. Pure.
"""

from collections import Counter
from collections.abc import Mapping

GroupKey = tuple[str, str]
"""Namespace and name of a ConsumerGroup."""

MOST_IN_ALL = 200_000
"""What the chart's memory limit has room for."""

KEPT = 10
"""One part in so many of the whole is kept for small groups: 20,000 partitions where it is as above."""

FEW = 200
"""One part in so many of the whole is what a namespace may have of those at most: a thousand partitions where it is as above."""


class Capacity:
    """Which group uses how many of the operator's partitions, and which groups wait for room."""

    def __init__(self, most: int = MOST_IN_ALL, *, shared: bool = False) -> None:
        """`most`: partitions. `shared`: several namespaces are served."""
        self.most = most
        self.of_namespace = most // 2 if shared else most
        self.kept = most // KEPT if shared else 0
        """Partitions that only the first `few` of each namespace take, as long as some are left."""
        self.few = most // FEW
        self.total = 0
        """What is booked."""
        self._first = 0
        """What all namespaces have together of their first few."""
        self._booked: dict[GroupKey, int] = {}
        self._by_namespace: Counter[str] = Counter()
        self._waiting: dict[GroupKey, int] = {}
        """In the order in which they found no room; and how many partitions more would be of use."""
        self._freed = False
        """There is more room than when `fitting` was asked last."""

    @property
    def by_namespace(self) -> Mapping[str, int]:
        """What is booked. For any thread."""
        return self._by_namespace.copy()

    @property
    def waiting(self) -> Counter[str]:
        """Groups that have no room for all that they are to have, by namespace. For any thread."""
        return Counter(namespace for namespace, _ in self._waiting.copy())

    def booked(self, key: GroupKey) -> int:
        return self._booked.get(key, 0)

    def room(self, key: GroupKey) -> int:
        """Partitions that this group may have, with those that it has."""
        has = self._by_namespace[key[0]]
        shared = self.most - self.kept - (self.total - min(self._first, self.kept))
        left = max(0, shared) + max(0, min(self.few - has, self.kept - self._first))
        return self.booked(key) + max(0, min(left, self.of_namespace - has))

    def book(self, key: GroupKey, partitions: int) -> None:
        """The group has so many, or is about to. What is there already is booked whether there is room or not."""
        more = partitions - self._booked.pop(key, 0)
        if partitions:
            self._booked[key] = partitions
        before = self._by_namespace.pop(key[0], 0)
        if before + more:
            self._by_namespace[key[0]] = before + more
        self.total += more
        self._first += min(before + more, self.few) - min(before, self.few)
        self._freed |= more < 0

    def reserve(self, ledgers: Mapping[GroupKey, int]) -> None:
        """What groups have by their ledgers, before any of them begins: who had room keeps it, whoever comes first this time."""
        for key, partitions in sorted(ledgers.items()):
            if partitions <= self.room(key):
                self.book(key, partitions)

    def wait(self, key: GroupKey, lacks: int) -> None:
        """The group has no room for all that it is to have: so many partitions more would be of use."""
        self._waiting[key] = lacks

    def fitting(self) -> list[GroupKey]:
        """Those that wait, and of which each would find room since some was freed. Each time some is, once: somebody who frees
        and takes a little, again and again, is not to keep all of them at work."""
        if not self._freed:
            return []
        self._freed = False
        return [key for key, lacks in self._waiting.items() if lacks <= self.room(key) - self.booked(key)]

    def has_room(self, key: GroupKey) -> None:
        """It has (again), or needs none."""
        self._waiting.pop(key, None)

    def forget(self, key: GroupKey) -> None:
        """Free the room of a group that is gone, or that another operator serves."""
        self.has_room(key)
        self.book(key, 0)

    def clear(self) -> None:
        """This operator leads no more."""
        self._booked.clear()
        self._by_namespace.clear()
        self.total = self._first = 0
        self._waiting.clear()
        self._freed = False
