"""The capacity of this operator in partitions, over all groups, because each partition takes some of its bounded memory.

The partitions that a group has are booked, and if there is room, those that it asks for. If several namespaces are served, one
namespace gets at most half; and a part of the capacity is kept for the first few partitions of each namespace, so that large
groups do not exclude small ones. A queue without room stays as the ledger has it, while the rest of the group goes on, and is
taken in as soon as there is room.
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
"""The partitions for which the chart's memory limit has room."""

KEPT = 10
"""A tenth of the capacity is kept for small groups: 20,000 partitions by default."""

FEW = 200
"""A namespace gets at most 1/200 of the capacity from that part: 1,000 partitions by default."""


class Capacity:
    """The partitions that are booked for each group, and the groups that wait for room."""

    def __init__(self, most: int = MOST_IN_ALL, *, shared: bool = False) -> None:
        """`most`: the capacity in partitions. `shared`: several namespaces are served."""
        self.most = most
        self.of_namespace = most // 2 if shared else most
        self.kept = most // KEPT if shared else 0
        """Partitions kept for the first `few` of each namespace."""
        self.few = most // FEW
        self.total = 0
        """All partitions that are booked."""
        self._first = 0
        """The booked partitions that are among the first `few` of their namespaces."""
        self._booked: dict[GroupKey, int] = {}
        self._by_namespace: Counter[str] = Counter()
        self._waiting: dict[GroupKey, int] = {}
        """Groups that found no room, in order, and how many more partitions would be of use to each."""
        self._freed = False
        """True if room was freed since the last call of `fitting`."""

    @property
    def by_namespace(self) -> Mapping[str, int]:
        """The booked partitions by namespace. For any thread."""
        return self._by_namespace.copy()

    @property
    def waiting(self) -> Counter[str]:
        """The number of groups that wait for room, by namespace. For any thread."""
        return Counter(namespace for namespace, _ in self._waiting.copy())

    def booked(self, key: GroupKey) -> int:
        return self._booked.get(key, 0)

    def room(self, key: GroupKey) -> int:
        """Return the partitions that this group may have, including those that it has."""
        has = self._by_namespace[key[0]]
        shared = self.most - self.kept - (self.total - min(self._first, self.kept))
        left = max(0, shared) + max(0, min(self.few - has, self.kept - self._first))
        return self.booked(key) + max(0, min(left, self.of_namespace - has))

    def book(self, key: GroupKey, partitions: int) -> None:
        """Book the partitions of a group, instead of those that were booked before, whether or not there is room."""
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
        """Book the partitions in the groups' ledgers before any group begins, so that groups that had room keep it."""
        for key, partitions in sorted(ledgers.items()):
            if partitions <= self.room(key):
                self.book(key, partitions)

    def wait(self, key: GroupKey, lacks: int) -> None:
        """Record that a group has no room for all its queues. `lacks`: how many more partitions would be of use."""
        self._waiting[key] = lacks

    def fitting(self) -> list[GroupKey]:
        """Return the waiting groups that would find room, if room was freed since the last call. Only then, because a group that
        keeps freeing and taking a little must not keep all of them busy."""
        if not self._freed:
            return []
        self._freed = False
        return [key for key, lacks in self._waiting.items() if lacks <= self.room(key) - self.booked(key)]

    def has_room(self, key: GroupKey) -> None:
        """Record that a group no longer waits for room."""
        self._waiting.pop(key, None)

    def forget(self, key: GroupKey) -> None:
        """Free the partitions of a group that is gone, or that another operator serves."""
        self.has_room(key)
        self.book(key, 0)

    def clear(self) -> None:
        """Forget everything, because this replica no longer leads."""
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
        """Why the group has no room for all its queues; None: it has."""

    def begin(self, partitions: int, *, at_all_events: bool) -> Problem | None:
        """Book the partitions that the ledger names, before it is read. Returns a problem if there is no room, so that the ledger
        must not be read. `at_all_events`: book them anyway, because the group is being deleted."""
        if partitions > self._capacity.room(self._key) and not at_all_events:
            self._capacity.wait(self._key, partitions - self._capacity.booked(self._key))
            what = f"the operator has no room for the group's {counted(partitions, 'partition')}"
            why = f"{what}, so owners stay as they are: {self._why(partitions)}"
            self.problem = Problem(Reason.OPERATOR_FULL, why)
            return self.problem
        self._capacity.has_room(self._key)
        self._capacity.book(self._key, partitions)
        self.problem = None
        return None

    def take(self, state: GroupState, sights: Iterable[QueueSight], *, members: bool) -> frozenset[QueueName]:
        """Book the partitions that the group has, and those that it asks for. Returns the queues for which there is no room.
        `members`: the group has pods to own partitions."""
        queues, held = list(sights), holds(state)
        named, more = sum(one.recorded or 0 for one in queues), 0
        left = self._capacity.room(self._key) - held
        without: dict[QueueName, int] = {}
        for sight in sorted(queues, key=lambda one: one.name):
            asks = _asks(state, sight, members)
            if asks == 0 or named + more + asks > MOST_PARTITIONS:
                continue  # `without_room` leaves out what is too much for any group
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
        """Return why there is no room, and the cure. The total of all namespaces is in it only if that is the cause, because it
        changes often, and each change of the message is an event."""
        books, namespace = self._capacity, self._key[0]
        has = books.by_namespace.get(namespace, 0)
        if has - books.booked(self._key) + lacking > books.of_namespace:
            full = f"the groups of namespace {namespace} have {has:,} of the {books.of_namespace:,} partitions that one may have"
        else:
            full = f"the groups of this operator have {books.total:,} of the {books.most:,} partitions that it takes"
            if books.kept:
                full = f"{full} ({books.kept:,} of these are kept for the first {books.few:,} of each namespace)"
        return (
            f"{full}. Raise the chart's values mostPartitions and resources.limits.memory together, serve the namespace by a "
            "separate release (watchNamespaces), or use fewer partitions. The group goes on as soon as there is room"
        )


def holds(state: GroupState) -> int:
    """Return the partitions of a group, plus a quarter of those that are gone but whose epochs or owners are remembered."""
    return len(state.records) + (len(state.epoch_tombstones) + len(state.unreleased)) // WITHDRAWN_OF_ONE


def _asks(state: GroupState, sight: QueueSight, members: bool) -> int:
    """Return how many more partitions of a queue the group should have: by the spec, or by the queue if that has more.

    Partitions of a queue without owner records take no memory until the group has a member.
    """
    if not sight.wanted or (sight.recorded is None and not sight.enforced and not members):
        return 0
    asked, has = (sight.spec.partitions or 0) if sight.spec is not None else 0, sight.recorded or 0
    known = max(asked, sight.facts.partitions or 0)
    if known <= has:
        return 0
    gone = chain(state.epoch_tombstones, state.unreleased)
    back = sum(one.queue == sight.name and has <= one.number < known for one in gone)
    return known - has - back // WITHDRAWN_OF_ONE
