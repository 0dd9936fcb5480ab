"""What happened is told from the difference of two pictures."""

from dataclasses import replace
from itertools import pairwise

from demo.picture import Member, Picture
from demo.telling import changes

A = Member("exec-1", "u1", "ready", owned={0: 1, 1: 1, 2: 1})
B = Member("exec-2", "u2", "ready")


def told(before: tuple[Member, ...], after: tuple[Member, ...]) -> list[str]:
    return list(changes(Picture(members=before), Picture(members=after)))


def test_nothing_new_is_not_told() -> None:
    assert told((A, B), (A, B)) == []


def test_a_hand_off_is_told_from_both_sides() -> None:
    giving = replace(A, owned={0: 1}, revoking={1: 1, 2: 1})
    assert told((A, B), (giving, B)) == ["exec-1 is to let go of 1-2"]
    assert told((giving, B), (replace(A, owned={0: 1}), replace(B, owned={1: 2, 2: 2}))) == ["exec-2 gets 1-2"]


def test_a_partition_granted_again_to_its_owner_is_told() -> None:
    assert told((A,), (replace(A, owned={0: 1, 1: 1, 2: 5}),)) == ["exec-1 gets 2"]


def test_pods_that_come_fail_and_go_are_told() -> None:
    assert told((), (replace(B, phase="starting"),)) == ["exec-2 starts"]
    assert told((B,), (replace(B, phase="failed"),)) == ["exec-2 has failed"]
    assert told((B,), ()) == ["exec-2 is gone"]


def test_the_same_trouble_in_other_words_is_told_once() -> None:
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


def test_states_and_missed_deadlines_are_told() -> None:
    before = Picture(state="Ready")
    after = Picture(state="Holddown", hold_until="12:00:05", deadline_misses=2)
    assert list(changes(before, after)) == [
        "the group is Holddown until 12:00:05",
        "2 deadlines missed: fenced off at the queue",
    ]
