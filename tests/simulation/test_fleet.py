"""What a calm fleet may count on: fewest moves, none for who returns in time, no pause for what stays. Hypothesis finds the
smallest fleet in which it does not hold. What holds in any trouble is in test_seeds.py.
"""

from dataclasses import replace
from typing import TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from baton.api.group import GroupRebalance, Protocol
from baton.engine import State, summary
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.model.ids import MemberId, QueueName
from tests.simulation.fleet import Fleet

NAMES = st.sampled_from("abcdef")
SOME = st.integers(0, 2**12 - 1)
"""A subset, bit by bit: which effects are carried out, which consumers release."""

Operation = tuple[object, ...]
"""What happens, and the member: such as ("join", "a")."""
T = TypeVar("T")


def chosen(things: list[T], mask: int) -> list[T]:
    return [thing for n, thing in enumerate(things) if mask >> (n % 12) & 1]


def play(fleet: Fleet, operation: Operation) -> None:
    match operation:
        case ("join", str(name)):
            if MemberId(name) not in fleet.members:
                fleet.join(name)
        case ("leave", str(name)):
            fleet.leave(name)
        case ("terminate", str(name)):
            fleet.terminate(name)
        case ("scale", int(partitions)):
            fleet.scale("orders", partitions)
        case ("subscribe", str(name), str() | None as queue):
            if MemberId(name) in fleet.members and len(fleet.queues) > 1:
                wanted = None if queue is None else frozenset({QueueName(queue)})
                fleet.members[MemberId(name)] = replace(fleet.members[MemberId(name)], subscribed=wanted)
        case _:
            raise ValueError(operation)


def half_a_cycle(fleet: Fleet, mask: int) -> None:
    """The ledger is written, and only some of the effects are carried out."""
    fleet.restart()
    done = fleet.think()
    assert done is not None
    fleet.write(done)
    fleet.carry_out(chosen(list(done.effects), mask))


MEMBERSHIP = st.one_of(
    st.tuples(st.just("join"), NAMES),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("terminate"), NAMES),
    st.tuples(st.just("scale"), st.integers(1, 12)),
    st.tuples(st.just("subscribe"), NAMES, st.sampled_from([None, "orders", "pay"])),
)


@given(
    st.lists(st.lists(MEMBERSHIP, min_size=1, max_size=4), max_size=8),
    st.sampled_from([0, 1, 3]),
    st.none() | st.builds(ObservedQueue, st.integers(0, 6), exclusive=st.booleans()),
    st.sampled_from(Protocol),
)
@example([[("join", "a")], [("join", "b"), ("join", "c")], [("leave", "a")]], 0, None, Protocol.COOPERATIVE)
def test_solace_never_moves_more_than_the_lower_bound(
    batches: list[list[Operation]], bound: int, pay: ObservedQueue | None, protocol: Protocol
) -> None:
    fleet = Fleet(spec=GroupSpec(rebalance=GroupRebalance(max_concurrent_handoffs=bound), protocol=protocol))
    if pay is not None:
        fleet.queues[QueueName("pay")] = pay
    for batch in batches:
        for operation in batch:
            play(fleet, operation)
        fleet.calm_down()
        assert fleet.operator is not None
        totals = fleet.operator.totals
        assert totals.moves == totals.lower_bound == fleet.moves


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.lists(NAMES, max_size=4, unique=True), st.integers(1, 12))
def test_a_fleet_that_is_back_within_the_delay_moves_nothing(first: list[str], gone: list[str], partitions: int) -> None:
    fleet = Fleet(queues={QueueName("orders"): ObservedQueue(partitions)})
    for name in first:
        fleet.join(name)
    fleet.calm_down()
    before = fleet.operator
    assert before is not None
    for name in gone:
        fleet.leave(name)
    fleet.work()
    fleet.pass_time(3)
    for name in gone:
        if name in first:
            fleet.join(name)
    fleet.work()
    assert fleet.operator is not None
    assert summary(fleet.operator).state is State.READY
    if len(first) <= partitions:
        assert fleet.operator.totals.moves == before.totals.moves
        assert {p: s.owner for p, s in fleet.operator.records.items()} == {p: s.owner for p, s in before.records.items()}


@given(st.lists(MEMBERSHIP, min_size=1, max_size=5), st.lists(st.tuples(SOME, st.sampled_from([0, 0.5, 3])), max_size=8))
def test_partitions_that_do_not_move_are_never_paused(life: list[Operation], faults: list[tuple[int, float]]) -> None:
    fleet = Fleet()
    for name in "ab":
        fleet.join(name)
    fleet.calm_down()
    for operation in life:
        play(fleet, operation)
    fleet.pass_time(5)
    fleet.work()
    for mask, seconds in faults:
        half_a_cycle(fleet, mask)
        fleet.pass_time(seconds)
        assert fleet.operator is not None
        revoking = {p for p, move in fleet.operator.moves.items() if move.giver is not None}
        leaving = {p for p, move in fleet.operator.moves.items() if move.receiver != fleet.operator.records[p].owner}
        assert revoking <= leaving
