"""What happened is told from the difference of two pictures."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from baton.engine import GroupState, dump, step
from baton.engine.observation import GroupSpec, Observation, ObservedMember, ObservedQueue
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from demo.on_laptop import of_processes
from demo.picture import Member, Picture, changes, compose

A = Member("exec-1", "u1", "ready", owned={0: 1, 1: 1, 2: 1})
B = Member("exec-2", "u2", "ready")


def told(before: tuple[Member, ...], after: tuple[Member, ...]) -> list[str]:
    return list(changes(Picture(members=before), Picture(members=after)))


def test_unchanged_pictures_are_silent() -> None:
    assert told((A, B), (A, B)) == []


def test_a_hand_off_is_narrated_from_both_sides() -> None:
    giving = replace(A, owned={0: 1}, revoking={1: 1, 2: 1})
    assert told((A, B), (giving, B)) == ["exec-1 is to release 1-2"]
    assert told((giving, B), (replace(A, owned={0: 1}), replace(B, owned={1: 2, 2: 2}))) == ["exec-2 gets 1-2"]


def test_a_repeated_grant_is_narrated() -> None:
    assert told((A,), (replace(A, owned={0: 1, 1: 1, 2: 5}),)) == ["exec-1 gets 2"]


def test_pods_that_come_fail_and_go_are_narrated() -> None:
    assert told((), (replace(B, phase="starting"),)) == ["exec-2 starts"]
    assert told((B,), (replace(B, phase="failed"),)) == ["exec-2 has failed"]
    assert told((B,), ()) == ["exec-2 is gone"]


def test_the_same_trouble_is_narrated_once() -> None:
    pictures = [
        Picture(),
        Picture(state="NotReady", trouble="NoMembers: no pod of shop has the label baton.dev/group: orders"),
        Picture(state="NotReady", trouble="NoMembers: none of 1 pods takes part: 1 not Ready"),
        Picture(state="NotReady", trouble="QueueUnreachable: Redis does not answer"),
        Picture(state="NotReady", trouble="NoMembers: none of 2 pods takes part: 2 not Ready"),
        Picture(state="Ready"),
    ]
    assert [list(changes(before, after)) for before, after in pairwise(pictures)] == [
        ["the group is not Ready: NoMembers: no pod of shop has the label baton.dev/group: orders"],
        [],
        ["the group is not Ready: QueueUnreachable: Redis does not answer"],
        ["the group is not Ready: NoMembers: none of 2 pods takes part: 2 not Ready"],
        ["the group is Ready"],
    ]


def test_states_and_missed_deadlines_are_narrated() -> None:
    before = Picture(state="Ready")
    after = Picture(state="Holddown", hold_until="12:00:05", deadline_misses=2)
    assert list(changes(before, after)) == ["the group is Holddown until 12:00:05", "2 deadlines missed: fenced off at the queue"]


# -- The picture says what the cluster says, and shows what is missing as missing.


def pod(name: str, *, uid: str = "", ready: bool = True, phase: str = "Running", leaving: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "labels": {"spark-role": "executor", "spark-exec-id": name.rpartition("-")[2]},
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    return {
        "metadata": metadata,
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def entry(name: str, uid: str, owned: dict[int, int], revoking: dict[int, int] | None = None) -> str:
    def grants(numbers: dict[int, int]) -> dict[QueueName, dict[int, Epoch]]:
        return {QueueName("orders"): {number: Epoch(epoch) for number, epoch in numbers.items()}}

    return MemberEntry("shop/orders", MemberId(name), Uid(uid), 1, True, grants(owned), grants(revoking or {})).to_json()


def lease(executors: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"baton.dev/executors": executors}}}


def shown(*pods: dict[str, Any], ledger: dict[str, str] | None = None, executors: str = "1,2,10", **status: Any) -> Picture:
    by_uid = {each["metadata"]["uid"]: each for each in pods}
    return compose(by_uid, ledger or {}, {"status": status}, lease(executors), "orders")


def test_an_empty_cluster_is_an_empty_picture() -> None:
    assert compose({}, {}, {}, {}, "orders") == Picture()


def test_a_member_has_the_partitions_of_its_key() -> None:
    (member,) = shown(pod("exec-1"), ledger={"exec-1": entry("exec-1", "uid-exec-1", {0: 4, 2: 4}, {1: 3})}).members
    assert (member.phase, member.serving, member.owned, member.revoking) == ("ready", True, {0: 4, 2: 4}, {1: 3})


def test_an_earlier_pods_key_is_shown_as_gone() -> None:
    members = shown(pod("exec-1", uid="new"), ledger={"exec-1": entry("exec-1", "old", {0: 4})}).members
    assert [(member.uid, member.phase, dict(member.owned)) for member in members] == [
        ("new", "ready", {}),
        ("old", "gone", {0: 4}),
    ]


def test_an_executor_serves_once_its_driver_registered_it() -> None:
    first, second = shown(pod("exec-1"), pod("exec-2"), executors="2").members
    assert (first.serving, second.serving) == (False, True)


def test_phases_are_told_apart() -> None:
    pods = (pod("exec-1", ready=False), pod("exec-2", leaving=True), pod("exec-10", phase="Failed", ready=False))
    assert [(member.name, member.phase) for member in shown(*pods).members] == [
        ("exec-1", "starting"),
        ("exec-2", "leaving"),
        ("exec-10", "failed"),
    ]


def test_a_picture_is_settled_if_even_and_at_rest() -> None:
    ledger = {"exec-1": entry("exec-1", "uid-exec-1", {0: 1}), "exec-2": entry("exec-2", "uid-exec-2", {1: 1, 2: 1})}
    fleet = (pod("exec-1"), pod("exec-2"))
    assert shown(*fleet, ledger=ledger, state="Ready", partitions=3).settled(2)
    assert not shown(*fleet, ledger=ledger, state="Ready", partitions=3).settled(3)
    assert not shown(*fleet, ledger=ledger, state="Ready", partitions=4).settled(2)
    assert not shown(*fleet, ledger=ledger, state="Rebalancing", partitions=3).settled(2)
    assert not shown(*fleet, ledger=ledger, state="Ready", partitions=3, moving=1).settled(2)


def test_the_reason_of_not_ready_is_shown() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "QueueUnreachable", "message": "redis does not answer"}]
    assert shown(conditions=conditions).trouble == "QueueUnreachable: redis does not answer"


def test_unreadable_parts_of_a_ledger_are_left_out() -> None:
    (member,) = shown(pod("exec-1"), ledger={"exec-1": "{", "group": "nonsense"}).members
    assert member == Member("exec-1", "uid-exec-1", "ready", executor="1", registered=True)


def test_processes_are_shown_with_the_engines_view() -> None:
    state = GroupState("dev/orders")
    facts = Observation(
        GroupSpec(delay=0.0),
        {QueueName("orders"): ObservedQueue(2)},
        {MemberId("orders-1"): ObservedMember(Uid("u1")), MemberId("orders-2"): ObservedMember(Uid("u2"))},
    )
    made = step(state, facts, 100.0).state
    processes = [
        {"name": "orders-1", "uid": "u1", "ending": False, "session": True},
        {"name": "orders-2", "uid": "u2", "ending": True, "session": True},
        {"name": "orders-3", "uid": "u3", "ending": False, "session": False},
    ]
    picture = of_processes(processes, dump(made))
    assert [(member.name, member.phase, member.listed) for member in picture.members] == [
        ("orders-1", "ready", True),
        ("orders-2", "leaving", True),
        ("orders-3", "starting", False),
    ]
    assert (picture.state, picture.partitions, picture.moving) == ("Rebalancing", 2, 2)
    assert (picture.replicas, set(picture.victims)) == (2, {"orders-2"})


def test_processes_without_a_ledger_are_shown() -> None:
    picture = of_processes([{"name": "orders-1", "uid": "u1", "ending": False, "session": True}], {})
    assert picture == Picture(members=(Member("orders-1", "u1", "ready", registered=True),))
