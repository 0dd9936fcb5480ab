"""Two assignments side by side: who gains what, who loses what, and whether it is worth it. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from baton.assignors.building_blocks.subscriptions import readable
from baton.assignors.building_blocks.zones import zones_of
from baton.assignors.request import Request
from baton.assignors.solace.balance import Claims, fair_shares
from baton.model.ids import MemberId, Partition, QueueName


@dataclass(frozen=True, slots=True)
class MemberChange:
    """What one member would gain and lose."""

    member: MemberId
    before: int
    after: int
    gains: tuple[Partition, ...]
    withheld: tuple[Partition, ...]
    """What it gains once somebody else has let go of it."""
    loses: tuple[Partition, ...]
    there: bool = True
    """False: it is no member afterwards."""

    @property
    def size(self) -> int:
        return len(self.gains) + len(self.withheld) + len(self.loses)


@dataclass(frozen=True)
class Comparison:
    """Who has what, and who would."""

    assignor: str
    request: Request
    """The queues and members as they would be."""
    before: Mapping[Partition, tuple[MemberId, ...]]
    """Who holds each partition now, or held it last; nearly always one."""
    after: Mapping[Partition, MemberId]
    moves: int
    lower_bound: int
    withheld: frozenset[Partition] = frozenset()
    group: str | None = None
    exclusive: frozenset[QueueName] = frozenset()
    """Queues of which one member has everything."""
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def changes(self) -> tuple[MemberChange, ...]:
        """Of all members, those that change most first."""
        held: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, names in self.before.items():
            for name in names:
                held[name].add(partition)
        gets: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, name in self.after.items():
            gets[name].add(partition)
        made = [
            MemberChange(
                member=name,
                before=len(held[name]),
                after=len(gets[name]),
                gains=tuple(sorted(gets[name] - held[name] - self.withheld)),
                withheld=tuple(sorted((gets[name] & self.withheld) - held[name])),
                loses=tuple(sorted(held[name] - gets[name])),
                there=name in self.request.members,
            )
            for name in sorted({*self.request.members, *held})
        ]
        return tuple(sorted(made, key=lambda change: (-change.size, change.member)))

    @property
    def partitions(self) -> int:
        return sum(self.request.queues.values())

    @cached_property
    def readers(self) -> dict[MemberId, frozenset[QueueName]]:
        """Members for which there could be something, and what they read; without what is exclusive."""
        return {
            name: shared
            for name, queues in readable(self.request).items()
            if (shared := frozenset(queue for queue in queues - self.exclusive if self.request.queues[queue]))
        }

    @cached_property
    def totals(self) -> dict[MemberId, int]:
        """What each reader would have of queues that are not exclusive."""
        counts = dict.fromkeys(self.readers, 0)
        for partition, name in self.after.items():
            if name in counts and partition.queue not in self.exclusive:
                counts[name] += 1
        return counts

    def of_queue(self, queue: QueueName) -> dict[MemberId, int]:
        """How many partitions of one queue each of its readers would have."""
        return {name: self._then[name, queue] for name, queues in self.readers.items() if queue in queues}

    def of_queue_now(self, queue: QueueName) -> dict[MemberId, int]:
        """How many partitions of one queue each of its owners has now."""
        return self._now.get(queue, {})

    def moves_of(self, queue: QueueName) -> int:
        return self._moved[queue]

    @cached_property
    def _then(self) -> Counter[tuple[MemberId, QueueName]]:
        return Counter((name, partition.queue) for partition, name in self.after.items())

    @cached_property
    def _now(self) -> Mapping[QueueName, Counter[MemberId]]:
        counts: defaultdict[QueueName, Counter[MemberId]] = defaultdict(Counter)
        for partition, names in self.before.items():
            counts[partition.queue].update(names)
        return dict(counts)

    @cached_property
    def _moved(self) -> Counter[QueueName]:
        return Counter(p.queue for p, name in self.after.items() if p in self.before and name not in self.before[p])

    @cached_property
    def nobodys(self) -> tuple[Partition, ...]:
        """Partitions that nobody would have, though somebody reads their queue."""
        read = frozenset().union(*self.readers.values())
        return tuple(
            partition
            for queue in sorted(read)
            for number in range(self.request.queues[queue])
            if (partition := Partition(queue, number)) not in self.after
        )

    @cached_property
    def as_even_as_can_be(self) -> bool:
        """No assignment has more even totals, for these subscriptions."""
        queues = {queue: count for queue, count in self.request.queues.items() if queue not in self.exclusive}
        shares = fair_shares(Claims(queues, sorted(self.readers), self.readers, {}))
        best: dict[MemberId, int] = defaultdict(int)
        for counts in shares.counts.values():
            for name, count in counts.items():
                best[name] += count
        return sum(count**2 for count in self.totals.values()) <= sum(count**2 for count in best.values())

    @cached_property
    def weighed(self) -> bool:
        """Partitions or members are not all alike."""
        capacities = {member.capacity for member in self.request.members.values()}
        return len(capacities) > 1 or any(weight != 1 for weights in self.request.weights.values() for weight in weights)

    def loads(self, owners: Iterable[tuple[Partition, MemberId]]) -> dict[MemberId, Fraction]:
        """The weight of what each member has, for its capacity."""
        loads = dict.fromkeys(self.request.members, Fraction(0))
        for (queue, number), name in owners:
            if name in loads and 0 <= number < self.request.queues.get(queue, 0):
                weights = self.request.weights.get(queue)
                loads[name] += 1 if weights is None else weights[number]
        return {name: load / self.request.members[name].capacity for name, load in loads.items()}

    def owners_now(self) -> list[tuple[Partition, MemberId]]:
        return [(partition, names[0]) for partition, names in self.before.items() if len(names) == 1]

    @cached_property
    def zoned(self) -> bool:
        """Somewhere a zone could matter: members and partitions have them."""
        return any(member.zone for member in self.request.members.values()) and any(
            zones for of_queue in self.request.zones.values() for zones in of_queue
        )

    def elsewhere(self, owners: Iterable[tuple[Partition, MemberId]]) -> int:
        """Partitions without a replica in their member's zone."""
        count = 0
        for partition, name in owners:
            home = self.request.members[name].zone if name in self.request.members else None
            if home and 0 <= partition.number < self.request.queues.get(partition.queue, 0):
                near = zones_of(self.request, partition)
                count += bool(near) and home not in near
        return count
