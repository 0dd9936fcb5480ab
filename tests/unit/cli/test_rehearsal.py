"""What would happen to a live group, from its ledger and what is seen of it."""

from dataclasses import replace

import pytest

from baton.api.enums import Approval, ScaleMode
from baton.cli.rehearsal import Comparison, WhatIf, WhatIfError, compare
from baton.engine import dump, load
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.model.ids import QueueName
from baton.simulation.virtual_time import run
from tests.unit.engine.group import Group

NOW = 1_795_273_758.4289183


def compared(group: Group, **what_if: object) -> Comparison:
    before = group.state
    made = run(compare("shop/orders", load(dump(before)), group.observe(), WhatIf(**what_if), NOW))  # type: ignore[arg-type]
    assert group.state is before
    return made


def counts(made: Comparison) -> dict[str, tuple[int, int]]:
    return {change.member: (change.before, change.after) for change in made.changes}


def test_a_group_that_is_as_it_should_be_moves_nothing() -> None:
    made = compared(Group(4).start("a", "b"))
    assert (made.moves, made.lower_bound, counts(made)) == (0, 0, {"a": (2, 2), "b": (2, 2)})


def test_pods_that_come_and_go() -> None:
    group = Group(6).start("a", "b", "c")
    more = compared(group, add=3)
    assert (more.moves, set(counts(more))) == (3, {"a", "b", "c", "new-1", "new-2", "new-3"})
    fewer = compared(group, remove=("c",))
    assert (fewer.moves, fewer.lower_bound, counts(fewer)["c"]) == (2, 2, (2, 0))
    assert [change.there for change in sorted(fewer.changes, key=lambda one: one.member)] == [True, True, False]


def test_another_assignor_is_asked_whatever_the_pods_announce() -> None:
    group = Group(7).start("a", "b").join("c", assignors=("solace",))
    made = compared(group, assignor="round-robin")
    assert made.assignor == "round-robin" and made.moves > made.lower_bound
    assert "c would have to announce round-robin first" in made.notes[0]


def test_another_number_of_partitions() -> None:
    made = compared(Group(4).start("a", "b"), partitions={"orders": 8})
    assert (made.moves, made.partitions, counts(made)) == (0, 8, {"a": (2, 4), "b": (2, 4)})


def test_nothing_that_waits_is_waited_for() -> None:
    spec = GroupSpec(delay=600, max_concurrent_handoffs=1, approval=Approval.MANUAL, paused=True)
    group = Group(8, replace(spec, paused=False, delay=5)).start("a", "b")
    group.spec = spec
    group.queues[QueueName("orders")] = replace(group.queues[QueueName("orders")], fenced=False)
    made = compared(group, add=2)
    assert made.moves == 4
    assert made.notes == ("The group is paused: none of this happens until it goes on.",)


def test_a_holddown_that_runs_is_over() -> None:
    group = Group(4, GroupSpec(delay=600)).start("a", "b")
    group.now = NOW - 1
    group.join("c").step(NOW - 1)
    assert compared(group).moves == 1


def test_pods_above_the_desired_size_stand_by_and_more_pods_mean_a_larger_one() -> None:
    spec = GroupSpec(replicas=2, scale_mode=ScaleMode.WORKLOAD)
    group = Group(4, spec).start("a", "b").join("c")
    assert counts(compared(group))["c"] == (0, 0)
    assert compared(group, add=1).moves == 1


def test_an_exclusive_queue_is_not_counted_as_uneven() -> None:
    group = Group(4)
    group.queues[QueueName("alone")] = ObservedQueue(3, exclusive=True)
    made = compared(group.start("a", "b"))
    assert made.exclusive == {"alone"} and sorted(made.totals.values()) == [2, 2]


@pytest.mark.parametrize(
    ("what_if", "said"),
    [
        ({"remove": ("z",)}, "--remove z: there is no such member; there are a, b"),
        ({"partitions": {"order": 3}}, "--partitions order=3: there is no such queue; there are orders"),
    ],
)
def test_what_is_not_there_cannot_be_supposed_to_change(what_if: dict[str, object], said: str) -> None:
    with pytest.raises(WhatIfError, match=said):
        compared(Group(4).start("a", "b"), **what_if)


def test_a_group_without_a_usable_assignor_says_why() -> None:
    group = Group(4).start("a", "b")
    group.spec = GroupSpec(assignors=("example.com/none",))
    with pytest.raises(WhatIfError, match=r"shop/orders: there is no assignor 'example\.com/none'"):
        compared(group)
