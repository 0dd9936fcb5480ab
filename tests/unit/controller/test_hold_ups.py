"""A group that has not planned, for whatever reason: its columns and its conditions say what is so, and what is waited for."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from baton.api import ConsumerGroupStatus
from baton.api.enums import Approval
from baton.controller.problems import Problem, Reason
from baton.controller.status import as_of, group_conditions, group_status, halted_status
from baton.engine import summary
from baton.engine.observation import GroupSpec, HeldBack, ObservedQueue
from baton.kube.members import GroupMembers
from baton.model.ids import QueueName
from tests.unit.controller.test_status import group_view
from tests.unit.engine.group import Group

HELD_UNTIL = "1970-01-01T00:00:25Z"
PAUSE = "spec.paused holds back what is due, until it is false"
ROOM = "what is due waits for room in the ledger"


def shown(group: Group, *problems: Problem) -> ConsumerGroupStatus:
    """As the operator reports it right after a step."""
    view = group_view(paused=group.spec.paused, approval=group.spec.approval.value)
    whole = as_of(summary(group.state), group.now)
    told = group_conditions(view, whole, [], list(problems), group.now, sessions_are_bound=True, asked_for=None)
    return group_status(view, whole, GroupMembers(), told, group.now, {})


def paused(group: Group) -> Group:
    group.spec = replace(group.spec, paused=True)
    return group


def held_back(group: Group, how: HeldBack = HeldBack.PLANS) -> Group:
    group.held_back = how
    return group


def without_assignor(group: Group) -> Group:
    group.spec = replace(group.spec, assignors=("example.com/none",))
    return group


def at(group: Group, *times: float) -> Group:
    for time in times:
        group.settle(at=time)
    return group


def unread() -> Group:
    group = Group(4)
    group.queues[QueueName("pay")] = ObservedQueue(2)
    return group.join("a", subscribed=frozenset({QueueName("orders")})).start()


def static() -> Group:
    return Group(4, GroupSpec(session_timeout=30)).join("a", instance="1").join("b", instance="2").start()


def without_queues() -> Group:
    group = Group()
    group.queues = {}
    return at(group.join("a"), 20)


SIZE = Problem(Reason.SIZE_LIMIT, "?")
NO_ASSIGNOR = Problem(Reason.UNKNOWN_ASSIGNOR, "?")
NO_QUEUE = Problem(Reason.QUEUE_NOT_FOUND, "?")

# How it came about; then STATE, PARTITIONS, UNOWNED, HOLD-UNTIL; Balanced and Settled: status, reason; what is said of both
Case = tuple[str, Callable[[], Group], list[Problem], tuple[str, int, int, str | None], str, str, str]


def waiting_for(why: str, partitions: int, unowned: int) -> str:
    return f"{unowned} of {partitions} partitions have no owner: {why}" if unowned else why


def in_a_pause(how: str, group: Callable[[], Group], partitions: int, unowned: int) -> Case:
    said = waiting_for(PAUSE, partitions, unowned)
    return how, group, [], ("Paused", partitions, unowned, None), "False Paused", "False Paused", said


def without_room(how: str, group: Callable[[], Group], partitions: int, unowned: int) -> Case:
    said = waiting_for(ROOM, partitions, unowned)
    return how, group, [SIZE], ("NotReady", partitions, unowned, None), "False SizeLimit", "False NotReady", said


def without_pods(how: str, group: Callable[[], Group]) -> Case:
    problem = Problem(Reason.NO_MEMBERS, "?")
    return how, group, [problem], ("NotReady", 4, 4, None), "False NoMembers", "False NotReady", ""


CASES: list[Case] = [
    in_a_pause("paused from birth", lambda: at(paused(Group(12)).join("a", "b"), 20), 12, 12),
    in_a_pause("paused, and its queue grows", lambda: at(paused(Group(4).start("a", "b")).resize(6), 20), 6, 2),
    in_a_pause("paused, and its queue shrinks", lambda: at(paused(Group(4).start("a", "b")).resize(2), 20), 2, 0),
    in_a_pause("paused, and a pod comes", lambda: at(paused(Group(4).start("a", "b")).join("c"), 20), 4, 0),
    in_a_pause("paused in a holddown", lambda: at(paused(at(Group(4).start("a", "b").leave("b"), 20)), 21, 60), 4, 2),
    in_a_pause("paused while a static member is waited for", lambda: at(paused(at(static().leave("b"), 20)), 21), 4, 2),
    without_room("no room from birth", lambda: at(held_back(Group(12)).join("a", "b"), 20), 12, 12),
    without_room("no room for anything from birth", lambda: at(held_back(Group(12), HeldBack.ALL).join("a", "b"), 20), 12, 12),
    without_room(
        "no room for the plan after a holddown", lambda: at(held_back(at(Group(4).start("a", "b").leave("b"), 20)), 25, 60), 4, 2
    ),
    without_room("no room for a queue that grows", lambda: at(held_back(Group(4).start("a", "b")).resize(6), 20), 6, 2),
    without_pods("no pods", lambda: at(Group(4), 20)),
    without_pods("no pods, in a pause", lambda: at(paused(Group(4)), 20)),
    (
        "no assignor from birth",
        lambda: at(without_assignor(Group(12)).join("a", "b"), 20, 25, 60),
        [NO_ASSIGNOR],
        ("NotReady", 12, 12, None),
        "False UnknownAssignor",
        "False NotReady",
        "12 of 12 partitions have no owner: no plan can be made (UnknownAssignor)",
    ),
    (
        "the first holddown",
        lambda: at(Group(12).join("a", "b"), 20),
        [],
        ("Holddown", 12, 12, HELD_UNTIL),
        "False Holddown",
        "False Holddown",
        f"12 of 12 partitions have no owner: a change of the fleet is held down until {HELD_UNTIL}, in case it is undone",
    ),
    (
        "a holddown in which nobody is without an owner",
        lambda: at(Group(4).start("a", "b").join("c"), 20),
        [],
        ("Holddown", 4, 0, HELD_UNTIL),
        "False Holddown",
        "False Holddown",
        f"a change of the fleet is held down until {HELD_UNTIL}, in case it is undone",
    ),
    (
        "approval from birth: what has no owner does not wait",
        lambda: Group(12, GroupSpec(approval=Approval.MANUAL)).start("a", "b"),
        [],
        ("Ready", 12, 0, None),
        "True Balanced",
        "True Settled",
        "",
    ),
    (
        "a proposal",
        lambda: at(Group(4, GroupSpec(approval=Approval.MANUAL)).start("a", "b").join("c"), 20, 25),
        [],
        ("Ready", 4, 0, None),
        "False WaitingForApproval",
        "False WaitingForApproval",
        "waits for approval",
    ),
    (
        "a hand-off",
        lambda: at(Group(4).start("a", "b").join("c"), 20, 25),
        [],
        ("Rebalancing", 4, 0, None),
        "False HandingOff",
        "False HandingOff",
        "",
    ),
    (
        "nobody reads a queue",
        unread,
        [],
        ("Ready", 6, 2, None),
        "False Unbalanced",
        "False Unbalanced",
        "2 of 6 partitions have no owner: no pod that takes part reads them",
    ),
    (
        "no queue",
        without_queues,
        [NO_QUEUE],
        ("NotReady", 0, 0, None),
        "False Unbalanced",
        "False NotReady",
        "no partition is known",
    ),
    ("nothing due", lambda: Group(4).start("a", "b"), [], ("Ready", 4, 0, None), "True Balanced", "True Settled", ""),
    (
        "nothing due, in a pause",
        lambda: at(paused(Group(4).start("a", "b")), 20),
        [],
        ("Paused", 4, 0, None),
        "True Balanced",
        "False Paused",
        "",
    ),
]


@pytest.mark.parametrize(
    ("group", "problems", "columns", "balanced", "settled", "said"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_group_that_has_not_planned_says_what_is_so_and_what_is_waited_for(
    group: Callable[[], Group],
    problems: list[Problem],
    columns: tuple[str, int, int, str | None],
    balanced: str,
    settled: str,
    said: str,
) -> None:
    status = shown(group(), *problems)
    assert status.state is not None
    assert (status.state.value, status.partitions, status.unowned, status.hold_until) == columns
    told = {one.type: one for one in status.conditions}
    assert f"{told['Balanced'].status.value} {told['Balanced'].reason}" == balanced
    assert f"{told['Settled'].status.value} {told['Settled'].reason}" == settled
    assert said in told["Balanced"].message
    if settled.split()[1] not in ("NotReady", "Settled", "HandingOff"):
        assert said in told["Settled"].message
    if status.unowned and not problems:
        assert f"{status.unowned} of {status.partitions} partitions have no owner" in told["Ready"].message


def test_what_waits_is_done_when_it_may_be() -> None:
    """What is told above is no more than telling: the plan comes at once."""
    group = at(paused(Group(12)).join("a", "b"), 20)
    group.spec = replace(group.spec, paused=False)
    at(group, 21)
    assert shown(group).unowned == 0


def test_no_hold_is_shown_whose_end_waits_for_the_ledger() -> None:
    """No step is taken before that is written."""
    group = at(Group(4).start("a", "b").leave("b"), 20)
    before = shown(group).model_dump(by_alias=True, mode="json")
    assert before["holdUntil"] == HELD_UNTIL
    group.now = 60
    refused = Problem(Reason.LEDGER_REFUSED, "?")
    status = shown(group, refused)
    assert (status.state, status.hold_until) == ("NotReady", None)
    assert "holdUntil" not in halted_status(replace(group_view(), status=before), refused, 60.0)
