"""An assignor of the user's own that fails, or breaks its contract: nobody's work depends on it."""

from collections.abc import Callable, Iterator

import pytest

from baton.assignors import Answer, Request, get, install
from baton.engine import summary
from baton.engine.observation import GroupSpec
from tests.unit.engine.group import Group

MINE = "example.com/mine"


class Moody:
    """Answers as `solace`, unless told otherwise."""

    def __init__(self) -> None:
        self.does: Callable[[Request], Answer] = get("solace")

    def __call__(self, request: Request) -> Answer:
        return self.does(request)


@pytest.fixture
def mine() -> Iterator[Moody]:
    assignor = Moody()
    install(lambda: {MINE: lambda: assignor})
    yield assignor
    install(dict)


def fails(_: Request) -> Answer:
    raise RuntimeError("out of ideas")


def test_a_plan_that_fails_leaves_everything_as_it_is_and_is_made_when_it_works_again(mine: Moody) -> None:
    group = Group(4, GroupSpec(assignors=(MINE,))).start("a", "b")
    assert group.owners() == "abab"
    mine.does = fails
    group.join("c").step(10)
    group.settle(15)
    done = group.settle(20)
    assert (group.owners(), done.effects) == ("abab", ())
    assert summary(group.state).problem == (
        "InvalidAssignment",
        f"the assignor {MINE} failed at test_failing_assignor.py:{fails.__code__.co_firstlineno + 1} "
        "with RuntimeError: out of ideas",
    )
    mine.does = get("solace")
    group.request = "again"
    group.settle(21)
    assert summary(group.state).problem is None
    assert len(group.state.moves) == 1


def test_an_answer_that_gives_a_partition_to_nobody_is_not_used(mine: Moody) -> None:
    group = Group(4, GroupSpec(assignors=(MINE,))).start("a", "b")
    mine.does = lambda request: Answer({})
    group.join("c").step(10)
    group.settle(15)
    problem = summary(group.state).problem
    assert problem is not None and (problem.reason, "gave orders 0-3 no owner" in problem.message) == (
        "InvalidAssignment",
        True,
    )
    assert group.owners() == "abab"


def test_a_partition_whose_receiver_vanished_does_not_wait_for_it(mine: Moody) -> None:
    group = Group(6, GroupSpec(assignors=(MINE,))).start("a", "b", "c")
    group.terminate("a").join("d").step(10)
    (first, second) = (partition for partition, move in group.state.moves.items() if move.receiver == "d")
    group.leave("a", "d")
    mine.does = fails
    group.settle(11)
    assert {group.state.records[first].owner, group.state.records[second].owner} == {"b", "c"}
    group.settle(16)
    problem = summary(group.state).problem
    assert problem is not None and problem.reason == "InvalidAssignment"
    mine.does = get("solace")
    group.join("e").settle(17)
    assert summary(group.state).problem is None


def test_an_assignor_that_is_not_installed_any_more_is_unknown(mine: Moody) -> None:
    group = Group(4, GroupSpec(assignors=(MINE,))).start("a", "b")
    install(dict)
    group.join("c").step(10)
    group.settle(15)
    problem = summary(group.state).problem
    assert problem is not None and problem.reason == "UnknownAssignor" and MINE in problem.message
    assert group.owners() == "abab"


def test_an_assignor_that_a_pod_alone_names_is_not_loaded() -> None:
    loaded: list[str] = []

    def load() -> Callable[[Request], Answer]:
        loaded.append(MINE)
        return get("solace")

    install(lambda: {MINE: load})
    try:
        group = Group().join("a").join("b", assignors=(MINE,))
        group.step(0)
        group.step(5)
        problem = summary(group.state).problem
        assert problem is not None and f"add {MINE}, which all support, to spec.assignors" in problem.message
        assert loaded == []
    finally:
        install(dict)
