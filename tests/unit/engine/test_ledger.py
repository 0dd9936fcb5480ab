"""The ledger: written ledgers read back, and damaged ones are refused."""

import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.api.group import GroupRebalance
from baton.engine import GroupState, LedgerError, dump, load, partition_states, step, summary
from baton.engine.ledger import MOST_PARTITIONS
from baton.engine.observation import GroupSpec
from baton.engine.state import KnownMember, KnownQueue, PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from tests.unit.engine.group import Group, partition

# The ledger: what is written reads back, stays small, and nothing else is taken for one.


def busy() -> GroupState:
    """A group with everything in it: moves, waiting ones, orphans, a holddown, a static member's slot, a standby."""
    group = Group(20, GroupSpec(delay=2, session_timeout=30, rebalance=GroupRebalance(max_concurrent_handoffs=1)))
    group.join("a", instance="i0").join("b", instance="i1").start()
    group.now = 10
    group.join("c").settle(10)
    group.settle(12)
    group.leave("b").settle(13)
    group.resize(19).settle(13.5)
    group.join("d").settle(14)
    return group.state


def test_a_written_ledger_reads_back() -> None:
    state = busy()
    assert state.moves and state.waiting and state.holddown and state.rebalance
    assert any(slot.expires for slot in state.member_slots)
    assert load(dump(state)) == state


def test_a_ledger_without_the_last_owners_epoch_can_be_read() -> None:
    group = Group(2, GroupSpec(delay=2)).start("a", "b")
    group.step_aside("b").step(10)
    group.come_back("b").step(10.1)
    data = dump(group.state)
    (free,) = json.loads(data["group"])["free"]
    assert free == {"last": "b", "of": {"orders": "1@2"}, "ended": {"orders": "1@1"}}
    older = load({**data, "group": data["group"].replace(',"ended":{"orders":"1@1"}', "")})
    assert older.records == {**group.state.records, partition(1): PartitionRecord(Epoch(2), None, MemberId("b"), Epoch(2))}


def test_a_members_key_has_its_partitions() -> None:
    group = Group(4).start("a", "b")
    assert json.loads(dump(group.state)["a"]) == {
        "group": "shop/orders",
        "member": "a",
        "uid": "uid-a",
        "generation": 1,
        "active": True,
        "owned": {"orders": "0@1,2@1"},
        "revoking": {},
    }
    assert json.loads(dump(Group(1).start("a", "b").state)["b"])["active"] is False, "a standby"


def test_only_the_keys_of_affected_members_change() -> None:
    group = Group(7).start("a", "b", "c")
    before = dump(group.state)
    group.join("d").settle(60)
    group.settle(65)
    group.settle(68)
    after = dump(group.state)
    assert {key for key in before if before[key] != after[key]} == {"a", "group"}


def test_ownership_is_only_in_the_members_keys() -> None:
    text = dump(Group(4).start("a", "b").state)["group"]
    assert "@" not in text


def test_a_large_group_in_full_swing_fits() -> None:
    group = Group(10_000)
    group.join(*(f"orders-exec-{n}" for n in range(500))).settle()
    group.settle(5)
    group.now = 10
    group.join(*(f"orders-exec-{n}" for n in range(500, 1000))).step(10)
    group.step(15)
    assert len(group.state.moves) == 5000
    assert sum(len(text) for text in dump(group.state).values()) < 900 * 1024


@pytest.mark.parametrize(
    ("key", "old", "new", "message"),
    [
        ("group", "", None, "the key 'group' is missing"),
        ("a", "", None, "a is missing, or names|the key of 'a' is missing|'a' is missing"),
        ("group", "", "{", "group: "),
        ("group", "", '{"version":9,"group":"shop/orders","generation":1}', "written by another Baton"),
        ("a", "", "[]", "a: not a JSON object"),
        ("b", '"1@1', '"0@1', "partition 0 of orders is listed for b and elsewhere"),
        ("b", '"member":"b"', '"member":"c"', "the key 'b' was written for c"),
        ("b", "shop/orders", "shop/others", "shop/others"),
    ],
)
def test_an_edited_ledger_is_refused_with_the_key(key: str, old: str, new: str | None, message: str) -> None:
    """`old`: what is replaced by `new`; empty: all of the key."""
    data = dump(Group(4).start("a", "b").state)
    text = data.pop(key)
    if new is not None:
        data[key] = text.replace(old, new) if old else new
    with pytest.raises(LedgerError, match=message):
        load(data)


BUSY = dump(busy())


@given(st.sampled_from(sorted(BUSY)), st.data())
def test_edited_text_is_read_or_refused(key: str, data: st.DataObject) -> None:
    text = BUSY[key]
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    put = data.draw(st.sampled_from(["", "0", "9", '"', "{}", "null", "-", "a", "@", "[1]", ","]))
    try:
        load({**BUSY, key: text[:at] + put + text[at + cut :]})
    except LedgerError as error:
        assert str(error)


NASTY: list[object] = [None, True, -1, 1e300, float("inf"), 10**30, "", "x", "0-3@9", [], ["a"], [[]], [{}], {}]
NASTY += [{"a": {}}, {"orders": "0"}, "[" * 9]


def places(tree: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The paths to everything in it."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [at, *(path for key, value in inner for path in places(value, (*at, key)))]


# Whatever stands in a ConfigMap of 1 MiB: it is read or refused, within bounds, and what is read can be worked with.


CONFIG_MAP = 1024 * 1024
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
def test_a_ledger_that_would_expand_is_refused(name: str) -> None:
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


@given(st.randoms(use_true_random=False))
def test_moved_subtrees_are_refused_or_work(rng: random.Random) -> None:
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


@given(st.sampled_from(sorted(BUSY)), st.text(max_size=200))
def test_any_text_of_a_key_is_refused_or_works(key: str, text: str) -> None:
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


@given(st.sampled_from(sorted(MEMBER)), JSON)
def test_any_json_in_any_field_of_a_member_is_refused_or_works(field: str, value: Any) -> None:
    read({**BUSY, "a": json.dumps({**MEMBER, field: value})})
