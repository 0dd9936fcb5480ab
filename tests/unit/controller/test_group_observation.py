"""The engine's observation of queues that exist, are away, are unknown, or are given up."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from baton.api import ConsumerGroupSpec, PartitionedQueueSpec, sessions_required
from baton.controller.cluster_cache import ClusterCache
from baton.controller.group_observation import (
    SESSION_WITHIN,
    STARTS_WITHIN,
    GroupObjects,
    QueueFacts,
    QueueSight,
    held_back,
    in_steps,
    observation,
)
from baton.controller.problems import Problem, Reason, worst
from baton.controller.status import (
    annotation_problems,
    identity_problems,
    membership_problems,
    missing,
    object_problems,
    queue_problems,
    session_problems,
)
from baton.engine.ledger import MOST_PARTITIONS
from baton.engine.observation import ObservedMember, ObservedQueue
from baton.engine.state import KnownQueue
from baton.kube.clock import ApiServerClock
from baton.kube.members import GroupMembers, LeftOut
from baton.kube.objects import GroupView, QueueView
from baton.kube.pods import PodView
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.queues.protocol import Ownership, QueueCheck, Resizing

ORDERS = QueueName("orders")
SPEC = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}]})
GROUP = GroupView("shop", "orders", "uid", 1, SPEC)


def queue(**fields: Any) -> QueueView:
    spec = {"source": {"type": "Redis", "redis": {"url": "redis://r"}}, "partitions": 4, **fields}
    return QueueView("shop", "orders", "uid-q", 1, PartitionedQueueSpec.model_validate(spec))


def sight(**changes: Any) -> QueueSight:
    seen = QueueSight(
        ORDERS, True, queue(), QueueFacts(partitions=4, check=QueueCheck("run-1")), reachable=True, known=KnownQueue(4)
    )
    return replace(seen, **changes)


def shown(*sights: QueueSight, group: GroupView = GROUP) -> dict[QueueName, int]:
    seen = observation(group, SPEC, sights, GroupMembers())
    return {name: one.partitions for name, one in seen.queues.items()}


def many(name: str, partitions: int, recorded: int | None) -> QueueSight:
    return sight(
        name=QueueName(name), facts=QueueFacts(partitions=partitions), known=None if recorded is None else KnownQueue(recorded)
    )


@pytest.mark.parametrize(
    ("sights", "partitions"),
    [
        ([many("a", MOST_PARTITIONS, None)], [MOST_PARTITIONS]),
        ([many("a", MOST_PARTITIONS + 1, None)], []),
        ([many("a", MOST_PARTITIONS, None), many("b", 1, None)], [MOST_PARTITIONS]),
        ([many("a", MOST_PARTITIONS, None), many("b", 4, 4)], [4]),
        ([many("a", MOST_PARTITIONS, 4), many("b", 4, 4)], [4, 4]),
        ([many("a", 4, MOST_PARTITIONS), many("b", 4, 4)], [4, 4]),
    ],
)
def test_a_group_has_no_more_partitions_than_its_ledger_may_name(sights: list[QueueSight], partitions: list[int]) -> None:
    assert list(shown(*sights).values()) == partitions
    told = [one.message for one in queue_problems("shop", sights) if one.reason is Reason.SIZE_LIMIT]
    fits = partitions == [one.partitions for one in sights]
    assert (told == []) is fits
    assert fits or "move some of its queues to another group" in told[0]


AWAY = QueueFacts(problem=Problem(Reason.QUEUE_UNREACHABLE, "start it"))


@pytest.mark.parametrize(
    ("seen", "partitions"),
    [
        (sight(), {ORDERS: 4}),
        (sight(facts=QueueFacts(partitions=6, resizing=Resizing(6, 4, ()))), {ORDERS: 6}),
        # it has not answered this operator yet
        (sight(facts=AWAY), {ORDERS: 4}),
        (sight(facts=AWAY, known=None), {}),
        # it does not exist, or is to be released
        (sight(view=None, reachable=False), {}),
        (sight(view=None, reachable=False, known=None), {}),
        (sight(view=None), {ORDERS: 0}),
        (sight(view=replace(queue(), deleted_at="2026-11-22T00:00:00Z")), {ORDERS: 0}),
        (sight(named=False), {ORDERS: 0}),
        (sight(named=False, known=None), {}),
        # its spec does not read as one any more: it stays as it is
        (sight(view=replace(queue(), spec=None)), {ORDERS: 4}),
    ],
)
def test_a_queue_has_its_last_known_number_of_partitions(seen: QueueSight, partitions: dict[QueueName, int]) -> None:
    assert shown(seen) == partitions


def test_owner_records_are_observed_only_if_requested() -> None:
    owners = {0: Ownership(Uid("u"), Epoch(3))}
    known = sight(facts=QueueFacts(partitions=4, owners=owners))
    assert observation(GROUP, SPEC, [known], GroupMembers()).queues[ORDERS].owners == {}
    wanted = replace(known, owners_wanted=True)
    assert observation(GROUP, SPEC, [wanted], GroupMembers()).queues[ORDERS].owners == owners


@pytest.mark.parametrize(
    ("scale", "replicas"),
    [
        ({"mode": "Spark", "steps": "EvenShares"}, 6),
        ({"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "d"}, "steps": "EvenShares"}, 6),
        ({"mode": "Spark"}, 7),
    ],
)
def test_replicas_are_rounded_down_to_a_divisor_of_the_partitions(scale: dict[str, Any], replicas: int) -> None:
    spec = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "replicas": 7, "scale": scale})
    given_up = sight(name=QueueName("former"), named=False)
    assert in_steps(spec, [many("a", 8, None), many("b", 10, 10), given_up]).replicas == replicas
    assert in_steps(spec, [sight(facts=QueueFacts(), known=None)]).replicas == 7, "the number of partitions is unknown"


@pytest.mark.parametrize(
    ("steps", "replicas", "why"),
    [
        (
            "EvenShares",
            3,
            "spec.replicas asks for 3, and spec.scale.steps holds the fleet at 1, which divides 13 partitions evenly",
        ),
        ("EvenShares", 13, ""),
        ("Every", 3, ""),
    ],
)
def test_a_fleet_smaller_than_requested_is_explained(steps: str, replicas: int, why: str) -> None:
    scale = {"mode": "Spark", "steps": steps}
    spec = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "replicas": replicas, "scale": scale})
    assert held_back(spec, [many("a", 13, None)]) == why


def test_a_groups_own_times_override_its_queues() -> None:
    slow = sight(view=queue(rebalance={"delaySeconds": 9, "maxHandoffSeconds": 8}))
    seen = observation(GROUP, SPEC, [slow], GroupMembers())
    assert (seen.spec.delay, seen.queues[ORDERS].max_handoff) == (9.0, 8.0)
    spec = ConsumerGroupSpec.model_validate(
        {"queues": [{"name": "orders"}], "rebalance": {"delaySeconds": 0, "maxHandoffSeconds": 1}}
    )
    seen = observation(GROUP, spec, [slow], GroupMembers())
    assert (seen.spec.delay, seen.queues[ORDERS].max_handoff) == (0.0, 1.0)


def test_an_external_queue_is_never_fenced() -> None:
    seen = sight(view=queue(source={"type": "External", "external": {"onDeadline": "Force"}}))
    made = observation(GROUP, SPEC, [seen], GroupMembers()).queues[ORDERS]
    assert (made.fenced, made.on_deadline) == (False, "Force")


def test_a_group_being_deleted_waits_for_nothing() -> None:
    seen = observation(replace(GROUP, deleted_at="2026-11-22T00:00:00Z"), SPEC, [sight(named=False)], GroupMembers())
    assert (seen.spec.delay, seen.spec.paused) == (0.0, False)
    assert (seen.queues[ORDERS].partitions, seen.queues[ORDERS].given_up) == (0, True)
    assert not observation(GROUP, SPEC, [sight()], GroupMembers()).queues[ORDERS].given_up


def test_pods_that_may_still_work_are_observed_as_away() -> None:
    away = {MemberId("a"): Uid("u-a")}
    assert observation(GROUP, SPEC, [sight()], GroupMembers(away=away)).away == away


@pytest.mark.parametrize(
    ("seen", "reason", "said"),
    [
        (sight(), None, ""),
        (sight(view=None), Reason.QUEUE_NOT_FOUND, "create it"),
        (sight(view=replace(queue(), deleted_at="2026-11-22T00:00:00Z")), Reason.QUEUE_NOT_FOUND, "is being deleted"),
        (
            sight(view=replace(queue(), spec=None, problem="spec.partitions: not a number")),
            Reason.INVALID_SPEC,
            "spec.partitions",
        ),
        (sight(facts=AWAY), Reason.QUEUE_UNREACHABLE, "start it"),
        (sight(named=False, facts=AWAY), Reason.QUEUE_UNREACHABLE, "start it"),
        (sight(named=False), None, ""),
    ],
)
def test_a_problem_with_a_queue_comes_with_the_cure(seen: QueueSight, reason: Reason | None, said: str) -> None:
    problems = queue_problems("shop", [seen])
    assert [problem.reason for problem in problems] == ([reason] if reason else [])
    assert all(said in problem.message for problem in problems)


def test_a_group_without_members_says_what_is_missing() -> None:
    (problem,) = membership_problems("orders", "shop", GroupMembers())
    assert (problem.reason, "add it to the pods' template" in problem.message) == (Reason.NO_MEMBERS, True)
    left_out = {MemberId("b"): LeftOut.NOT_READY, MemberId("a"): LeftOut.NOT_READY, MemberId("c"): LeftOut.NO_SESSION}
    (unready,) = membership_problems("orders", "shop", GroupMembers(pods=3, left_out=left_out))
    assert unready.message == (
        "3 pods have the label baton.dev/group: orders, and none takes part: a, b: not Ready; c: no session: it keeps no Lease, "
        "and spec.membership.session is Required"
    )


NO_EXECUTOR = "no executor with the label baton.dev/group: orders is there (yet)"
NO_ROOM = "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            GroupMembers(drivers={MemberId("orders-driver-x"): "MissingRights: no"}),
            f"the driver orders-driver-x failed: MissingRights: no; {NO_EXECUTOR}",
        ),
        (
            GroupMembers(idle_drivers={MemberId("orders-driver-x"): f"is not Ready ({NO_ROOM})"}),
            f"the driver orders-driver-x is not Ready ({NO_ROOM}); {NO_EXECUTOR}",
        ),
        (
            GroupMembers(
                pods=2,
                left_out={MemberId(name): LeftOut.NOT_READY for name in "ab"},
                unready={MemberId("a"): NO_ROOM, MemberId("b"): NO_ROOM},
            ),
            f"2 pods have the label baton.dev/group: orders, and none takes part: a, b: not Ready ({NO_ROOM})",
        ),
    ],
)
def test_a_group_whose_pods_are_waiting_says_what_for(seen: GroupMembers, said: str) -> None:
    (problem,) = membership_problems("orders", "shop", seen)
    assert (problem.reason, problem.message) == (Reason.NO_MEMBERS, said)


def test_ended_and_stopping_pods_are_mentioned_if_there_are_no_others() -> None:
    (problem,) = membership_problems("orders", "shop", GroupMembers(ended=2, stopping=1))
    assert "has the label baton.dev/group: orders but 2 that have ended and one that is stopping; add it" in problem.message


def test_the_reason_why_fewer_pods_take_part_is_given() -> None:
    taking_part = {MemberId("a"): ObservedMember(Uid("a"))}
    left_out = {MemberId(name): LeftOut.NOT_READY for name in "bc"} | {MemberId("d"): LeftOut.NO_SESSION}
    unready = {MemberId("b"): NO_ROOM, MemberId("c"): NO_ROOM}
    seen = GroupMembers(members=taking_part, pods=4, left_out=left_out, unready=unready)
    assert missing("orders", seen, 4).startswith(f"b, c: not Ready ({NO_ROOM}); d: no session: ")
    assert missing("orders", GroupMembers(members=taking_part, pods=1), 4) == "1 pod is there"
    assert missing("orders", seen, 1) == missing("orders", seen, None) == ""
    many = {MemberId(f"p-{number:02}"): LeftOut.NOT_READY for number in range(20)}
    told = missing("orders", GroupMembers(pods=20, left_out=many, unready={name: name for name in many}), 20)
    assert told.count("not Ready") == 5 and told.endswith("; and 15 more pods")


def test_pods_without_a_session_are_named_with_the_cure() -> None:
    assert session_problems([]) == []
    (problem,) = session_problems(["nginx", "b", "c", "d"])
    assert problem.reason is Reason.NO_SESSION
    assert problem.message.startswith("b, c, d and 1 more pod: Ready, and without a session: there is no Lease such as baton-b ")
    assert problem.message.endswith("set spec.membership.session to Optional")


def test_members_that_are_all_stopping_cannot_take_unowned_partitions() -> None:
    going = GroupMembers({MemberId(name): ObservedMember(Uid(name), terminating=True) for name in "ab"})
    assert membership_problems("orders", "shop", going, unowned=0) == [], "they work on what they have"
    (problem,) = membership_problems("orders", "shop", going, unowned=12)
    assert problem.reason is Reason.NO_MEMBERS
    assert (
        "a, b are stopping and get no more partitions, and no other pod has the label baton.dev/group: orders" in problem.message
    )
    assert membership_problems("orders", "shop", going, 0, unowned=12) == [], "none is asked for"
    staying = GroupMembers({**going.members, MemberId("c"): ObservedMember(Uid("c"))}, pods=1)
    assert membership_problems("orders", "shop", staying, unowned=12) == []


def test_unreadable_leases_are_reported_up_to_a_limit() -> None:
    seen = GroupMembers(members={MemberId("a"): ObservedMember(Uid("u"))}, unread={f"baton-{n}": "bad" for n in range(1000)})
    problems = membership_problems("orders", "shop", seen)
    assert [problem.message for problem in problems[:2]] == ["Lease shop/baton-0: bad", "Lease shop/baton-1: bad"]
    assert len(problems) == 5


def test_problems_of_a_whole_fleet_are_reported_for_its_first_pods() -> None:
    pods = [pod(f"p{n:04}", problems=(f"wrong in way {n}",)) for n in range(1000)]
    assert [problem.message for problem in annotation_problems(SPEC, pods)] == [f"p{n:04}: wrong in way {n}" for n in range(5)]


def test_the_worst_problem_is_reported_with_all_of_its_kind() -> None:
    problems = [
        Problem(Reason.NO_MEMBERS, "no pods"),
        Problem(Reason.QUEUE_UNREACHABLE, "b is down"),
        Problem(Reason.QUEUE_UNREACHABLE, "a is down"),
    ]
    assert worst(problems) == Problem(Reason.QUEUE_UNREACHABLE, "a is down; b is down")
    assert worst([]) is None


def test_zones_weights_and_options_reach_the_engine() -> None:
    entries = [{"partitions": "0-1", "zones": ["east"], "weight": 2}]
    spec = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "assignorOptions": {"rooms": ["east"]}})
    seen = observation(GROUP, spec, [sight(view=queue(partitionAttributes=entries))], GroupMembers())
    made = seen.queues[ORDERS]
    assert (made.zones, made.weights) == (((0, 1, frozenset({"east"})),), ((0, 1, Fraction(2)),))
    assert seen.spec.options == {"rooms": frozenset({"east"})}


def test_zones_reported_by_a_queue_are_used_unless_the_spec_has_some() -> None:
    east, west = frozenset({"east"}), frozenset({"west"})
    facts = QueueFacts(partitions=4, check=QueueCheck(zones={0: "east", 1: "east", 3: "west"}))

    source = {"type": "Kafka", "kafka": {"bootstrapServers": "broker:9092", "topic": "orders"}}

    def made(seen: QueueFacts, **spec: Any) -> ObservedQueue:
        sights = [sight(view=queue(source=source, partitions=None, **spec), facts=seen)]
        return observation(GROUP, SPEC, sights, GroupMembers()).queues[ORDERS]

    assert made(facts).zones == ((0, 1, east), (3, 3, west)) and made(facts).zones_known
    assert not made(AWAY).zones_known
    by_spec = made(AWAY, partitionAttributes=[{"partitions": "0-3", "zones": ["west"]}])
    assert by_spec.zones == ((0, 3, west),) and by_spec.zones_known


def test_attributes_beyond_the_queue_are_reported() -> None:
    seen = sight(view=queue(partitionAttributes=[{"partitions": "2-9", "weight": 2}]))
    (problem,) = queue_problems("shop", [seen])
    assert (problem.reason, "names partition 9, but the queue has 4 (0 to 3)" in problem.message) == (
        Reason.INVALID_ATTRIBUTES,
        True,
    )


def pod(name: str, **fields: Any) -> PodView:
    return PodView("shop", MemberId(name), Uid(name), "orders", **fields)


def test_the_same_mistake_of_many_pods_is_reported_once() -> None:
    (problem,) = annotation_problems(SPEC, [pod(name, problems=("annotation x: no",)) for name in "edcba"])
    assert problem == Problem(Reason.BAD_ANNOTATION, "a, b, c and 2 more pods: annotation x: no")


def test_a_pod_that_subscribes_to_none_of_the_queues_is_reported() -> None:
    slip = pod("a", subscribed=frozenset({QueueName("ordres")}))
    fine = pod("b", subscribed=frozenset({ORDERS, QueueName("soon")}))
    (problem,) = annotation_problems(SPEC, [slip, fine, pod("c")])
    assert problem.reason is Reason.BAD_ANNOTATION
    assert problem.message.startswith("a: annotation baton.dev/subscribed names 'ordres', which spec.queues does not: ")
    assert "name one of orders there" in problem.message


def test_an_unreadable_annotation_is_reported_once() -> None:
    refused = pod("a", subscribed=frozenset(), problems=("annotation baton.dev/subscribed has 100,000 characters",))
    assert [problem.message for problem in annotation_problems(SPEC, [refused])] == [f"a: {refused.problems[0]}"]


def test_pods_without_a_static_identity_are_reported() -> None:
    membership = {"identityLabel": "app/index", "sessionTimeoutSeconds": 60}
    static = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "membership": membership})
    seen = [
        pod("a", ready_since=1.0),
        pod("b", ready_since=1.0, labels=(("app/index", "1"),)),
        pod("c"),
        pod("d", ready_since=1.0, terminating=True),
    ]
    (problem,) = identity_problems(static, seen)
    assert problem.reason is Reason.NO_IDENTITY
    assert problem.message.startswith("a: no label app/index, which spec.membership.identityLabel names")
    assert identity_problems(SPEC, seen) == []


KEY = ("shop", "orders")
EXTERNAL = {"type": "External"}
REDIS = {"type": "Redis", "redis": {"url": "redis://r"}}


def spec(session: str | None = None) -> ConsumerGroupSpec:
    return ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "membership": {"session": session}})


def queue_of(source: dict[str, Any]) -> PartitionedQueueSpec:
    return PartitionedQueueSpec.model_validate({"source": source, "partitions": 4})


@pytest.mark.parametrize(
    ("session", "sources", "required"),
    [
        (None, [REDIS], True),
        (None, [EXTERNAL], False),
        (None, [EXTERNAL, REDIS], True),
        (None, [], False),
        ("Required", [EXTERNAL], True),
        ("Optional", [REDIS], False),
    ],
)
def test_sessions_are_required_if_a_queues_consumers_keep_them(
    session: str | None, sources: list[dict[str, Any]], required: bool
) -> None:
    assert sessions_required(spec(session), map(queue_of, sources)) is required


class Seen:
    """A pod that is Ready, and perhaps its Lease."""

    def __init__(self) -> None:
        self.cache = ClusterCache(ApiServerClock())
        self.sight = GroupObjects(KEY, "uid", self.cache)
        self._version = 0

    def _metadata(self, name: str) -> dict[str, Any]:
        self._version += 1
        labels = {"baton.dev/group": "orders"}
        return {"namespace": "shop", "name": name, "uid": f"u-{name}", "labels": labels, "resourceVersion": str(self._version)}

    def pod(self, name: str, ready: bool = True) -> None:
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-11-21T10:00:00Z"}]
        self.cache.pods.event("ADDED", {"metadata": self._metadata(name), "status": {"conditions": conditions}})

    def lease(self, pod: str, trouble: str | None = None, holder: str | None = None) -> None:
        said = {} if trouble is None else {"annotations": {"baton.dev/trouble": trouble}}
        lease = {"metadata": self._metadata(f"baton-{pod}") | said, "spec": {"holderIdentity": holder or f"u-{pod}"}}
        self.cache.leases.event("MODIFIED", lease)

    def told(self, now: float) -> list[str]:
        return [message.split(":")[0] for message in self.messages(Reason.NO_SESSION, now)]

    def messages(self, reason: Reason, now: float = 100.0) -> list[str]:
        view = QueueView("shop", "orders", "uid-q", 1, queue_of(REDIS))
        sights = [QueueSight(QueueName("orders"), True, view, QueueFacts(partitions=4))]
        seen = self.sight.membership(spec(), sights, now)
        problems = object_problems(self.sight, spec(), seen, now, None, 0)
        return [problem.message for problem in problems if problem.reason is reason]

    def empty(self, asked_for: int | None, now: float) -> list[tuple[str, bool]]:
        """What is said where no member is, and whether it is expected."""
        scale = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "shop"}}
        scaled = ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "scale": scale})
        seen = self.sight.membership(scaled, (), now)
        problems = object_problems(self.sight, scaled, seen, now, asked_for, 0)
        return [(one.message, one.expected) for one in problems if one.reason is Reason.NO_MEMBERS]


def test_pods_that_were_just_requested_are_waited_for_before_a_cure_is_given() -> None:
    one = Seen()
    assert one.empty(0, 0.0) == []
    assert one.empty(3, 100.0) == [("waiting for 3 pods of Deployment shop", True)], "it was scaled from zero"
    assert list(one.sight.due_after(100.0)) == [100.0 + STARTS_WITHIN]
    one.pod("a", ready=False)
    ((message, expected),) = one.empty(3, 110.0)
    assert "none takes part: a: not Ready" in message and expected
    ((message, expected),) = one.empty(3, 100.0 + STARTS_WITHIN)
    assert "none takes part: a: not Ready" in message and not expected
    ((message, expected),) = Seen().empty(None, 0.0)
    assert "add it to the pods' template" in message and expected, "how many there are to be is not known"
    starting = GroupMembers(pods=1, left_out={MemberId("e"): LeftOut.NO_DRIVER})
    (problem,) = membership_problems("orders", "shop", starting, starts=True)
    assert problem.message.endswith("none takes part: e: no driver holds the Lease orders-driver yet") and problem.expected
    hangs = replace(starting, left_out={MemberId("e"): LeftOut.LAPSED})
    assert not membership_problems("orders", "shop", hangs, starts=True)[0].expected


def test_a_pod_without_a_session_is_reported_after_a_grace_period() -> None:
    one = Seen()
    one.pod("a")
    assert one.told(100.0) == []
    assert min(one.sight.due_after(100.0)) == 100.0 + SESSION_WITHIN, "it is looked at then, though nothing happens"
    one.pod("b")
    assert one.told(110.0) == []
    assert one.told(100.0 + SESSION_WITHIN) == ["a"]
    assert one.told(110.0 + SESSION_WITHIN) == ["a, b"]
    one.lease("a")
    assert one.told(200.0) == ["b"]
    one.pod("b", ready=False)
    assert one.told(201.0) == []
    one.pod("b")
    assert one.told(202.0) == [], "its time begins again"


def test_a_members_own_trouble_is_reported_in_its_words() -> None:
    one = Seen()
    for name in ("a", "b", "c"):
        one.pod(name)
        one.lease(name, "Redis at r:6379, database 7, has no partition 0")
    one.lease("c", "its\nwords " + 2000 * "x")
    same, long = one.messages(Reason.MEMBER_CUT_OFF)
    assert same == "a, b: Redis at r:6379, database 7, has no partition 0"
    assert long.startswith("c: its words x") and len(long) < 700
    one.lease("a", "")
    one.lease("b", "of an earlier pod of that name", holder="u-before")
    one.pod("c", ready=False)
    assert one.messages(Reason.MEMBER_CUT_OFF) == []
