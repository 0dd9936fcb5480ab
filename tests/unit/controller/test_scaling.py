"""How many pods there are to be: by the group's spec, or by the workload that somebody else scales."""

import asyncio
from random import Random
from typing import Any

import pytest

from baton.api import ConsumerGroupSpec
from baton.controller.scaling import Scaling
from baton.controller.supervision import Tasks
from baton.engine.observation import ObservedMember
from baton.kube.api import ApiError
from baton.kube.clock import ApiServerClock
from baton.kube.members import GroupMembers
from baton.kube.pods import DELETION_COST, PodView
from baton.kube.scale import Scaler
from baton.model.ids import MemberId, Uid
from tests.simulation.api_server import ApiServer, Fault, MemoryApi, Refuse

TARGET = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "consumers"}}
NOBODY = GroupMembers()
SOMEBODY = GroupMembers({MemberId("a"): ObservedMember(Uid("u"))}, pods=1)


def spec(**fields: Any) -> ConsumerGroupSpec:
    return ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], **fields})


class Workload(MemoryApi):
    """One Deployment, of which only the size is looked at."""

    def __init__(self) -> None:
        self.replicas = 3
        self.asked = 0
        self.fault: Fault | None = None
        super().__init__(ApiServer(Random(1), lambda: 0.0), lambda verb, path: self.fault)

    async def get(self, path: str, **query: str) -> Any:
        if self.fault is not None:
            return await super().get(path, **query)
        if path == "/apis/apps/v1":
            return {"resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}]}
        assert path == "/apis/apps/v1/namespaces/shop/deployments/consumers/scale"
        self.asked += 1
        return {"spec": {"replicas": self.replicas}}


@pytest.fixture
def workload() -> Workload:
    return Workload()


def made(workload: Workload) -> Scaling:
    return Scaling(("shop", "orders"), Scaler(workload), Tasks(ApiServerClock()), lambda: None)


@pytest.fixture
def scaling(workload: Workload) -> Scaling:
    return made(workload)


async def done() -> None:
    """What was begun has ended."""
    if tasks := [task for task in asyncio.all_tasks() if task.get_name() == "scale"]:
        await asyncio.wait(tasks)
    await asyncio.sleep(0)  # who waits for it hears of it


async def look(scaling: Scaling, seen: GroupMembers = NOBODY, **fields: Any) -> int | None:
    asked = spec(**fields)
    await scaling.apply(asked, seen, [], {})
    return scaling.asked_for(asked)


async def test_what_the_spec_asks_for_is_known(scaling: Scaling) -> None:
    assert await look(scaling) is None
    assert await look(scaling, scale={"mode": "Spark"}, replicas=0) == 0
    assert await look(scaling, scale={"mode": "Spark"}, replicas=2) == 2


async def test_a_workload_that_was_scaled_to_zero_asks_for_nobody(scaling: Scaling, workload: Workload) -> None:
    assert await look(scaling, scale=TARGET) is None, "it has a size, and its pods are to come"
    workload.replicas = 0
    assert scaling.recheck()
    assert await look(scaling, scale=TARGET) == 0
    workload.replicas = 2
    assert scaling.recheck()
    assert await look(scaling, scale=TARGET) is None


async def test_a_workload_of_none_asks_for_nobody_while_its_pods_still_stop(scaling: Scaling, workload: Workload) -> None:
    workload.replicas = 0
    stopping = GroupMembers({MemberId("a"): ObservedMember(Uid("u"), terminating=True)})
    assert await look(scaling, stopping, scale=TARGET) == 0


async def test_it_is_asked_for_its_size_only_where_nobody_is_there_and_something_changed(
    scaling: Scaling, workload: Workload
) -> None:
    for _ in range(3):
        await look(scaling, SOMEBODY, scale=TARGET)
    assert workload.asked == 0 and not scaling.recheck()
    for _ in range(3):
        await look(scaling, scale=TARGET)
    assert workload.asked == 1


async def test_pods_that_are_there_all_the_same_are_not_meant_by_a_workload_of_none(scaling: Scaling, workload: Workload) -> None:
    workload.replicas = 0
    assert await look(scaling, scale=TARGET) == 0
    assert await look(scaling, GroupMembers(pods=2), scale=TARGET) is None


async def test_a_size_that_cannot_be_read_is_a_problem_until_it_can(scaling: Scaling, workload: Workload) -> None:
    workload.fault = Refuse(403, "Forbidden", "no")
    await look(scaling, scale=TARGET)
    assert scaling.problem is not None
    assert "spec.scale: the size of Deployment shop/consumers cannot be read" in scaling.problem.message
    assert "rbac.scaleTargets" in scaling.problem.message
    workload.fault = None
    await look(scaling, scale=TARGET)
    assert scaling.problem is None


class Pods(Workload):
    """The same, and pods of which only the deletion cost is looked at. Some refuse to be changed."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.costs: dict[str, str | None] = dict.fromkeys(names or ("a", "b"))
        self.refuse: set[str] = set()
        self.written: list[str] = []
        """Pods, and the workload's size."""

    async def merge(self, path: str, body: Any) -> Any:
        if self.fault is not None:
            return await super().merge(path, body)
        await asyncio.sleep(0)
        if "/pods/" not in path:
            self.replicas = body["spec"]["replicas"]
            self.written.append(f"{self.replicas} replicas")
            return {}
        pod = path.rsplit("/", 1)[-1]
        if pod in self.refuse:
            raise ApiError(403, "Forbidden", "a webhook says no")
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
async def test_no_pod_stays_cheap_to_lose_when_nothing_is_scaled_any_more(fields: dict[str, Any], seen_late: bool) -> None:
    pods = Pods()
    scaling = made(pods)
    before = pods.views
    await scaling.apply(spec(scale=TARGET, replicas=1), BOTH, pods.views, {})
    await done()
    assert sorted(map(str, pods.costs.values())) == ["-1000", "None"]
    if seen_late:
        await scaling.apply(spec(**fields), BOTH, before, {})
        await done()
    pods.fault = Refuse(503, "", "away")
    await scaling.apply(spec(**fields), BOTH, pods.views, {})
    await done()
    assert scaling.problem is not None and scaling.recheck(), "it is tried again"
    pods.fault = None
    await scaling.apply(spec(**fields), BOTH, pods.views, {})
    await done()
    assert set(pods.costs.values()) == {None}
    assert scaling.problem is None


@pytest.mark.parametrize(("fields", "left"), [({"scale": TARGET}, None), ({}, "-1000")])
async def test_a_new_leader_takes_off_the_marks_of_the_one_before_and_not_those_of_users(
    fields: dict[str, Any], left: str | None
) -> None:
    pods = Pods()
    pods.costs["a"] = "-1000"
    await made(pods).apply(spec(**fields), BOTH, pods.views, {})
    await done()
    assert pods.costs["a"] == left


async def test_a_workload_becomes_smaller_when_all_the_pods_that_it_may_lose_are_marked() -> None:
    pods = Pods(*"abcdefghijkl")
    members = GroupMembers({MemberId(name): ObservedMember(Uid(f"u-{name}")) for name in pods.costs}, pods=12)
    scaling = made(pods)
    asked = spec(scale=TARGET, replicas=1)
    pods.refuse = {"c"}
    await scaling.apply(asked, members, pods.views, {MemberId("a"): 1})
    await done()
    assert sorted(pods.written) == [*"bdefghijkl"], "who refuses keeps back nobody else, and the size waits"
    refused = scaling.problem
    assert refused is not None and "of c: 403 Forbidden: a webhook says no" in refused.message
    pods.refuse = set()
    await scaling.apply(asked, members, pods.views, {MemberId("a"): 1})
    await done()
    assert pods.written[-2:] == ["c", "1 replicas"] and scaling.problem is None
    told = [await scaling.apply(asked, members, pods.views, {MemberId("a"): 1}) for _ in range(2)]
    assert told == ["scaled Deployment shop/consumers from 3 to 1", None]


async def test_a_size_that_is_asked_for_no_more_is_not_applied() -> None:
    pods = Pods()
    scaling = made(pods)
    await scaling.apply(spec(scale=TARGET, replicas=1), BOTH, pods.views, {})
    await scaling.apply(spec(scale=TARGET, replicas=2), BOTH, pods.views, {})
    await done()
    await scaling.apply(spec(scale=TARGET, replicas=2), BOTH, pods.views, {})
    await done()
    assert pods.written == ["2 replicas"] and pods.replicas == 2
