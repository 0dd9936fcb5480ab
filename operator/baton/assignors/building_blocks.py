"""Building blocks of assignors."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter, lt
from typing import Any, TypeVar, overload

from baton.assignors.request import Answer, Assignor, Member, Request
from baton.model.ids import MemberId, Partition, QueueName

# The readers of queues, and the orders in which assignors serve members.


Place = int
"""The index of a member in the order in which an assignor serves members."""


def readable(request: Request) -> dict[MemberId, frozenset[QueueName]]:
    """The existing queues that each member reads."""
    known: dict[frozenset[QueueName], frozenset[QueueName]] = {}
    for member in request.members.values():
        if member.subscribed not in known:
            known[member.subscribed] = member.subscribed.intersection(request.queues)
    return {name: known[member.subscribed] for name, member in request.members.items()}


def readers(subscribed: Sequence[frozenset[QueueName]]) -> dict[QueueName, tuple[int, ...]]:
    """The readers of each queue, as ascending indexes in `subscribed`. Queues are sorted; those without readers are missing.

    Queues with the same readers share one tuple.
    """
    alike: dict[frozenset[QueueName], list[int]] = defaultdict(list)
    for place, queues in enumerate(subscribed):
        alike[queues].append(place)
    sets = list(alike.values())
    read_by: dict[QueueName, list[int]] = defaultdict(list)
    for number, queues in enumerate(alike):
        for queue in queues:
            read_by[queue].append(number)
    made: dict[tuple[int, ...], tuple[int, ...]] = {}
    places: dict[QueueName, tuple[int, ...]] = {}
    for queue in sorted(read_by):
        key = tuple(read_by[queue])
        if key not in made:
            made[key] = tuple(sorted(place for number in key for place in sets[number]))
        places[queue] = made[key]
    return places


def by_rank(members: Mapping[MemberId, Member]) -> Sequence[MemberId]:
    """The members in the order of joining; ties are broken by name."""
    return sorted(members, key=lambda name: (members[name].rank, name))


# A member's partitions, in two columns: a million partitions take two million references instead of a million objects.


_PARTITION = partial(tuple.__new__, Partition)
"""Creates a Partition from a pair without calling Python code."""


class PartitionList(Sequence[Partition]):
    """A sorted sequence of distinct partitions. It reads like a tuple, but loops over its columns are faster."""

    __slots__ = ("numbers", "queues")

    def __init__(self, queues: tuple[QueueName, ...] = (), numbers: tuple[int, ...] = ()) -> None:
        """Each partition's queue and number, in the order of queues, then numbers."""
        self.queues = queues
        self.numbers = numbers

    @classmethod
    def of(cls, partitions: Iterable[tuple[QueueName, int]]) -> "PartitionList":
        """Make a list from partitions in any order, which may repeat."""
        if isinstance(partitions, PartitionList):
            return partitions
        listed = list(partitions)
        if not listed:
            return NOTHING
        in_order = all(map(lt, listed, islice(listed, 1, None)))
        return cls.of_sorted(listed if in_order else sorted(set(listed)))

    @classmethod
    def of_sorted(cls, partitions: Sequence[tuple[QueueName, int]]) -> "PartitionList":
        """Make a list from sorted, distinct partitions."""
        return cls(*zip(*partitions, strict=True)) if partitions else NOTHING

    @classmethod
    def joined(cls, parts: Iterable["PartitionList"]) -> "PartitionList":
        """Join lists that have no partition in common."""
        parts = [part for part in parts if part.numbers]
        if len(parts) > 1:
            parts.sort(key=itemgetter(0))
            if any(before[-1] > after[0] for before, after in pairwise(parts)):
                return cls.of_sorted(sorted(chain.from_iterable(part.pairs() for part in parts)))
        return cls.in_a_row(parts)

    @classmethod
    def in_a_row(cls, parts: Iterable["PartitionList"]) -> "PartitionList":
        """Join lists that are in order: each begins after the end of the previous one."""
        parts = list(parts)
        if len(parts) < 2:
            return parts[0] if parts else NOTHING
        return cls(
            tuple(chain.from_iterable(part.queues for part in parts)),
            tuple(chain.from_iterable(part.numbers for part in parts)),
        )

    def at(self, places: Sequence[int]) -> "PartitionList":
        """The partitions at these ascending indexes."""
        if len(places) < 2:  # an itemgetter with one index returns no tuple
            return PartitionList(tuple(self.queues[one] for one in places), tuple(self.numbers[one] for one in places))
        pick = itemgetter(*places)
        return PartitionList(pick(self.queues), pick(self.numbers))

    def pairs(self) -> Iterable[tuple[QueueName, int]]:
        """Queue and number of each partition. Plain pairs are much faster to create than Partitions."""
        return zip(self.queues, self.numbers, strict=True)

    def by_queue(self) -> Iterator[tuple[QueueName, list[int]]]:
        """Each queue with the numbers of its partitions."""
        for queue, pairs in groupby(self.pairs(), itemgetter(0)):
            yield queue, [number for _, number in pairs]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Partition]:
        return map(_PARTITION, self.pairs())

    @overload
    def __getitem__(self, place: int) -> Partition: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Partition]: ...
    def __getitem__(self, place: int | slice) -> Partition | Sequence[Partition]:
        if isinstance(place, slice):
            forwards = place.step is None or place.step > 0
            return PartitionList(self.queues[place], self.numbers[place]) if forwards else tuple(self)[place]
        return Partition(self.queues[place], self.numbers[place])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionList):
            return self.numbers == other.numbers and self.queues == other.queues
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PartitionList.of({list(self)!r})"


NOTHING = PartitionList()


def whole(queues: Iterable[QueueName], sizes: Mapping[QueueName, int]) -> Iterator[PartitionList]:
    """All partitions of each of these queues, one list per queue."""
    queues = list(queues)
    counted = tuple(range(max((sizes[queue] for queue in queues), default=0)))
    for queue in queues:
        yield PartitionList((queue,) * sizes[queue], counted[: sizes[queue]])


# The holders of partitions: the members that claim them with the newest generation.


@dataclass(frozen=True, slots=True)
class Holdings:
    """The holders of partitions. A member that no longer reads a queue holds its partitions until it releases them."""

    owned_by: Mapping[MemberId, PartitionList]
    """The claims of each member, valid or not."""
    alone: Mapping[QueueName, Sequence[MemberId | None]]
    """The holder by queue and number; None: no holder, or several. Unclaimed queues are missing."""
    several: Mapping[Partition, tuple[MemberId, ...]]
    """Partitions with several holders, sorted."""
    doubtful: frozenset[MemberId]
    """The members that hold less than they claim, or share what they hold."""

    def held_alone(self, queues: Iterable[QueueName]) -> Iterator[tuple[Partition, MemberId]]:
        """The partitions of these queues with exactly one holder, and that holder; by queue and number."""
        for queue in queues:
            for number, name in enumerate(self.alone.get(queue, ())):
                if name is not None:
                    yield Partition(queue, number), name

    def of_readers(
        self, subscribed: Mapping[MemberId, frozenset[QueueName]]
    ) -> tuple[dict[QueueName, list[MemberId | None]], dict[Partition, tuple[MemberId, ...]]]:
        """`alone` and `several`, without holders that no longer read the queue."""
        alone: dict[QueueName, list[MemberId | None]] = {}
        for queue, names in self.alone.items():
            reading = {name for name in set(names) if name is not None and queue in subscribed[name]}
            if reading:
                alone[queue] = [name if name in reading else None for name in names]
        several: dict[Partition, tuple[MemberId, ...]] = {}
        for partition, holders in self.several.items():
            homes = tuple(name for name in holders if partition.queue in subscribed[name])
            if len(homes) == 1:
                column = alone.setdefault(partition.queue, [None] * len(self.alone[partition.queue]))
                column[partition.number] = homes[0]
            elif homes:
                several[partition] = homes
        return alone, several


def holdings(request: Request) -> Holdings:
    """The holders of all claimed partitions, without claims on partitions that do not exist."""
    owned_by = {name: PartitionList.of(request.members[name].owned) for name in sorted(request.members)}
    newest: dict[QueueName, list[MemberId | None]] = {}
    several: dict[Partition, list[MemberId]] = {}
    doubtful: set[MemberId] = set()
    for name, owned in owned_by.items():
        for queue, number in owned.pairs():
            column = newest.get(queue)
            if column is None:
                column = newest[queue] = [None] * request.queues.get(queue, 0)
            if not 0 <= number < len(column):
                doubtful.add(name)
                continue
            before = column[number]
            if before is None:
                column[number] = name
                continue
            partition = Partition(queue, number)
            earlier, later = request.members[before].generation, request.members[name].generation
            if later > earlier:
                doubtful.update(several.pop(partition, (before,)))
                column[number] = name
            elif later == earlier:
                several.setdefault(partition, [before]).append(name)
            else:
                doubtful.add(name)
    for (queue, number), names in several.items():
        newest[queue][number] = None
        doubtful.update(names)
    return Holdings(owned_by, newest, {partition: tuple(names) for partition, names in several.items()}, frozenset(doubtful))


def holders(request: Request) -> dict[Partition, tuple[MemberId, ...]]:
    """The holders of each claimed partition, sorted; nearly always one."""
    found = holdings(request)
    return {partition: (name,) for partition, name in found.held_alone(found.alone)} | dict(found.several)


# The zones of partitions (Kafka's racks, KIP-881)


NOWHERE: frozenset[str] = frozenset()


def zones_of(request: Request, partition: Partition) -> frozenset[str]:
    """The zones with a replica of the partition; empty if the request has none."""
    zones = request.zones.get(partition.queue)
    return zones[partition.number] if zones is not None else NOWHERE


# Dealing in turn, by slices instead of one by one.


Taker = TypeVar("Taker")


def in_rounds(wants: Mapping[Taker, int]) -> Iterable[tuple[Taker, slice]]:
    """Deal one item per round to each taker, in this order, until each has as many as it wants (at least 1). Yields takers with
    slices of the items.

    A slice covers all rounds with the same takers, so a taker may appear several times.
    """
    first = done = 0
    takers: Sequence[Taker] = list(wants)
    for rounds in sorted(set(wants.values())):
        takers = [taker for taker in takers if wants[taker] > done]
        last = first + len(takers) * (rounds - done)
        for place, taker in enumerate(takers, first):
            yield taker, slice(place, last, len(takers))
        first, done = last, rounds


# Assignors that divide each queue separately, like RocketMQ's and Runnel's.
#
# If a queue does not divide evenly, its first readers get more. With several queues, the same members get more of each.


Deal = Callable[[QueueName, Sequence[int], Sequence[MemberId]], Iterable[Sequence[int]]]
"""Divides a queue, given its partitions' numbers (ascending) and its readers (at least one): returns the numbers of each reader
(ascending), in the order of readers. It may omit trailing readers that get nothing."""


def queue_by_queue(request: Request, order: Sequence[MemberId], deal: Deal) -> Answer:
    """Divide each queue among its readers by `deal`. `order` has all members."""
    subscribed = readable(request)
    queues: dict[MemberId, list[QueueName]] = {name: [] for name in request.members}
    numbers: dict[MemberId, list[int]] = {name: [] for name in request.members}
    names: dict[tuple[int, ...], Sequence[MemberId]] = {}
    for queue, places in readers([subscribed[name] for name in order]).items():
        if not request.queues[queue]:
            continue
        if places not in names:
            names[places] = [order[place] for place in places]
        for name, dealt in zip(names[places], deal(queue, range(request.queues[queue]), names[places]), strict=False):
            queues[name] += [queue] * len(dealt)
            numbers[name] += dealt
    return Answer({name: PartitionList(tuple(queues[name]), tuple(numbers[name])) for name in request.members})


def in_runs(_: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
    """A `Deal`: each reader gets consecutive numbers. If they do not divide evenly, the first readers get one more."""
    floor, longer = divmod(len(numbers), len(readers))
    for place in range(len(readers) if floor else longer):
        first = floor * place + min(place, longer)
        yield numbers[first : first + floor + (place < longer)]


# The declaration of an assignor


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties that the engine relies on: it checks traits, never names. An installed assignor has none.

    `docs/concepts/assignors.md` has a row for each field, with its source.
    """

    balances: bool = False
    """Answers are balanced: even totals first, then each queue. So the engine can tell by counting whether partitions must
    move. Source: Solace checks the balance before it hands off."""
    gives_up_highest: bool = False
    """A member gives up its highest numbers first. So the engine gives the highest numbers to partitions in hand-off, and their
    hand-offs continue. Source: Baton; Solace specifies no order."""
    leaves_out: Callable[[Mapping[str, object], frozenset[str]], bool] | None = None
    """Whether a partition with replicas in these zones gets no owner, with these options; the engine then waits for none.
    None: every partition gets an owner. Source: RocketMQ's AllocateMessageQueueByMachineRoom."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an assignor."""

    kind: Any
    """The type of its value, for pydantic."""
    missing: str = ""
    """Why it is required; empty: it is optional."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """An assignor, declared in its module and listed by the registry."""

    name: str
    """As in `spec.assignors`."""
    assign: Assignor
    source: str
    """The origin of the algorithm."""
    good_at: str
    costs: str = ""
    """Both are Markdown, for `docs/concepts/assignors.md`."""
    traits: Traits = Traits()
    deal: Callable[[Request], Deal] | None = None
    """Returns the division of single queues, by the request's options and zones. None: it plans all queues together."""
    options: Callable[[Mapping[str, object]], Mapping[str, Option]] = lambda _: {}
    """Returns the options that exist, by name, given those of the request. Raises RequestError."""
    check: Callable[[Request], None] = lambda _: None
    """Raises RequestError for a request without something that the assignor needs."""
