"""Whatever happens to a fleet, nobody is harmed, and in the end everybody is served.

The fleet checks after every single step: no partition has two owners, epochs only grow, no epoch is meant for two, every revoke
has a deadline, the ledger reads back as it was written, the same observation twice changes nothing, and the order in which
things were learnt does not matter. See `tests/simulation/fleet.py`.
"""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.simulation.fleet import Fleet

from baton.engine import State, summary
from baton.engine.observation import GroupSpec, ObservedQueue, OnDeadline, Protocol, ScaleMode
from baton.model.ids import MemberId, QueueName

NAMES = st.sampled_from("abcdef")
SOME = st.integers(0, 2**12 - 1)
"""A subset, bit by bit: which effects are carried out, which consumers release."""

OPERATIONS = st.one_of(
    st.tuples(st.just("join"), NAMES, SOME),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("terminate"), NAMES),
    st.tuples(st.just("scale"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1, 2, 3, 5])),
    st.tuples(st.just("work")),
    st.tuples(st.just("let go"), SOME),
    st.tuples(st.just("crash"), SOME),
    st.tuples(st.just("half a cycle"), SOME),
    st.tuples(st.just("a write fails")),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("replicas"), st.integers(1, 5)),
    st.tuples(st.just("request"), SOME),
    st.tuples(st.just("subscribe"), NAMES, st.sampled_from([None, "orders", "pay"])),
    st.tuples(st.just("exclusive")),
    st.tuples(st.just("lose the ledger")),
    st.tuples(st.just("restart the server"), SOME),
)

QUEUES = st.builds(
    ObservedQueue,
    partitions=st.integers(1, 8),
    exclusive=st.integers(0, 9).map(lambda n: n == 0),
    fenced=st.integers(0, 5).map(lambda n: n > 0),
    max_handoff=st.sampled_from([0.0, 1.0, 3.0]),
    on_deadline=st.sampled_from(OnDeadline),
    incarnation=st.just("first"),
)

SPECS = st.builds(
    GroupSpec,
    assignors=st.sampled_from([("solace",), ("solace",), ("solace",), ("range",), ("cooperative-sticky",)]),
    protocol=st.sampled_from([Protocol.COOPERATIVE, Protocol.COOPERATIVE, Protocol.EAGER]),
    delay=st.sampled_from([0.0, 2.0, 5.0]),
    max_concurrent_handoffs=st.sampled_from([0, 0, 1, 2]),
    session_timeout=st.sampled_from([0.0, 0.0, 10.0]),
    scale_mode=st.sampled_from([None, None, None, ScaleMode.WORKLOAD, ScaleMode.SPARK]),
)


def chosen(things: list, mask: int) -> list:
    return [thing for n, thing in enumerate(things) if mask >> (n % 12) & 1]


def play(fleet: Fleet, operation: tuple) -> None:
    match operation:
        case ("join", name, mask):
            if MemberId(name) not in fleet.members:
                static = fleet.spec.session_timeout > 0 and mask & 3
                instance = f"i{'abcdef'[mask % 6] if mask & 16 else name}" if static else None
                fleet.join(name, instance=instance)
        case ("leave", name):
            fleet.leave(name)
        case ("terminate", name):
            fleet.terminate(name)
        case ("scale", partitions):
            fleet.scale("orders", partitions)
        case ("wait", seconds):
            fleet.pass_time(seconds)
        case ("work",):
            fleet.work()
            fleet.bury()
        case ("let go", mask):
            fleet.let_go(chosen(list(fleet.members), mask))
        case ("crash", mask):
            half_a_cycle(fleet, mask)
            fleet.die()
        case ("half a cycle", mask):
            half_a_cycle(fleet, mask)
        case ("a write fails",):
            fleet.restart()
            fleet.think()
            fleet.die()
        case ("pause", paused):
            fleet.spec = replace(fleet.spec, paused=paused)
        case ("replicas", replicas):
            if fleet.spec.scale_mode is not None:
                fleet.spec = replace(fleet.spec, replicas=replicas)
        case ("request", number):
            fleet.request = str(number)
        case ("subscribe", name, queue):
            if MemberId(name) in fleet.members and len(fleet.queues) > 1:
                wanted = None if queue is None else frozenset({QueueName(queue)})
                fleet.members[MemberId(name)] = replace(fleet.members[MemberId(name)], subscribed=wanted)
        case ("exclusive",):
            queue = fleet.queues[QueueName("orders")]
            fleet.queues[QueueName("orders")] = replace(queue, exclusive=not queue.exclusive)
        case ("lose the ledger",):
            fleet.lose_ledger()
        case ("restart the server", mask):
            fleet.restart_server(chosen(sorted(fleet.records), mask), incarnation=f"again {fleet.now} {mask}")


def half_a_cycle(fleet: Fleet, mask: int) -> None:
    """The ledger is written, and only some of the effects are carried out."""
    fleet.restart()
    done = fleet.think()
    assert done is not None
    fleet.write(done)
    fleet.carry_out(chosen(list(done.effects), mask))


@settings(max_examples=400)
@given(SPECS, QUEUES, st.none() | QUEUES, st.lists(OPERATIONS, max_size=40))
def test_whatever_happens_nobody_is_harmed_and_everybody_is_served(
    spec: GroupSpec, orders: ObservedQueue, pay: ObservedQueue | None, life: list[tuple]
) -> None:
    queues = {QueueName("orders"): orders}
    if pay is not None:
        queues[QueueName("pay")] = pay
    fleet = Fleet(spec=spec, queues=queues)
    for operation in life:
        play(fleet, operation)
    fleet.spec = replace(fleet.spec, paused=False)
    fleet.calm_down()


MEMBERSHIP = st.one_of(
    st.tuples(st.just("join"), NAMES, st.just(0)),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("terminate"), NAMES),
    st.tuples(st.just("scale"), st.integers(1, 12)),
    st.tuples(st.just("subscribe"), NAMES, st.sampled_from([None, "orders", "pay"])),
)


@settings(max_examples=200)
@given(
    st.lists(st.lists(MEMBERSHIP, min_size=1, max_size=4), max_size=8),
    st.sampled_from([0, 1, 3]),
    st.none() | st.builds(ObservedQueue, st.integers(0, 6), exclusive=st.booleans()),
    st.sampled_from(Protocol),
)
@example([[("join", "a", 0)], [("join", "b", 0), ("join", "c", 0)], [("leave", "a")]], 0, None, Protocol.COOPERATIVE)
def test_solace_never_moves_more_than_the_lower_bound(
    batches: list[list[tuple]], bound: int, pay: ObservedQueue | None, protocol: Protocol
) -> None:
    fleet = Fleet(spec=GroupSpec(max_concurrent_handoffs=bound, protocol=protocol))
    if pay is not None:
        fleet.queues[QueueName("pay")] = pay
    for batch in batches:
        for operation in batch:
            play(fleet, operation)
        fleet.calm_down()
        assert fleet.operator is not None
        totals = fleet.operator.totals
        assert totals.moves == totals.lower_bound == fleet.moves


@settings(max_examples=200)
@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.lists(NAMES, max_size=4, unique=True), st.integers(1, 12))
def test_a_fleet_that_is_back_within_the_delay_has_moved_nothing(first: list[str], gone: list[str], partitions: int) -> None:
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
        assert {p: s.owner for p, s in fleet.operator.slots.items()} == {p: s.owner for p, s in before.slots.items()}


@settings(max_examples=200)
@given(st.lists(MEMBERSHIP, min_size=1, max_size=5), st.lists(st.tuples(SOME, st.sampled_from([0, 0.5, 3])), max_size=8))
def test_partitions_that_do_not_move_are_never_paused(life: list[tuple], faults: list[tuple[int, float]]) -> None:
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
        leaving = {p for p, move in fleet.operator.moves.items() if move.receiver != fleet.operator.slots[p].owner}
        assert revoking <= leaving
