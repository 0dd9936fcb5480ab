"""Whatever stands in a ConfigMap of 1 MiB: it is read or refused, within bounds, and what is read can be worked with."""

import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.engine import GroupState, LedgerError, dump, load, partition_states, step, summary
from baton.engine.ledger import MOST_PARTITIONS
from baton.engine.state import KnownMember, KnownQueue, PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from tests.unit.engine.group import Group
from tests.unit.engine.test_ledger import NASTY, busy, places

CONFIG_MAP = 1024 * 1024
BUSY = dump(busy())
TREE = json.loads(BUSY["group"])
MEMBER = json.loads(BUSY["a"])


def ledger(**group: Any) -> dict[str, str]:
    return {**BUSY, "group": json.dumps({**TREE, **group})}


def entry(name: str, **change: Any) -> str:
    return json.dumps({**MEMBER, "member": name, **change})


def fill(one: str) -> int:
    """How many of it fit."""
    return (CONFIG_MAP - 2000) // (len(one) + 2)


ALL, EVERYTHING = "0-999999", "0-999999@1"
BOMBS: dict[str, Callable[[], dict[str, str]]] = {
    "one queue": lambda: ledger(queues={"orders": {"partitions": 10**9}}),
    "many queues": lambda: ledger(queues={f"q{n}": {"partitions": MOST_PARTITIONS} for n in range(25_000)}),
    "free": lambda: ledger(free=[{"of": {"orders": EVERYTHING}}] * fill('{"of": {"orders": "0-999999@1"}}')),
    "free in many queues": lambda: ledger(free=[{"of": {f"q{n}": EVERYTHING for n in range(40_000)}}]),
    "ended": lambda: ledger(free=[{"of": {}, "ended": {f"q{n}": EVERYTHING for n in range(40_000)}}]),
    "moves": lambda: ledger(moves=[{"to": {f"m{n}": {"orders": EVERYTHING} for n in range(25_000)}}]),
    "waiting": lambda: ledger(waiting={f"m{n}": {"orders": ALL} for n in range(30_000)}),
    "origins": lambda: ledger(origins=[{"of": {"orders": ALL}}] * 30_000),
    "epoch_tombstones": lambda: ledger(epoch_tombstones={f"q{n}": EVERYTHING for n in range(40_000)}),
    "unreleased": lambda: ledger(unreleased=[{"member": "a", "uid": "u", "of": {f"q{n}": EVERYTHING for n in range(40_000)}}]),
    "proposal": lambda: ledger(
        proposal={"id": "1", "why": "", "created": 0, "to": {f"m{n}": {"orders": ALL} for n in range(28_000)}}
    ),
    "member_slots": lambda: ledger(member_slots=[{"member": "a", "uid": "u", "vacated": {"orders": ALL}}] * 14_000),
    "members": lambda: {**BUSY, **{f"m{n}": entry(f"m{n}", owned={"orders": EVERYTHING}) for n in range(6_000)}},
    "one member": lambda: {**BUSY, "a": entry("a", owned={f"q{n}": EVERYTHING for n in range(40_000)})},
    "what a member gives": lambda: {**BUSY, "a": entry("a", owned={}, revoking={f"q{n}": EVERYTHING for n in range(40_000)})},
    "a capacity": lambda: ledger(capacities={"a": "1e999999999"}),
    "a fraction": lambda: ledger(capacities={"a": "1/" + "9" * 500_000}),
    "a number": lambda: {**BUSY, "group": '{"version":' + "9" * 900_000 + "}"},
    "depth": lambda: {**BUSY, "group": '{"a":' * 150_000},
    "depth of a member": lambda: {**BUSY, "a": "[" * 900_000},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_few_characters_do_not_become_a_billion_partitions(name: str) -> None:
    bomb = BOMBS[name]()
    assert sum(map(len, bomb.values())) <= CONFIG_MAP
    tracemalloc.start()
    try:
        with pytest.raises(LedgerError):
            load(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * 1024 * 1024, f"{peak:,} bytes"


def test_the_largest_group_can_be_read() -> None:
    orders, a, b = QueueName("orders"), MemberId("a"), MemberId("b")
    owners = [a, b] * (MOST_PARTITIONS // 2)
    state = GroupState(
        group="shop/orders",
        queues={orders: KnownQueue(MOST_PARTITIONS)},
        records={
            Partition(orders, number): PartitionRecord(Epoch(1), owner, owner) for number, owner in enumerate(sorted(owners))
        },
        known={a: KnownMember(Uid("uid-a"), active=True), b: KnownMember(Uid("uid-b"), active=True)},
    )
    assert load(dump(state)) == state


def works(state: GroupState) -> None:
    """Everything that the operator does with a state that it has read, for a while and in the end."""
    for partitions, joined in ((20, ("a", "b", "c", "d")), (20, ("c",)), (0, ())):
        group = Group(partitions)
        group.join(*joined)
        for now in (14.0, 16.0, 30.0, 1e9):
            state = step(state, group.observe(), now).state
            summary(state)
            partition_states(state)
            assert load(dump(state)) == state


def read(data: dict[str, str]) -> None:
    try:
        state = load(data)
    except LedgerError as error:
        assert str(error)
    else:
        works(state)


@settings(max_examples=400)
@given(st.randoms(use_true_random=False))
def test_what_is_moved_about_in_it_is_refused_or_works(rng: random.Random) -> None:
    """Subtrees are put in the place of others, doubled, or left out: what is of the right kind, and in the wrong place."""
    trees = {key: json.loads(text) for key, text in BUSY.items()}
    for _ in range(rng.randint(1, 4)):
        tree = trees[rng.choice(sorted(trees))]
        paths = [path for path in places(tree) if path]
        into, out = rng.choice(paths), rng.choice(paths)
        value = at(tree, out) if rng.random() < 0.8 else rng.choice(NASTY)
        holder, key = at(tree, into[:-1]), into[-1]
        match rng.randrange(3):
            case 0:
                holder[key] = json.loads(json.dumps(value))
            case 1 if isinstance(holder, list):
                holder.append(json.loads(json.dumps(at(tree, into))))
            case _:
                del holder[key]
    read({key: json.dumps(tree) for key, tree in trees.items()})


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


@settings(max_examples=200)
@given(st.sampled_from(sorted(BUSY)), st.text(max_size=200))
def test_any_text_is_refused_or_works(key: str, text: str) -> None:
    read({**BUSY, key: text})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a", "orders", "0-3@1", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.sampled_from(["a", "orders"]), inner),
    max_leaves=8,
)


@settings(max_examples=400)
@given(
    st.sampled_from(
        sorted(
            {*TREE, "group", "epoch_tombstones", "queue_tombstones", "unreleased"}
            | {"proposal", "fenced", "victims", "scale", "capacities"}
        )
    ),
    JSON,
)
def test_any_json_in_any_field_is_refused_or_works(field: str, value: Any) -> None:
    read(ledger(**{field: value}))


@settings(max_examples=200)
@given(st.sampled_from(sorted(MEMBER)), JSON)
def test_any_json_in_any_field_of_a_member_is_refused_or_works(field: str, value: Any) -> None:
    read({**BUSY, "a": json.dumps({**MEMBER, field: value})})
