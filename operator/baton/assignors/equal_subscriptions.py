"""The sticky assignor where all members read the same queues (Kafka's constrained assignment)."""

from collections import deque
from collections.abc import Mapping, Sequence

from baton.assignors.request import Request
from baton.assignors.zones import Nearness
from baton.model.ids import MemberId, Partition


def share_equally(
    request: Request, partitions: Sequence[Partition], held: Mapping[Partition, MemberId], nearness: Nearness
) -> dict[MemberId, list[Partition]]:
    """Totals within one; what each member holds stays up to its share; the rest is dealt out by name.

    Where zones matter, a member keeps only what is near to it, and partitions go to near members first. Kafka leaves the order of
    members that keep the greater share to a HashMap; here it is by name.
    """
    return _Deal(request, partitions, held, nearness).run()


class _Deal:
    def __init__(
        self, request: Request, partitions: Sequence[Partition], held: Mapping[Partition, MemberId], nearness: Nearness
    ) -> None:
        self._partitions = partitions
        self._nearness = nearness
        self._floor, self._greater = divmod(len(partitions), len(request.members))
        """What everybody has at least, and how many members may still have one more."""
        self._ceiling = self._floor + (self._greater > 0)
        self._hands: dict[MemberId, list[Partition]] = {name: [] for name in sorted(request.members)}
        self._wanting: list[MemberId] = []
        """Below the floor."""
        self._eager: deque[MemberId] = deque()
        """At the floor, and may have one more."""
        self._held: dict[MemberId, list[Partition]] = {name: [] for name in self._hands}
        for partition, name in held.items():
            self._held[name].append(partition)

    def run(self) -> dict[MemberId, list[Partition]]:
        for name, partitions in self._held.items():
            self._keep(name, sorted(partitions, key=lambda partition: (partition.number, partition.queue)))
        kept = {partition for hand in self._hands.values() for partition in hand}
        free = self._nearness.rarest_first(partition for partition in self._partitions if partition not in kept)
        if self._nearness.matters:
            free = self._deal_near(free)
        self._deal(free)
        return self._hands

    def _keep(self, name: MemberId, partitions: list[Partition]) -> None:
        mine = [partition for partition in partitions if not self._nearness.far(name, partition)]
        if len(mine) < self._floor:
            self._wanting.append(name)
        elif len(mine) >= self._ceiling and self._greater:
            self._one_more_is_great()
            del mine[self._ceiling :]
        else:
            del mine[self._floor :]
            if self._greater:
                self._eager.append(name)
        self._hands[name] = mine

    def _one_more_is_great(self) -> None:
        self._greater -= 1
        if not self._greater:
            self._eager.clear()

    def _deal_near(self, free: Sequence[Partition]) -> list[Partition]:
        """In turn to those below the floor, else to those at it, near members only; returns what could not be dealt so."""
        turn = 0
        rest: list[Partition] = []
        for partition in free:
            place = self._next_near(partition, self._wanting, turn)
            if place is not None:
                name = self._wanting[place]
                self._hands[name].append(partition)
                if len(self._hands[name]) >= self._floor:
                    del self._wanting[place]
                    if len(self._hands[name]) < self._ceiling and self._greater:
                        self._eager.append(name)
                else:
                    place += 1
                turn = place % len(self._wanting) if self._wanting else 0
                continue
            place = self._next_near(partition, self._eager, 0)
            if place is None:
                rest.append(partition)
                continue
            name = self._eager[place]
            self._hands[name].append(partition)
            del self._eager[place]
            self._one_more_is_great()
        return rest

    def _next_near(self, partition: Partition, names: Sequence[MemberId], first: int) -> int | None:
        places = (place % len(names) for place in range(first, first + len(names)))
        return next((place for place in places if self._nearness.near(names[place], partition)), None)

    def _deal(self, free: Sequence[Partition]) -> None:
        """In rounds to those below the floor, then one each to those at it."""
        turn = 0
        for partition in free:
            if self._wanting:
                turn %= len(self._wanting)
                name = self._wanting[turn]
                self._hands[name].append(partition)
                if len(self._hands[name]) == self._floor:
                    del self._wanting[turn]
                    self._eager.append(name)
                else:
                    turn += 1
            else:
                self._hands[self._eager.popleft()].append(partition)
