"""What a calm fleet may count on: fewest moves, none for a fleet that is back in time, no pause for what stays. Hypothesis finds
the smallest fleet in which it does not hold. What holds in any trouble is in test_seeds.py.
"""

from collections.abc import Iterable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from baton.api.group import Protocol
from baton.engine import Grant
from baton.engine.observation import Outcome
from baton.simulation import parse_scenario
from baton.simulation.run import Line
from tests.simulation.every_step import CheckedGroup, simulate_checked

CALM = 60.0
"""Seconds between two batches of operations: longer than any rebalance of these fleets takes."""
NAMES = st.sampled_from("abcdef")
MASK = st.integers(0, 2**12 - 1)
"""A subset, bit by bit: which grants are carried out."""

Operation = tuple[object, ...]
"""What happens, and the member: such as ("join", "a")."""
MEMBERSHIP = st.one_of(
    st.tuples(st.just("join"), NAMES),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("terminate"), NAMES),
    st.tuples(st.just("scale"), st.integers(1, 12)),
)
SUBSCRIPTION = st.tuples(st.just("subscribe"), NAMES, st.sampled_from([None, "orders", "pay"]))


class Story:
    """The events of a scenario. Members that are there do not join again, and others do not leave."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.there: dict[str, dict[str, Any]] = {}
        self.stopping: set[str] = set()

    def batch(self, at: float, operations: Iterable[Operation]) -> None:
        self.stopping.clear()
        for operation in operations:
            if (event := self._event(operation)) is not None:
                self.events.append({"at": at, **event})

    def _event(self, operation: Operation) -> dict[str, Any] | None:
        match operation:
            case ("join", str(name)) if name not in self.there and name not in self.stopping:
                self.there[name] = {"id": name, "uid": f"{name}-{len(self.events)}"}
                return {"join": [self.there[name]]}
            case ("leave", str(name)) if name in self.there:
                del self.there[name]
                return {"leave": [name]}
            case ("terminate", str(name)) if name in self.there:
                del self.there[name]
                self.stopping.add(name)
                return {"terminate": [name]}
            case ("subscribe", str(name), str() | None as queue) if name in self.there:
                queues = {} if queue is None else {"queues": [queue]}
                self.there[name] = {"id": name, "uid": self.there[name]["uid"], **queues}
                return {"join": [self.there[name]]}
            case ("scale", int(partitions)):
                return {"scale": {"orders": partitions}}
        return None


def lived(events: list[dict[str, Any]], until: float, queues: dict[str, Any] | None = None, **group: Any) -> Line:
    """Return the summary, and `grants_to_others`: the moves counted here."""
    rebalance = {"delaySeconds": 5, "maxHandoffSeconds": 3, **group.pop("rebalance", {})}
    whole = {"queues": queues or {"orders": 8}, "group": {"rebalance": rebalance, **group}, "events": events, "until": until}
    result, checks = simulate_checked(parse_scenario(whole))
    return {**result.summary, "grants_to_others": checks.moves}


@given(
    st.lists(st.lists(MEMBERSHIP | SUBSCRIPTION, min_size=1, max_size=4), max_size=8),
    st.sampled_from([0, 1, 3]),
    st.none() | st.tuples(st.integers(0, 6), st.sampled_from(["Exclusive", "NonExclusive"])),
    st.sampled_from(Protocol),
)
@example([[("join", "a")], [("join", "b"), ("join", "c")], [("leave", "a")]], 0, None, Protocol.COOPERATIVE)
def test_solace_never_moves_more_than_the_lower_bound(
    batches: list[list[Operation]], bound: int, pay: tuple[int, str] | None, protocol: Protocol
) -> None:
    queues: dict[str, Any] = {"orders": 8}
    if pay is not None:
        queues["pay"] = {"partitions": pay[0], "accessType": pay[1]}
    story = Story()
    for number, batch in enumerate(batches):
        story.batch(number * CALM, [one for one in batch if pay is not None or one[0] != "subscribe"])
    rebalance = {"maxConcurrentHandoffs": bound}
    summary = lived(story.events, CALM * (len(batches) + 1), queues, protocol=protocol.value, rebalance=rebalance)
    assert summary["moves"] == summary["grants_to_others"] == summary["lower_bound"]
    assert (summary["state"], summary["dual_ownership"], summary["epoch_regressions"]) == ("Ready", 0, 0)
    if story.there and pay is None:
        loads = [len(summary["assignment"].get(name, {}).get("orders", ())) for name in story.there]
        assert max(loads) - min(loads) <= 1


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.lists(NAMES, max_size=4, unique=True), st.integers(1, 12))
def test_a_fleet_that_is_back_within_the_delay_moves_nothing(first: list[str], gone: list[str], partitions: int) -> None:
    story = Story()
    story.batch(0.0, [("join", name) for name in first])
    before = lived(story.events, CALM, {"orders": partitions})
    story.batch(CALM, [("leave", name) for name in gone])
    story.batch(CALM + 3, [("join", name) for name in gone if name in first])
    after = lived(story.events, CALM + 4, {"orders": partitions})
    assert after["state"] == "Ready"
    if len(first) <= partitions:
        assert (after["moves"], after["assignment"]) == (0, before["assignment"])


@given(st.lists(MEMBERSHIP, min_size=1, max_size=5), st.lists(st.tuples(MASK, st.sampled_from([0, 0.5, 3])), max_size=8))
def test_partitions_that_do_not_move_are_never_paused(life: list[Operation], faults: list[tuple[int, float]]) -> None:
    """The ledger is written, and only some of the grants are carried out."""
    group = CheckedGroup(8).start("a", "b")
    for operation in life:
        match operation:
            case ("join", str(name)) if name not in group.members:
                group.join(name)
            case ("leave", str(name)) if name in group.members:
                group.leave(name)
            case ("terminate", str(name)) if name in group.members:
                group.terminate(name)
            case ("scale", int(partitions)):
                group.resize(partitions)
    group.settle(group.now + 5)
    outcomes: frozenset[Outcome] = frozenset()
    for mask, seconds in faults:
        done = group.step(group.now + seconds, outcomes)
        granted = [effect for effect in done.effects if isinstance(effect, Grant)]
        outcomes = frozenset(group.carry_out(grant) for place, grant in enumerate(granted) if mask >> (place % 12) & 1)
        moves, records = group.state.moves, group.state.records
        revoking = {partition for partition, move in moves.items() if move.giver is not None}
        leaving = {partition for partition, move in moves.items() if move.receiver != records[partition].owner}
        assert revoking <= leaving
