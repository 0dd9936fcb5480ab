"""Baton's own assignor, compared with all assignments, and with what a solver finds."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from baton.assignors import AssignorError, Member, Request, get
from baton.assignors.own.counts import MOST_HOPS, CountTable, _Settling, grouped, level, settle
from baton.model import MemberId, Partition, QueueName
from tests.ids import a_partition, a_request, reading
from tests.unit.assignors.worlds import ZONES, all_partitions, holders


def least_cost(costs: Sequence[Sequence[int]]) -> int:
    """The least cost of giving every row a different column. There must be at least as many columns as rows."""
    rows, columns = len(costs), len(costs[0]) if costs else 0
    infinity = 1 + 2 * sum(max(row) for row in costs)
    row_price, column_price = [0] * (rows + 1), [0] * (columns + 1)
    row_of, before = [0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_of[0] = row
        at, slack, done = 0, [infinity] * (columns + 1), [False] * (columns + 1)
        while row_of[at]:
            done[at] = True
            prices, here = costs[row_of[at] - 1], row_price[row_of[at]]
            least, following = infinity, 0
            for column in range(1, columns + 1):
                if not done[column]:
                    reduced = prices[column - 1] - here - column_price[column]
                    if reduced < slack[column]:
                        slack[column], before[column] = reduced, at
                    if slack[column] < least:
                        least, following = slack[column], column
            for column in range(columns + 1):
                if done[column]:
                    row_price[row_of[column]] += least
                    column_price[column] -= least
                else:
                    slack[column] -= least
            at = following
        while at:
            row_of[at] = row_of[before[at]]
            at = before[at]
    return -column_price[0]


minimal = get("minimal")
ORDERS = reading("orders")
ONE = Fraction(1)


def a_group(dice: Random, members: int, partitions: int, weighty: bool = False) -> Request:
    """Some queues of `partitions` partitions together; some read all, some claims are old or contested, zones for some."""
    cut = sorted(dice.randint(0, partitions) for _ in range(dice.randint(0, 2)))
    ends = zip([0, *cut], [*cut, partitions], strict=True)
    queues = {QueueName(f"q{place}"): end - start for place, (start, end) in enumerate(ends)}
    names = [MemberId(f"m{place}") for place in range(members)]
    alike, contested, zoned, unequal = (dice.random() < chance for chance in (0.4, 0.3, 0.5, 0.4))
    reads = {name: frozenset(queue for queue in queues if alike or dice.random() < 0.6) for name in names}
    owned: dict[MemberId, list[Partition]] = {name: [] for name in names}
    for partition in all_partitions(queues):
        claimants = [name for name in names if partition.queue in reads[name] or dice.random() < 0.2]
        if dice.random() < 0.8 and claimants:
            for name in dice.sample(claimants, min(len(claimants), 2 if contested and dice.random() < 0.4 else 1)):
                owned[name].append(partition)
    group = {
        name: Member(
            subscribed=reads[name],
            owned=tuple(owned[name]),
            generation=dice.choice([1, 2]) if contested else 1,
            zone=dice.choice([None, *ZONES]) if zoned else None,
            rank=dice.randint(0, 3),
            capacity=dice.choice([ONE, 2 * ONE, 3 * ONE, ONE / 2, 3 * ONE / 2]) if unequal else ONE,
        )
        for name in names
    }
    zones = {q: tuple(frozenset(dice.sample(ZONES, dice.randint(0, 2))) for _ in range(size)) for q, size in queues.items()}
    loads = [Fraction(text) for text in ("0", "1", "1", "2", "3", "5", "0.5", "1.7")]
    weights = {q: tuple(dice.choice(loads) for _ in range(size)) for q, size in queues.items() if dice.random() < 0.8}
    return Request(queues, group, zones if zoned else {}, {}, weights if weighty else {})


class Prices:
    """What the law says an assignment costs, from the request alone."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.before = holders(request)
        read = frozenset().union(*(member.subscribed for member in request.members.values()))
        self.partitions = [partition for partition in all_partitions(request.queues) if partition.queue in read]
        self.weightless = not any(map(self._given_weight, self.partitions))

    def _given_weight(self, partition: Partition) -> Fraction:
        weights = self.request.weights.get(partition.queue)
        return weights[partition.number] if weights else ONE

    def weight(self, partition: Partition) -> Fraction:
        return ONE if self.weightless else self._given_weight(partition)

    def moved(self, partition: Partition, name: MemberId) -> bool:
        return name not in self.before.get(partition, (name,))

    def far(self, partition: Partition, name: MemberId) -> bool:
        home = self.request.members[name].zone
        zones = self.request.zones.get(partition.queue)
        return bool(home and zones and zones[partition.number] and home not in zones[partition.number])

    def cost(self, owners: Mapping[Partition, MemberId]) -> tuple[Fraction, int, int]:
        loads: dict[MemberId, Fraction] = {}
        for partition, name in owners.items():
            loads[name] = loads.get(name, Fraction(0)) + self.weight(partition)
        return (
            sum((load**2 / self.request.members[name].capacity for name, load in loads.items()), Fraction(0)),
            sum(self.moved(partition, name) for partition, name in owners.items()),
            sum(self.far(partition, name) for partition, name in owners.items()),
        )

    def readers(self, partition: Partition) -> list[MemberId]:
        return [name for name, member in self.request.members.items() if partition.queue in member.subscribed]

    def least(self) -> tuple[Fraction, int, int]:
        """By trying every assignment there is."""
        choices = product(*map(self.readers, self.partitions))
        return min(self.cost(dict(zip(self.partitions, names, strict=True))) for names in choices)

    def least_of_slots(self) -> tuple[Fraction, int, int]:
        """As an assignment problem: the n-th slot of a member costs what the n-th partition adds to its load² / capacity."""
        slots = [(name, n) for name in self.request.members for n in range(len(self.partitions))]
        uneven = {(name, n): Fraction(2 * n + 1) / self.request.members[name].capacity for name, n in slots}
        parts = 1
        for price in uneven.values():
            parts *= price.denominator if parts % price.denominator else 1
        worth = len(self.partitions) + 1
        highest = 1 + max((int(price * parts) * worth**2 for price in uneven.values()), default=0) * (len(self.partitions) + 1)
        costs = [
            [
                int(uneven[name, n] * parts) * worth**2 + self.moved(partition, name) * worth + self.far(partition, name)
                if name in self.readers(partition)
                else highest
                for name, n in slots
            ]
            for partition in self.partitions
        ]
        total, far = divmod(least_cost(costs), worth)
        total, moves = divmod(total, worth)
        return Fraction(total, parts), moves, far


@pytest.mark.parametrize("hundred", range(20))
def test_minimal_is_optimal_in_small_groups(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        dice = Random(seed)
        request = a_group(dice, members=dice.randint(1, 4), partitions=dice.randint(0, 6))
        prices = Prices(request)
        assert prices.cost(minimal(request).owners()) == prices.least(), seed


@pytest.mark.parametrize("hundred", range(10))
def test_minimal_is_optimal_in_small_weighted_groups(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        dice = Random(seed)
        request = a_group(dice, members=dice.randint(1, 4), partitions=dice.randint(0, 5), weighty=True)
        prices = Prices(request)
        assert prices.cost(minimal(request).owners()) == prices.least(), seed


@pytest.mark.parametrize("seed", range(60))
def test_minimal_is_optimal_in_medium_groups(seed: int) -> None:
    dice = Random(seed)
    request = a_group(dice, members=dice.randint(3, 12), partitions=dice.randint(15, 60))
    prices = Prices(request)
    assert prices.cost(minimal(request).owners()) == prices.least_of_slots()


def group(size: int, weights: Sequence[str] = (), /, **members: Member) -> Request:
    return a_request({"orders": size}, members, weights={"orders": tuple(map(Fraction, weights))} if weights else {})


def numbers(request: Request) -> dict[str, list[int]]:
    return {name: [partition.number for partition in hand] for name, hand in minimal(request).assignment.items()}


def test_from_nothing_the_queues_are_spread_too() -> None:
    both = reading("p", "q")
    answer = minimal(a_request({"p": 4, "q": 4}, {"a": Member(both), "b": Member(both)}))
    assert {sum(one.queue == "p" for one in hand) for hand in answer.assignment.values()} == {2}


def test_without_weight_the_number_of_partitions_counts() -> None:
    assert numbers(group(4, ["0"] * 4, a=Member(ORDERS), b=Member(ORDERS))) == {"a": [0, 2], "b": [1, 3]}


def test_a_weighted_group_that_is_too_large_to_search_through_is_nearly_even() -> None:
    dice = Random(7)
    weights = {"orders": tuple(Fraction(dice.randint(1, 1000)) for _ in range(500))}
    members = {f"m{place}": Member(ORDERS) for place in range(50)}
    answer = minimal(a_request({"orders": 500}, members, weights=weights))
    loads = [sum(weights["orders"][partition.number] for partition in hand) for hand in answer.assignment.values()]
    assert max(loads) - min(loads) <= sum(loads) / len(loads) / 100


def of_many_kinds(members: int, kinds: int) -> Request:
    """Each partition is near to other zones than the next one, and half of the members have all."""
    dice = Random(1)
    zones = [f"z{place}" for place in range(members)]
    near = tuple(frozenset(dice.sample(zones, min(8, members))) for _ in range(kinds))
    owned: list[list[Partition]] = [[] for _ in zones]
    for number in range(kinds):
        owned[dice.randrange(members // 2)].append(a_partition("orders", number))
    group = {zone: Member(ORDERS, tuple(mine), zone=zone) for zone, mine in zip(zones, owned, strict=True)}
    return a_request({"orders": kinds}, group, {"orders": near})


def test_a_longer_search_finds_fewer_moves() -> None:
    tables, left = [], []
    for hops in (0, 100_000, MOST_HOPS):
        table = CountTable(grouped(of_many_kinds(16, 256)))
        level(table)
        left.append(settle(table, hops))
        tables.append(table)
    assert left[:2] == [0, 0] and left[2] > 0
    assert {tuple(sorted(table.load)) for table in tables} == {(16,) * 16}
    for table in tables:
        sizes = [len(kind.partitions) for kind in table.group.kinds]
        assert [sum(table.count[arc] for arc in arcs) for arcs in table.of_kind] == sizes
    moves = [sum(max(0, count - held) for count, held in zip(table.count, table.held, strict=True)) for table in tables]
    mismatches = [sum(count for count, far in zip(table.count, table.far, strict=True) if far) for table in tables]
    costs = list(zip(moves, mismatches, strict=True))
    assert costs[0] > costs[1] > costs[2]


def test_a_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    request, looked_at, next_ = of_many_kinds(16, 1024), 0, _Settling._next

    def counted(self: _Settling, *where: int) -> Sequence[tuple[int, int, int]]:
        nonlocal looked_at
        found = next_(self, *where)
        looked_at += len(found)
        return found

    monkeypatch.setattr(_Settling, "_next", counted)
    table = CountTable(grouped(request))
    level(table)
    settle(table, 500_000)
    arcs = len(table.kind)
    assert 500_000 <= looked_at <= 500_000 + 4 * arcs


def test_too_many_kinds_of_partitions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.assignors.own.minimal.MOST_ARCS", 16 * 64 - 1)
    with pytest.raises(
        AssignorError, match=r"64 kinds of partitions .* 1,024 in all, more than 1,023: .* spec.partitionAttributes"
    ):
        minimal(of_many_kinds(16, 64))
    assert len(minimal(of_many_kinds(16, 63)).assignment) == 16
