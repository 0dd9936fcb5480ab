"""What users see: conditions, a queue's status, and when a status is written."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from baton.api import (
    ConditionStatus,
    ConsumerGroupSpec,
    ConsumerGroupStatus,
    PartitionedQueueSpec,
    PartitionScaleStatus,
    ShownState,
)
from baton.api.group import Approval, GroupRebalance, Protocol
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.problems import Problem, Reason, ledger_refused, request_refused
from baton.controller.queue_reports import queue_status
from baton.controller.status import (
    as_of,
    conditions,
    fenced,
    group_conditions,
    group_status,
    halted_status,
    membership_problems,
    partitions_are_known,
    proposal_ready,
    ready,
    rebalancing,
    shown_state,
    written,
)
from baton.engine import State, summary
from baton.engine.observation import GroupSpec, HeldBack, ObservedQueue
from baton.engine.state import KnownQueue
from baton.kube.errors import ApiError, TooLargeError
from baton.kube.ledger_configmap import LedgerOwner
from baton.kube.members import GroupMembers
from baton.kube.objects import GroupView, QueueView
from baton.model.ids import QueueName
from tests.unit.engine.group import Group

NOW = 1_800_000_000.0
HELD = Problem(Reason.HOLDDOWN, "held down until then")


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    before = [{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    down = ready(Problem(Reason.QUEUE_UNREACHABLE, "start it"), "")
    (same,) = conditions([down], before, 3, NOW)
    assert (same.last_transition_time, same.reason, same.observed_generation) == ("2020-01-01T00:00:00Z", "QueueUnreachable", 3)
    (changed,) = conditions([ready(None, "fine")], before, 3, NOW)
    assert (changed.last_transition_time, changed.status, changed.message) == (
        "2027-01-15T08:00:00Z",
        ConditionStatus.TRUE,
        "fine",
    )


STOP = "did not release partitions by the deadline, and the hand-off waits, because no queue can fence"


@pytest.mark.parametrize(
    ("moving", "wait", "overdue", "status", "reason", "said"),
    [
        (0, None, [], "False", Reason.STABLE, "nothing moves"),
        (0, HELD, [], "False", Reason.HOLDDOWN, "held down until then"),
        (0, Problem(Reason.PAUSED, "a pause"), [], "False", Reason.STABLE, "nothing moves: a pause"),
        (1, None, [], "True", Reason.HANDING_OFF, "1 partition is changing hands"),
        (3, HELD, [], "True", Reason.HANDING_OFF, "3 partitions are changing hands"),
        (1, None, ["a"], "True", Reason.DEADLINE_MISSED, f"; a {STOP} it off: stop it, or set"),
        (3, None, ["b", "a", "a"], "True", Reason.DEADLINE_MISSED, f"; a, b {STOP} them off: stop them"),
    ],
)
def test_rebalancing_is_described_in_a_sentence(
    moving: int, wait: Problem | None, overdue: list[str], status: str, reason: Reason, said: str
) -> None:
    kind, made, why, message = rebalancing(moving, wait, overdue)
    assert (kind, made.value, why) == ("Rebalancing", status, reason)
    assert said in message


IMMUTABLE = ApiError(422, "Invalid", "metadata.finalizers: Invalid value: field is immutable")
WEBHOOK = ApiError(500, "InternalError", 'failed calling webhook "gate.example.com"')


@pytest.mark.parametrize(
    ("error", "of_ledger", "of_finalizer"),
    [
        (IMMUTABLE, "delete ConfigMap orders-assignments, which was made immutable", "see this message and the API server's log"),
        (WEBHOOK, "let it pass ConfigMap orders-assignments", "let it pass the request"),
        (TooLargeError(413, "", "too large"), "added to ConfigMap orders-assignments", "make the object smaller"),
    ],
)
def test_a_refused_request_comes_with_its_own_cure(error: ApiError, of_ledger: str, of_finalizer: str) -> None:
    assert of_ledger in ledger_refused(LedgerOwner("shop", "orders", "uid-1"), error).message
    message = request_refused("the finalizer cannot be put on the group", error).message
    assert of_finalizer in message and "ConfigMap" not in message


def test_a_group_with_an_external_queue_is_not_fenced() -> None:
    assert fenced([])[1] is ConditionStatus.TRUE
    _, status, _, message = fenced(["returns", "orders"])
    assert status is ConditionStatus.FALSE
    assert message.startswith("queues orders, returns cannot reject former owners")
    assert fenced(["orders"])[3].startswith("queue orders cannot reject former owners")


def queue(**fields: Any) -> QueueView:
    spec = {"source": {"type": "Redis", "redis": {"url": "redis://r"}}, "partitions": 4, **fields}
    return QueueView("shop", "orders", "uid", 2, PartitionedQueueSpec.model_validate(spec))


FINE = QueueFacts(partitions=4)


@pytest.mark.parametrize(
    ("view", "reports", "partitions", "scaling", "reason"),
    [
        (queue(), [FINE], 4, PartitionScaleStatus.READY, Reason.REACHABLE),
        (queue(), [], None, None, Reason.UNUSED),
        (queue(), [QueueFacts()], None, None, Reason.QUEUE_UNREACHABLE),
        (queue(partitions=6), [FINE], 4, PartitionScaleStatus.SCALING_UP, Reason.REACHABLE),
        (queue(partitions=2), [FINE], 4, PartitionScaleStatus.SCALING_DOWN, Reason.REACHABLE),
        (queue(accessType="Exclusive"), [FINE], 4, PartitionScaleStatus.READY, Reason.REACHABLE),
        # of two groups, one may not use it: that is in that group's status
        (queue(), [QueueFacts(problem=Problem(Reason.CONFLICT, "")), FINE], 4, PartitionScaleStatus.READY, Reason.REACHABLE),
        (replace(queue(), spec=None, problem="?"), [FINE], 4, None, Reason.INVALID_SPEC),
    ],
)
def test_the_status_of_a_queue(
    view: QueueView, reports: list[QueueFacts], partitions: int | None, scaling: PartitionScaleStatus | None, reason: Reason
) -> None:
    status = queue_status(view, reports, NOW)
    assert (status.partitions, status.partition_scale_status, status.conditions[0].reason) == (partitions, scaling, reason)
    assert status.observed_generation == 2


def test_a_server_that_may_lose_entries_is_named() -> None:
    status = queue_status(queue(), [replace(FINE, warnings=("set appendonly yes",))], NOW)
    durable = next(one for one in status.conditions if one.type == "Durable")
    assert (durable.status, durable.message) == (ConditionStatus.FALSE, "set appendonly yes")


FINE_SO_FAR = [ready(None, "")]


DELETED_AT = "2026-11-22T00:00:00Z"


def group_view(**spec: Any) -> GroupView:
    made = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], **spec})
    return GroupView("shop", "orders", "uid", 2, made)


def proposing(spec: GroupSpec, **queue: Any) -> Group:
    """Two members have 60 partitions, and a third has joined."""
    group = Group(60, spec, **queue).start("a", "b")
    group.join("c").settle(100)
    group.settle(105)
    return group


def test_the_status_shows_a_proposals_gains_and_costs() -> None:
    whole = summary(
        proposing(GroupSpec(approval=Approval.MANUAL, rebalance=GroupRebalance(max_concurrent_handoffs=4)), max_handoff=2.0).state
    )
    told = group_status(group_view(approval="Manual"), whole, GroupMembers(), FINE_SO_FAR, NOW, {}).proposal
    assert told is not None
    assert (told.moves, told.paused, told.paused_at_once, told.longest_pause_seconds) == (20, 20, 4, 2)
    assert (told.created_at, told.reason) == ("1970-01-01T00:01:45Z", "c joined")
    assert {one.member: (one.before, one.after) for one in told.members} == {"a": (30, 20), "b": (30, 20), "c": (0, 20)}
    assert {(one.giver, one.receiver) for one in told.handoffs} == {("a", "c"), ("b", "c")}
    kind, status, reason, message = proposal_ready(whole.proposal)
    assert (kind, status, reason) == ("ProposalReady", ConditionStatus.TRUE, Reason.WAITING_FOR_APPROVAL)
    assert f"proposal {told.id} would move 20 partitions: c joined" in message
    assert proposal_ready(None)[1] is ConditionStatus.FALSE


def test_an_unbounded_pause_is_shown_and_eager_pauses_all() -> None:
    spec = GroupSpec(approval=Approval.MANUAL, protocol=Protocol.EAGER)
    told = group_status(group_view(), summary(proposing(spec, fenced=False).state), GroupMembers(), FINE_SO_FAR, NOW, {}).proposal
    assert told is not None
    assert (told.moves, told.paused, told.paused_at_once, told.longest_pause_seconds) == (20, 60, 60, None)


def test_a_hand_off_shows_its_unacknowledged_entries() -> None:
    group = proposing(GroupSpec())
    partition = next(iter(group.state.moves))
    first, *rest = group_status(group_view(), summary(group.state), GroupMembers(), FINE_SO_FAR, NOW, {partition: 7}).handoffs
    assert (first.partition, first.unacknowledged) == (partition.number, 7)
    assert {one.unacknowledged for one in rest} == {None}


def told_of(
    group: Group, *problems: Problem, asked_for: int | None = None, deleting: bool = False, **spec: Any
) -> tuple[str, dict[str, tuple[str, str]]]:
    """The state in one word, and each condition with its reason."""
    view = replace(group_view(**spec), deleted_at=DELETED_AT if deleting else None)
    whole = summary(group.state)
    told = group_conditions(view, whole, [], list(problems), NOW, sessions_are_bound=True, asked_for=asked_for)
    status = group_status(view, whole, GroupMembers(), told, NOW, {})
    assert status.state is not None
    return status.state.value, {one.type: (one.status.value, one.reason) for one in status.conditions}


def changed() -> Group:
    return Group(4).start("a", "b").join("c")


@pytest.mark.parametrize(
    "reason", [reason for reason in Reason if reason not in (Reason.READY, Reason.DELETING, Reason.WAITING_FOR_QUEUE)]
)
def test_no_group_with_a_problem_is_called_ready_or_settled(reason: Reason) -> None:
    for group in (Group(4).start("a", "b"), changed()):
        word, told = told_of(group, Problem(reason, "?"))
        assert (word, told["Ready"], told["Settled"]) == ("NotReady", ("False", reason.value), ("False", "NotReady"))


def test_a_group_being_deleted_is_called_deleting_whatever_else_is_wrong() -> None:
    for reason in (Reason.DELETING, Reason.INVALID_SPEC):
        word, told = told_of(Group(4).start("a", "b"), Problem(reason, "?"), deleting=True)
        assert (word, told["Settled"][0]) == ("Deleting", "False")


def test_a_queue_that_has_not_answered_yet_leaves_the_group_unknown() -> None:
    word, told = told_of(Group(0), Problem(Reason.WAITING_FOR_QUEUE, "orders has not answered yet"))
    assert (word, told["Ready"], told["Settled"]) == ("NotReady", ("Unknown", "WaitingForQueue"), ("False", "NotReady"))


def told_partitions(partitions: int, *sights: QueueSight) -> tuple[int | None, int | None]:
    """The partitions and unowned ones in the status of a group with `partitions` in its ledger."""
    whole = summary(Group(partitions).start("a").state)
    known = partitions_are_known(whole, sights)
    status = written(group_status(group_view(), whole, GroupMembers(), FINE_SO_FAR, NOW, {}, known=known))
    assert status["members"] == 1
    return status.get("partitions"), status.get("unowned")


def sight(name: str, partitions: int | None, *, there: bool = True) -> QueueSight:
    view = queue() if there else None
    return QueueSight(QueueName(name), named=True, view=view, facts=QueueFacts(partitions=partitions))


def test_partitions_are_unknown_until_a_queue_has_answered() -> None:
    assert told_partitions(0, sight("orders", None)) == (None, None)
    assert told_partitions(0, sight("orders", None), sight("pay", None)) == (None, None)
    assert told_partitions(4, sight("orders", 4), sight("pay", None)) == (4, 0), "at least those of orders"
    assert told_partitions(4, replace(sight("orders", None), known=KnownQueue(4))) == (4, 0), "as the ledger has it"


def test_partitions_are_unknown_until_a_queue_exists() -> None:
    assert told_partitions(0, sight("orders", None, there=False)) == (None, None)
    assert told_partitions(0, sight("orders", 0), sight("pay", None, there=False)) == (None, None)
    assert told_partitions(4, sight("orders", 4), sight("pay", None, there=False)) == (4, 0), "at least those of orders"
    assert told_partitions(0, sight("orders", 0)) == (0, 0)


@pytest.mark.parametrize(("asked_for", "told"), [(2, ("True", "Settled")), (3, ("False", "Scaling")), (1, ("False", "Scaling"))])
def test_a_group_that_is_scaling_is_not_settled(asked_for: int, told: tuple[str, str]) -> None:
    assert told_of(Group(4).start("a", "b"), asked_for=asked_for)[1]["Settled"] == told


def settled(view: GroupView, *sights: QueueSight, **how: Any) -> str:
    """The message of Settled for two members."""
    told = group_conditions(view, summary(Group(4).start("a", "b").state), [*sights], [], NOW, sessions_are_bound=True, **how)
    (message,) = (message for kind, _, _, message in told if kind == "Settled")
    return message


def test_a_group_that_is_scaling_says_what_its_pods_wait_for() -> None:
    message = settled(group_view(), asked_for=3, missing="c: not Ready (Unschedulable: no cpu)")
    assert message == "2 of the 3 requested pods take part; c: not Ready (Unschedulable: no cpu)"


def test_a_settled_group_says_why_it_has_fewer_pods_than_requested() -> None:
    view = group_view(replicas=3, scale={"mode": "Spark", "steps": "EvenShares"})
    why = "; spec.replicas asks for 3, and spec.scale.steps holds the fleet at 2, which divides 4 partitions evenly"
    assert settled(view, sight("orders", 4), asked_for=2).endswith(why)


def test_a_group_scaled_to_zero_is_ready_and_settled() -> None:
    group = Group(4).start("a", "b").leave("a", "b")
    group.settle(at=20)
    assert told_of(group, asked_for=0)[0] == "Holddown", "as long as they may come back"
    group.settle(at=60)
    word, told = told_of(group, asked_for=0)
    assert (word, told["Ready"], told["Settled"], told["Balanced"]) == (
        "ScaledToZero",
        ("True", "ScaledToZero"),
        ("True", "ScaledToZero"),
        ("False", "ScaledToZero"),
    )


def test_a_halted_group_keeps_its_status_but_is_not_ready() -> None:
    whole = summary(Group(4).start("a", "b").state)
    told = group_conditions(group_view(), whole, [], [], NOW, sessions_are_bound=True, asked_for=None)
    before = group_status(group_view(), whole, GroupMembers(), told, NOW, {}).model_dump(by_alias=True, mode="json")
    halted = halted_status(replace(group_view(), status=before), Problem(Reason.INVALID_SPEC, "?"), NOW)
    assert (halted["state"], halted["partitions"]) == ("NotReady", 4)
    assert {one["type"]: one["status"] for one in halted["conditions"]} == {
        "Ready": "False",
        "Settled": "False",
        "Balanced": "True",
        "Rebalancing": "False",
        "Fenced": "True",
        "SessionsBound": "True",
    }
    gone = halted_status(replace(group_view(), status=before, deleted_at=DELETED_AT), Problem(Reason.INVALID_SPEC, "?"), NOW)
    assert gone["state"] == "Deleting"


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("reason", Reason)
def test_the_state_is_well_only_if_ready_is_true(state: State, reason: Reason) -> None:
    bad = shown_state(state, ready(Problem(reason, "mend it"), ""), deleting=False)
    assert bad is ShownState.NOT_READY
    assert shown_state(state, ready(None, "fine"), deleting=False) is not ShownState.NOT_READY


@pytest.mark.parametrize("asked_for", [None, 2])
def test_a_group_without_members_is_not_ready_unless_none_are_requested(asked_for: int | None) -> None:
    (problem,) = membership_problems("orders", "shop", GroupMembers(), asked_for)
    assert shown_state(State.READY, ready(problem, ""), deleting=False) is ShownState.NOT_READY
    assert membership_problems("orders", "shop", GroupMembers(), 0) == []
    assert shown_state(State.READY, ready(None, "", to_zero=True), deleting=False) is ShownState.SCALED_TO_ZERO


HELD_UNTIL = "1970-01-01T00:00:25Z"
PAUSE = "spec.paused is true, so nothing new begins"
ROOM = "changes wait until the ledger has room"


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
        "a holddown in which every partition has an owner",
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
        "no pod reads a queue",
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
def test_a_group_that_has_not_planned_shows_its_state_and_why_it_waits(
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
    assert (told["Ready"].status is ConditionStatus.TRUE) is not bool(problems)
    assert f"{told['Balanced'].status.value} {told['Balanced'].reason}" == balanced
    assert f"{told['Settled'].status.value} {told['Settled'].reason}" == settled
    assert said in told["Balanced"].message
    if settled.split()[1] not in ("NotReady", "Settled", "HandingOff"):
        assert said in told["Settled"].message
    if status.unowned and not problems:
        assert f"{status.unowned} of {status.partitions} partitions have no owner" in told["Ready"].message


def test_a_resumed_group_plans_at_once() -> None:
    """The states above are only displayed: the plan comes at once."""
    group = at(paused(Group(12)).join("a", "b"), 20)
    group.spec = replace(group.spec, paused=False)
    at(group, 21)
    assert shown(group).unowned == 0


def test_a_hold_that_waits_for_the_ledger_is_not_shown() -> None:
    """No step is taken before that is written."""
    group = at(Group(4).start("a", "b").leave("b"), 20)
    before = shown(group).model_dump(by_alias=True, mode="json")
    assert before["holdUntil"] == HELD_UNTIL
    group.now = 60
    refused = Problem(Reason.LEDGER_REFUSED, "?")
    status = shown(group, refused)
    assert (status.state, status.hold_until) == ("NotReady", None)
    assert "holdUntil" not in halted_status(replace(group_view(), status=before), refused, 60.0)
