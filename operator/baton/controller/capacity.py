"""How many partitions all groups of this operator have together: its memory has a bound, and each partition takes some of it.

What a group has is booked, and what it is to have besides where there is room. Where groups of several namespaces are served, one
namespace has half at most; and a part of the whole is kept for the first few partitions of each, so that large groups do not shut
small ones out. A queue for which there is no room stays as the ledger has it; everything else of the group goes on, and the queue
is taken in as soon as there is room.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from baton.controller.cluster_cache import GroupKey
from baton.controller.group_observation import QueueSight
from baton.controller.problems import Problem, Reason
from baton.engine import GroupState
from baton.engine.ledger import MOST_PARTITIONS, WITHDRAWN_OF_ONE
from baton.model.ids import QueueName
from baton.model.wording import counted, first_of

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
        """What groups have by their ledgers, before any of them begins: groups that had room keep it, in any order this time."""
        for key, partitions in sorted(ledgers.items()):
            if partitions <= self.room(key):
                self.book(key, partitions)

    def wait(self, key: GroupKey, lacks: int) -> None:
        """The group has no room for all that it is to have: so many partitions more would be of use."""
        self._waiting[key] = lacks

    def fitting(self) -> list[GroupKey]:
        """Those that wait, and of which each would find room since some was freed. Each time some is, once: a group that frees
        and takes a little, again and again, must not keep all of them at work."""
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


class GroupCapacity:
    """Books the partitions of one group with the operator's Capacity."""

    def __init__(self, key: GroupKey, capacity: Capacity) -> None:
        self._key = key
        self._capacity = capacity
        self.problem: Problem | None = None
        """What there is no room for; None: there is room for everything."""

    def begin(self, partitions: int, *, at_all_events: bool) -> Problem | None:
        """Book what the ledger names, before it is read. Returns a problem where there is no room, so that it must not be read.
        `at_all_events`: the group is being deleted, and comes to its end."""
        if partitions > self._capacity.room(self._key) and not at_all_events:
            self._capacity.wait(self._key, partitions - self._capacity.booked(self._key))
            what = f"the {counted(partitions, 'partition')} that its ledger has: nothing is done for it, and who owns what stays"
            self.problem = Problem(Reason.OPERATOR_FULL, f"the group finds no room for {what} as it is: {self._why(partitions)}")
            return self.problem
        self._capacity.has_room(self._key)
        self._capacity.book(self._key, partitions)
        self.problem = None
        return None

    def take(self, state: GroupState, sights: Iterable[QueueSight], *, members: bool) -> frozenset[QueueName]:
        """Book what the group has, and what it is to have. Returns the queues for which there is no room. `members`: there are
        pods to own partitions."""
        queues, held = list(sights), holds(state)
        named, more = sum(one.recorded or 0 for one in queues), 0
        left = self._capacity.room(self._key) - held
        without: dict[QueueName, int] = {}
        for sight in sorted(queues, key=lambda one: one.name):
            asks = _asks(state, sight, members)
            if asks == 0 or named + more + asks > MOST_PARTITIONS:
                continue  # what is too much for any group is left out elsewhere
            if asks > left - more:
                without[sight.name] = asks
            else:
                more += asks
        self._capacity.book(self._key, held + more)
        if without:
            self._capacity.wait(self._key, min(without.values()))
            names, lacking = first_of(list(without), 3), counted(sum(without.values()), "partition")
            what = f"{names}, which spec.queues names, stay as before: there is no room for {lacking} more"
            self.problem = Problem(Reason.OPERATOR_FULL, f"{what}: {self._why(held + more + min(without.values()))}")
        else:
            self._capacity.has_room(self._key)
            self.problem = None
        return frozenset(without)

    def _why(self, lacking: int) -> str:
        """With what the other namespaces have only where that is the cause: it changes, and each change is told."""
        books, namespace = self._capacity, self._key[0]
        has = books.by_namespace.get(namespace, 0)
        if has - books.booked(self._key) + lacking > books.of_namespace:
            full = f"the groups of namespace {namespace} have {has:,} of the {books.of_namespace:,} partitions that one may have"
        else:
            full = f"the groups of this operator have {books.total:,} of the {books.most:,} partitions that it takes"
            if books.kept:
                full = f"{full}, of which it keeps {books.kept:,} for the first {books.few:,} of each namespace"
        return (
            f"{full}. Raise the chart's values mostPartitions and resources.limits.memory together, serve the namespace by a "
            "release of its own (watchNamespaces), or use fewer partitions. As soon as there is room it goes on by itself"
        )


def holds(state: GroupState) -> int:
    """Partitions, and a quarter of those that were withdrawn: their epochs are kept, and who has not released them."""
    return len(state.records) + (len(state.epoch_tombstones) + len(state.unreleased)) // WITHDRAWN_OF_ONE


def _asks(state: GroupState, sight: QueueSight, members: bool) -> int:
    """How many partitions more than it has the group is to have of a queue: as its spec asks for, or as the queue says if that is
    more. Those of a queue that records nothing are but a number until there is a member."""
    if not sight.wanted or (sight.recorded is None and not sight.enforced and not members):
        return 0
    asked, has = (sight.spec.partitions or 0) if sight.spec is not None else 0, sight.recorded or 0
    known = max(asked, sight.facts.partitions or 0)
    if known <= has:
        return 0
    gone = chain(state.epoch_tombstones, state.unreleased)
    back = sum(one.queue == sight.name and has <= one.number < known for one in gone)
    return known - has - back // WITHDRAWN_OF_ONE
