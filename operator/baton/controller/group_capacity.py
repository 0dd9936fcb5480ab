"""One group's place in the books of its operator: what it has is booked, and what it is to have besides where there is room.

A queue for which there is none stays as the ledger has it, as where the group itself would have too many partitions; everything
else of the group goes on, and the queue is taken in as soon as there is room.
"""

from collections.abc import Iterable
from itertools import chain

from baton.controller.capacity import Capacity
from baton.controller.cluster_cache import GroupKey
from baton.controller.group_observation import QueueSight
from baton.controller.problems import Problem, Reason
from baton.engine import GroupState
from baton.engine.ledger import MOST_PARTITIONS, WITHDRAWN_OF_ONE
from baton.model.ids import QueueName
from baton.model.wording import counted, first_of


class GroupCapacity:
    """Books the partitions of one group with the operator's Capacity."""

    def __init__(self, key: GroupKey, capacity: Capacity) -> None:
        self._key = key
        self._capacity = capacity
        self.problem: Problem | None = None
        """What there is no room for; None: there is room for everything."""

    def begin(self, partitions: int, *, at_all_events: bool) -> bool:
        """Book what the ledger names, before it is read; False: there is no room, and it is not to be read.
        `at_all_events`: the group is being deleted, and comes to its end."""
        if partitions > self._capacity.room(self._key) and not at_all_events:
            self._capacity.wait(self._key, partitions - self._capacity.booked(self._key))
            what = f"the {counted(partitions, 'partition')} that its ledger has: nothing is done for it, and who owns what stays"
            self.problem = Problem(Reason.OPERATOR_FULL, f"the group finds no room for {what} as it is: {self._why(partitions)}")
            return False
        self._capacity.has_room(self._key)
        self._capacity.book(self._key, partitions)
        self.problem = None
        return True

    def take(self, state: GroupState, sights: Iterable[QueueSight], *, members: bool) -> frozenset[QueueName]:
        """Book what the group has, and what it is to have. Returns the queues for which there is no room. `members`: there is
        somebody to own partitions."""
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
