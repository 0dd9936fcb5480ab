"""How many partitions all groups of this operator have together: its memory has a bound, and each partition takes some of it.

What a group has is booked. Where groups of several namespaces are served, one namespace has half at most; and a few partitions of
each count as none, so that large groups do not shut small ones out. Pure.
"""

from collections import Counter
from collections.abc import Callable, Mapping

GroupKey = tuple[str, str]
"""Namespace and name of a ConsumerGroup."""

MOST_IN_ALL = 200_000
"""What the chart's memory limit has room for, beside a thousand small groups."""


FEW = 200
"""The part of the whole that each namespace has besides it: a thousand partitions where it is as above."""


class Capacity:
    """The books. `freed` is called with each group that waits whenever there is more room."""

    def __init__(self, most: int = MOST_IN_ALL, *, shared: bool = False) -> None:
        """`most`: partitions. `shared`: several namespaces are served."""
        self.most = most
        self.of_namespace = most // 2 if shared else most
        self._few = most // FEW
        self._counted = 0
        self.freed: Callable[[GroupKey], None] = lambda key: None
        self._booked: dict[GroupKey, int] = {}
        self._by_namespace: Counter[str] = Counter()
        self._waiting: dict[GroupKey, None] = {}
        """In the order in which they found no room."""

    @property
    def total(self) -> int:
        return self._by_namespace.total()

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
        left = max(0, self.most - self._counted) + max(0, self._few - has)
        return self.booked(key) + max(0, min(left, self.of_namespace - has))

    def book(self, key: GroupKey, partitions: int) -> None:
        """The group has so many, or is about to. What is there already is booked whether there is room or not."""
        more = partitions - self._booked.pop(key, 0)
        if partitions:
            self._booked[key] = partitions
        before = self._by_namespace.pop(key[0], 0)
        if before + more:
            self._by_namespace[key[0]] = before + more
        self._counted += max(0, before + more - self._few) - max(0, before - self._few)
        if more < 0:
            for waiting in list(self._waiting):
                self.freed(waiting)

    def reserve(self, ledgers: Mapping[GroupKey, int]) -> None:
        """What groups have by their ledgers, before any of them begins: who had room keeps it, whoever comes first this time."""
        for key, partitions in sorted(ledgers.items()):
            if partitions <= self.room(key):
                self.book(key, partitions)

    def wait(self, key: GroupKey) -> None:
        """The group has no room for all that it is to have."""
        self._waiting.setdefault(key)

    def has_room(self, key: GroupKey) -> None:
        """It has (again), or needs none."""
        self._waiting.pop(key, None)

    def forget(self, key: GroupKey) -> None:
        """The group is gone, or somebody else's."""
        self.has_room(key)
        self.book(key, 0)

    def clear(self) -> None:
        """This operator leads no more."""
        self._booked.clear()
        self._by_namespace.clear()
        self._counted = 0
        self._waiting.clear()
