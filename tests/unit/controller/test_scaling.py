"""The size of a fleet: by the group's spec, or by a workload that others scale."""

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from baton.api import ConsumerGroupSpec
from baton.controller.problems import EventReason
from baton.controller.scaling import Scaler, Scaling, Target, victims
from baton.controller.supervision import Tasks
from baton.engine.observation import ObservedMember
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError
from baton.kube.members import GroupMembers
from baton.kube.pods import DELETION_COST, PodView
from baton.model.ids import MemberId, Uid
from tests.simulation.api_server import ApiServer, Fault, MemoryApi, Refuse
from tests.waiting import PATIENCE, eventually

REFERENCE = {"kind": "Deployment", "name": "consumers"}
TARGET = {"mode": "Workload", "targetRef": REFERENCE}
OF_OTHERS = {"mode": "External", "targetRef": REFERENCE}
GROUP = "/apis/baton.dev/v1alpha1/namespaces/shop/consumergroups/orders"
NO_PODS = GroupMembers()
ONE_POD = GroupMembers({MemberId("a"): ObservedMember(Uid("u"))}, pods=1)


def spec(**fields: Any) -> ConsumerGroupSpec:
    return ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], **fields})


class Workload(MemoryApi):
    """One Deployment, of which only the size is looked at, and the group that names it."""

    def __init__(self) -> None:
        self.replicas = 3
        self.group: dict[str, Any] = {"queues": [{"name": "orders"}], "scale": TARGET}
        """Its spec."""
        self.version = 1
        self.meanwhile: list[dict[str, Any]] = []
        """What others write into the group's spec, each after the operator has read it."""
        self.asked = 0
        self.fault: Fault | None = None
        super().__init__(ApiServer(Random(1), lambda: 0.0), lambda verb, path: self.fault)

    async def get(self, path: str, **query: str) -> Any:
        if self.fault is not None:
            return await super().get(path, **query)
        if path == "/apis/apps/v1":
            return {"resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}]}
        if path == GROUP:
            metadata = {"namespace": "shop", "name": "orders", "uid": "g", "resourceVersion": str(self.version)}
            read = {"metadata": metadata, "spec": dict(self.group)}
            if self.meanwhile:
                self.group |= self.meanwhile.pop(0)
                self.version += 1
            return read
        assert path == "/apis/apps/v1/namespaces/shop/deployments/consumers/scale"
        self.asked += 1
        return {"spec": {"replicas": self.replicas}}

    async def merge(self, path: str, body: Any) -> Any:
        if self.fault is not None or path != GROUP:
            return await super().merge(path, body)
        if body["metadata"] != {"uid": "g", "resourceVersion": str(self.version)}:
            raise ConflictError(409, "Conflict", "the object has been modified")
        self.group |= body["spec"]
        self.version += 1
        return {}


@pytest.fixture
def workload() -> Workload:
    return Workload()


def made(workload: Workload) -> Scaling:
    return Scaling(("shop", "orders"), "g", Scaler(workload), Tasks(ApiServerClock()), lambda: None)


@pytest.fixture
def scaling(workload: Workload) -> Scaling:
    return made(workload)


async def done() -> None:
    """What was begun has ended."""
    while tasks := [task for task in asyncio.all_tasks() if task.get_name() in ("scale", "target-size")]:
        await asyncio.wait(tasks)
    await asyncio.sleep(0)  # for the callbacks of what has ended


async def applied(scaling: Scaling, asked: ConsumerGroupSpec, seen: GroupMembers, pods: list[PodView], **more: Any) -> None:
    scaling.apply(asked, seen, pods, more.pop("owned", {}), **more)
    await done()


async def look(scaling: Scaling, seen: GroupMembers = NO_PODS, **fields: Any) -> int | None:
    asked = spec(**fields)
    await applied(scaling, asked, seen, [])
    return scaling.asked_for(asked)


async def test_the_requested_size_is_known(scaling: Scaling) -> None:
    assert await look(scaling) is None
    assert await look(scaling, scale={"mode": "Spark"}, replicas=0) == 0
    assert await look(scaling, scale={"mode": "Spark"}, replicas=2) == 2


async def test_unset_replicas_are_set_to_the_present_size_and_reported_once(workload: Workload) -> None:
    scaling = made(workload)
    asked = spec(scale=TARGET)
    assert scaling.apply(asked, NO_PODS, [], {}) is None
    await done()
    assert workload.group["replicas"] == 3
    told = [scaling.apply(asked, NO_PODS, [], {}) for _ in range(2)]
    set_to = (EventReason.REPLICAS_SET, "set spec.replicas, which was absent, to 3, the size of Deployment shop/consumers")
    assert told == [set_to, None]


async def test_replicas_set_by_others_meanwhile_stay(scaling: Scaling, workload: Workload) -> None:
    workload.meanwhile = [{"paused": True}, {"replicas": 5}]
    await look(scaling, scale=TARGET)
    assert workload.group["replicas"] == 5 and workload.version == 3
    assert scaling.problem is None
    workload.group = {"queues": [{"name": "orders"}], "scale": OF_OTHERS}
    await look(scaling, scale=TARGET)
    assert "replicas" not in workload.group, "others scale it by now"


async def test_replicas_are_set_again_after_they_were_removed(scaling: Scaling, workload: Workload) -> None:
    await look(scaling, scale=TARGET)
    await look(scaling, scale=TARGET, replicas=3)
    del workload.group["replicas"]
    await look(scaling, scale=TARGET)
    assert workload.group["replicas"] == 3


async def test_a_workload_whose_size_cannot_be_read_is_a_problem_until_it_can(scaling: Scaling, workload: Workload) -> None:
    workload.fault = Refuse(403, "Forbidden", "no")
    await look(scaling, scale=TARGET)
    refused = scaling.problem
    assert refused is not None and "spec.replicas cannot be set" in refused.message
    workload.fault = None
    await look(scaling, scale=TARGET)
    assert scaling.problem is None
    assert workload.group["replicas"] == 3


async def test_the_size_of_an_externally_scaled_workload_is_only_read(scaling: Scaling, workload: Workload) -> None:
    workload.group["scale"] = OF_OTHERS
    assert await look(scaling, scale=OF_OTHERS) == 3
    workload.replicas = 0
    assert scaling.recheck()
    assert await look(scaling, scale=OF_OTHERS) == 0
    workload.replicas = 2
    assert scaling.recheck()
    assert await look(scaling, ONE_POD, scale=OF_OTHERS) == 2
    assert workload.replicas == 2 and "replicas" not in workload.group


async def test_a_workload_of_zero_requests_no_pods_while_its_pods_stop(scaling: Scaling, workload: Workload) -> None:
    workload.replicas = 0
    stopping = GroupMembers({MemberId("a"): ObservedMember(Uid("u"), terminating=True)})
    assert await look(scaling, stopping, scale=OF_OTHERS) == 0


async def test_the_size_is_read_again_only_if_the_number_of_pods_changed(scaling: Scaling, workload: Workload) -> None:
    for _ in range(3):
        await look(scaling, ONE_POD, scale=OF_OTHERS)
    assert workload.asked == 1
    for _ in range(3):
        await look(scaling, scale=OF_OTHERS)
    assert workload.asked == 2


async def test_a_group_with_more_pods_than_its_workload_has_no_known_size(scaling: Scaling, workload: Workload) -> None:
    workload.replicas = 1
    assert await look(scaling, GroupMembers(pods=1), scale=OF_OTHERS) == 1
    assert await look(scaling, GroupMembers(pods=2), scale=OF_OTHERS) is None


async def test_a_size_that_cannot_be_read_is_a_problem_until_it_can(scaling: Scaling, workload: Workload) -> None:
    workload.fault = Refuse(403, "Forbidden", "no")
    assert await look(scaling, scale=OF_OTHERS) is None
    assert scaling.problem is not None
    assert "spec.scale: the size of Deployment shop/consumers cannot be read" in scaling.problem.message
    assert "rbac.scaleTargets" in scaling.problem.message
    workload.fault = None
    assert scaling.recheck()
    assert await look(scaling, scale=OF_OTHERS) == 3
    assert scaling.problem is None


async def test_an_external_size_is_forgotten_when_the_mode_changes(scaling: Scaling, workload: Workload) -> None:
    workload.fault = Refuse(403, "Forbidden", "no")
    await look(scaling, scale=OF_OTHERS)
    assert scaling.recheck()
    await look(scaling)
    assert not scaling.recheck(), "nothing is left to look at"


class Pods(Workload):
    """The same, and pods of which only the deletion cost is looked at. Some refuse to be changed."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.costs: dict[str, str | None] = dict.fromkeys(names or ("a", "b"))
        self.refuse: set[str] = set()
        self.said = "a webhook says no"
        self.written: list[str] = []
        """Pods, and the workload's size."""

    async def merge(self, path: str, body: Any) -> Any:
        if self.fault is not None:
            return await super().merge(path, body)
        await asyncio.sleep(0)
        if path == GROUP:
            return await super().merge(path, body)
        if "/pods/" not in path:
            self.replicas = body["spec"]["replicas"]
            self.written.append(f"{self.replicas} replicas")
            return {}
        pod = path.rsplit("/", 1)[-1]
        if pod in self.refuse:
            raise ApiError(403, "Forbidden", self.said)
        self.costs[pod] = body["metadata"]["annotations"][DELETION_COST]
        self.written.append(pod)
        return {}

    @property
    def views(self) -> list[PodView]:
        return [
            PodView("shop", MemberId(name), Uid(f"u-{name}"), "orders", deletion_cost=cost) for name, cost in self.costs.items()
        ]


BOTH = GroupMembers({MemberId(name): ObservedMember(Uid(f"u-{name}")) for name in ("a", "b")}, pods=2)


@pytest.mark.parametrize("fields", [{"scale": TARGET}, {"scale": {"mode": "Spark"}, "replicas": 1}, {}], ids=str)
@pytest.mark.parametrize("seen_late", [False, True])
async def test_pods_lose_their_deletion_cost_when_nothing_is_scaled(fields: dict[str, Any], seen_late: bool) -> None:
    pods = Pods()
    scaling = made(pods)
    before = pods.views
    await applied(scaling, spec(scale=TARGET, replicas=1), BOTH, pods.views)
    assert sorted(map(str, pods.costs.values())) == ["-1000", "None"]
    if seen_late:
        await applied(scaling, spec(**fields), BOTH, before)
    pods.fault = Refuse(503, "", "away")
    await applied(scaling, spec(**fields), BOTH, pods.views)
    assert scaling.problem is not None and scaling.recheck(), "it is tried again"
    pods.fault = None
    await applied(scaling, spec(**fields), BOTH, pods.views)
    assert set(pods.costs.values()) == {None}
    assert scaling.problem is None


async def test_a_reworded_refusal_causes_no_immediate_retry() -> None:
    pods, woken = Pods(), 0

    def changed() -> None:
        nonlocal woken
        woken += 1

    scaling = Scaling(("shop", "orders"), "g", Scaler(pods), Tasks(ApiServerClock()), changed)
    await applied(scaling, spec(scale=TARGET, replicas=1), BOTH, pods.views)
    pods.refuse = {"a", "b"}
    for number in range(5):
        pods.said = f"request {number} was denied"
        await applied(scaling, spec(scale=OF_OTHERS), BOTH, pods.views)
        assert scaling.problem is not None and pods.said in scaling.problem.message
    assert woken == 2, "it was scaled, and then a mark was refused"


@pytest.mark.parametrize(("fields", "left"), [({"scale": TARGET}, None), ({}, "-1000")])
async def test_a_new_leader_removes_marks_of_the_former_one_but_not_users(fields: dict[str, Any], left: str | None) -> None:
    pods = Pods()
    pods.costs["a"] = "-1000"
    made(pods).apply(spec(**fields), BOTH, pods.views, {})
    await done()
    assert pods.costs["a"] == left


async def test_a_workload_shrinks_once_all_its_candidates_are_marked() -> None:
    pods = Pods(*"abcdefghijkl")
    members = GroupMembers({MemberId(name): ObservedMember(Uid(f"u-{name}")) for name in pods.costs}, pods=12)
    scaling = made(pods)
    asked = spec(scale=TARGET, replicas=1)
    pods.refuse = {"c"}
    await applied(scaling, asked, members, pods.views, owned={MemberId("a"): 1})
    assert sorted(pods.written) == [*"bdefghijkl"], "a refusal delays no other pod, and the size waits"
    refused = scaling.problem
    assert refused is not None and "changed: c: 403 Forbidden: a webhook says no" in refused.message
    pods.refuse = set()
    await applied(scaling, asked, members, pods.views, owned={MemberId("a"): 1})
    assert pods.written[-2:] == ["c", "1 replicas"] and scaling.problem is None
    told = [scaling.apply(asked, members, pods.views, {MemberId("a"): 1}) for _ in range(2)]
    assert told == [(EventReason.SCALED, "scaled Deployment shop/consumers from 3 to 1"), None]


async def test_the_event_says_why_another_size_was_chosen() -> None:
    pods = Pods("a")
    scaling = made(pods)
    asked = spec(scale=TARGET, replicas=1)
    scaling.apply(asked, BOTH, pods.views, {}, "spec.replicas asks for 3")
    await done()
    assert scaling.apply(asked, BOTH, pods.views, {}) == (
        EventReason.SCALED,
        "scaled Deployment shop/consumers from 3 to 1: spec.replicas asks for 3",
    )


async def test_an_outdated_size_is_not_applied() -> None:
    pods = Pods()
    scaling = made(pods)
    scaling.apply(spec(scale=TARGET, replicas=1), BOTH, pods.views, {})
    await applied(scaling, spec(scale=TARGET, replicas=2), BOTH, pods.views)
    await applied(scaling, spec(scale=TARGET, replicas=2), BOTH, pods.views)
    assert pods.written == ["2 replicas"] and pods.replicas == 2


class OddAtFirst(Scaler):
    """An API server with an unexpected first answer."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.asked = 0

    async def size(self, target: Target) -> int:
        self.asked += 1
        if self.asked == 1:
            raise KeyError("kind")
        return 4


async def test_an_unexpected_failure_is_retried(workload: Workload) -> None:
    scaler, changed, tasks = OddAtFirst(workload), asyncio.Event(), Tasks(ApiServerClock())
    scaling, asked = Scaling(("shop", "orders"), "g", scaler, tasks, changed.set), spec(scale=OF_OTHERS)
    scaling.apply(asked, ONE_POD, [], {})

    async def failed() -> bool:
        return tasks.failures["target-size"] == 1

    await eventually(failed, "that is told")
    scaling.recheck()
    scaling.apply(asked, ONE_POD, [], {})
    async with asyncio.timeout(PATIENCE):
        await changed.wait()
    assert (scaling.asked_for(asked), scaler.asked) == (4, 2)


OWNED = {MemberId("old"): 2, MemberId("young"): 2, MemberId("busy"): 5}
JOINED = {"old": 1.0, "young": 9.0, "idle": 0.0, "busy": 20.0}
FLEET = {MemberId(name): ObservedMember(Uid(name), joined=joined) for name, joined in JOINED.items()}
PODS = [PodView("shop", name, Uid(name), "orders", ready_since=FLEET[name].joined) for name in FLEET]


def test_victims_own_the_fewest_partitions_and_then_are_the_youngest() -> None:
    assert victims(PODS, FLEET, OWNED, 4) == set()
    assert victims(PODS, FLEET, OWNED, 3) == {"idle"}
    assert victims(PODS, FLEET, OWNED, 2) == {"idle", "young"}
    assert victims(PODS, FLEET, OWNED, 0) == set(FLEET)


def test_a_draining_pod_is_the_first_victim_among_members() -> None:
    pods = [replace(pod, draining=pod.name == "busy") for pod in PODS]
    assert victims(pods, FLEET, OWNED, 3) == {"busy"}


def test_pods_that_take_no_part_are_lost_before_members() -> None:
    stuck, starting = (replace(PODS[0], name=MemberId(name)) for name in ("stuck", "starting"))
    pods = [*PODS, stuck, replace(starting, ready_since=None)]
    assert victims(pods, FLEET, OWNED, 5) == {"starting"}
    assert victims(pods, FLEET, OWNED, 4) == {"starting", "stuck"}
    assert victims(pods, FLEET, OWNED, 3) == {"starting", "stuck", "idle"}


def test_stopping_and_ended_pods_do_not_count() -> None:
    pods = [
        *PODS,
        replace(PODS[0], name=MemberId("stops"), terminating=True),
        replace(PODS[0], name=MemberId("done"), ended=True),
    ]
    assert victims(pods, FLEET, OWNED, 4) == set()
