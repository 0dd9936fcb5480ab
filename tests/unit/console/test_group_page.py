"""The console's page of a group, for states that the engine makes."""

import asyncio
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from baton.cli.group import look, partitions
from baton.console import what_if
from baton.console.group_page import (
    MOST_AT_ONCE,
    MOST_ENTRIES,
    columns,
    group_page,
    group_row,
    moves_between,
    newest,
    of_events,
    rows,
)
from baton.console.guard import RefusedRequestError
from baton.console.what_if import MOST_WAITING, Rehearsals
from baton.engine import GroupState, dump
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from tests.unit.cli.test_status import MANIFEST, QUEUES
from tests.unit.engine.group import Group
from tests.waiting import until

ORDERS = QueueName("orders")


def page(of: Group) -> dict[str, Any]:
    return group_page(look(MANIFEST, dump(of.state), QUEUES, now=5.0))


def test_the_grid_has_each_partition_with_its_owner_state_and_epoch() -> None:
    shown = page(Group().start("a", "b"))
    (queue,) = shown["grid"]
    assert [member["name"] for member in shown["members"]] == ["a", "b"]
    assert (queue["queue"], queue["numbers"], queue["states"], queue["to"]) == ("orders", None, "RRRR", {})
    assert sorted(queue["owners"]) == [0, 0, 1, 1] and set(queue["epochs"]) == {1}


def test_a_hand_off_is_shown_with_receiver_and_deadline() -> None:
    group = Group().start("a", "b")
    group.join("c")
    group.step(100.0)
    group.step(200.0)
    shown = page(group)
    (queue,) = shown["grid"]
    (handoff,) = shown["handoffs"]["shown"]
    at = handoff["partition"]
    assert queue["states"][at] == "P" and shown["members"][queue["owners"][at]]["name"] == handoff["from"]
    assert shown["members"][queue["to"][str(at)]]["name"] == handoff["to"] == "c"
    assert handoff["deadline"] > 200.0 and handoff["why"]


def test_a_reserved_slots_partitions_are_in_its_members_row() -> None:
    group = Group().start("a", "b")
    group.leave("b")
    group.step(100.0)
    shown = page(group)
    (queue,) = shown["grid"]
    held = [at for at, state in enumerate(queue["states"]) if state == "U"]
    assert len(held) == 2 and {shown["members"][queue["owners"][at]]["name"] for at in held} == {"b"}
    assert shown["members"][1]["role"] == "gone" and shown["slots"][0]["member"] == "b"


def test_a_page_of_ten_thousand_partitions_is_small() -> None:
    records = {Partition(ORDERS, n): PartitionRecord(Epoch(n), MemberId(f"p-{n % 1000}")) for n in range(10_000)}
    state = replace(GroupState("shop/orders"), records=records)
    every = partitions(state)
    names = rows([], every, [])
    assert len(names) == 1000 and len(json.dumps(columns(names, every, []), separators=(",", ":"))) < 200_000


def owned(count: int, owner: str) -> GroupState:
    records = {Partition(ORDERS, n): PartitionRecord(Epoch(1), MemberId(owner), MemberId(owner)) for n in range(count)}
    return replace(GroupState("shop/orders"), records=records)


def test_a_timeline_has_givers_and_receivers() -> None:
    (entry,) = moves_between(owned(3, "a"), owned(3, "b"), 7.0)
    assert (entry.at, entry.text) == (7.0, "0-2 of orders: a → b")
    assert moves_between(owned(3, "a"), owned(3, "a"), 7.0) == []
    assert moves_between(None, owned(3, "a"), 7.0) == []


def test_a_change_of_many_pairs_is_summed_up() -> None:
    before = owned(100, "a")
    records = {one: record._replace(owner=MemberId(f"pod-{one.number}")) for one, record in before.records.items()}
    entries = moves_between(before, replace(before, records=records), 7.0)
    assert len(entries) == MOST_AT_ONCE + 1
    assert entries[-1].text == "and 80 more partitions between 80 other pairs"


def test_foreign_events_are_bounded() -> None:
    said = [
        {"eventTime": "2026-11-21T09:48:00Z", "reason": "x" * 999, "note": "\n\x1b" * 9999, "type": "Warning"},
        {"eventTime": "soon"},
        {},
    ]
    (entry,) = of_events(said)
    assert entry.warning and len(entry.kind) < 200 and entry.text.isprintable()
    assert len(newest([entry] * (MOST_ENTRIES + 50))) == MOST_ENTRIES


def test_a_group_without_a_ledger_is_a_page_and_a_row() -> None:
    bare = look(MANIFEST, {}, QUEUES, now=5.0)
    shown = group_page(bare, notes=["You may not read it."])
    assert (shown["grid"], shown["members"], shown["notes"]) == ([], [], ["You may not read it."])
    assert group_row(bare)["name"] == "orders"
    json.dumps([shown, group_row(bare)])


def test_a_spoilt_ledger_is_a_problem_on_the_page() -> None:
    shown = group_page(look(MANIFEST, {"group": "{", "a": "nonsense"}, QUEUES, now=5.0))
    assert any("ledger" in problem["what"] for problem in shown["problems"])
    assert shown["members"][0]["problem"]


# -- What-if computes one plan at a time, and no abandoned one.


async def test_an_abandoned_what_if_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    may_end = threading.Event()

    async def compare(_group: str, _state: GroupState, _seen: Any, wanted: int, _now: float) -> int:
        made.append(wanted)
        may_end.wait()
        return wanted

    monkeypatch.setattr(what_if, "compare", compare)
    monkeypatch.setattr(what_if, "with_pods", lambda _state, _seen, pods: pods)
    monkeypatch.setattr(what_if, "pods_of", lambda _seen: 1)
    monkeypatch.setattr(what_if, "answer", lambda of, _now, _pods: {"pods": of})
    rehearsals, state, seen = Rehearsals(), GroupState("shop/orders"), object()

    def ask(pods: int) -> asyncio.Task[dict[str, Any]]:
        return asyncio.create_task(rehearsals.rehearse("shop/orders", state, seen, pods, 0.0))  # type: ignore[arg-type]

    first = ask(1)
    await asyncio.to_thread(until, lambda: made == [1])
    others = [ask(pods) for pods in range(2, MOST_WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(RefusedRequestError) as refused:
        await ask(99)
    assert refused.value.status == 503
    *given_up, last = others
    for one in given_up:
        one.cancel()
    await asyncio.wait(given_up)
    may_end.set()
    assert [await first, await last] == [{"pods": 1}, {"pods": MOST_WAITING}]
    assert made == [1, MOST_WAITING]
