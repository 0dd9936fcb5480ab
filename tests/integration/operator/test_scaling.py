"""spec.replicas, as an autoscaler or `kubectl scale` sets it through /scale."""

import json
from functools import partial

import pytest

from baton.kube.api import core_path, group_path
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.objects import GROUP_VERSION, groups_path
from baton.kube.pods import DELETION_COST
from tests.integration.operator.world import SHOP, Json, World
from tests.waiting import eventually


async def scale(world: World, group: str, replicas: int) -> None:
    path = group_path(GROUP_VERSION, world.namespace, "consumergroups", group) + "/scale"
    await world.api.merge(path, {"spec": {"replicas": replicas}})


async def cheap(world: World, group: str) -> list[str]:
    """The pods a, b and c of the group that are the cheapest to lose."""
    pods = [await world.api.get(core_path(world.namespace, "pods", f"{group}-{name}")) for name in "abc"]
    return [pod["metadata"]["name"] for pod in pods if DELETION_COST in (pod["metadata"].get("annotations") or {})]


async def replicas_of(world: World, name: str) -> int | None:
    """What /scale of a group says, to which the API server has no answer where spec.replicas is absent."""
    try:
        found = await world.api.get(group_path(GROUP_VERSION, world.namespace, "consumergroups", name) + "/scale")
    except (ApiError, UnavailableError):
        return None
    return int(found["spec"]["replicas"])


async def test_scaling_a_group_scales_its_deployment_and_marks_the_pods_to_lose(shop: World) -> None:
    await shop.deployment("scaled", 0)
    await shop.external("scaled")
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "scaled"}}
    await shop.group("scaled", replicas=3, scale=target)
    await shop.scaled("scaled", 3)
    await shop.together("scaled", *(shop.pod(f"scaled-{name}", "scaled") for name in "abc"))
    await shop.spread("scaled", 2, 2, 2)
    await shop.shows("scaled", replicas=3)  # which /scale reports
    await scale(shop, "scaled", 1)
    await shop.scaled("scaled", 1)
    assert len(await cheap(shop, "scaled")) == 2


async def test_a_ready_pod_that_takes_no_part_is_lost_before_a_member(shop: World) -> None:
    await shop.deployment("idle", 3)
    await shop.external("idle")
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "idle"}}
    await shop.group("idle", replicas=3, membership={"session": "Required"}, scale=target)
    await shop.together("idle", *(shop.pod(f"idle-{name}", "idle", session=True) for name in "ab"))
    await shop.pod("idle-c", "idle")
    await shop.spread("idle", 3, 3)
    await scale(shop, "idle", 2)
    await shop.scaled("idle", 2)
    assert await cheap(shop, "idle") == ["idle-c"]


async def test_with_even_shares_the_size_divides_the_partitions(shop: World) -> None:
    await shop.deployment("even", 0)
    await shop.external("even", partitions=12)
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "even"}, "steps": "EvenShares"}
    await shop.group("even", replicas=5, scale=target)

    async def sizes(asked: int, had: int) -> bool:
        status = await shop.status("even")
        return (await replicas_of(shop, "even"), await shop.replicas("even"), status.get("desiredReplicas")) == (asked, had, had)

    await eventually(partial(sizes, 5, 4), "of five pods that are asked for there are four", shown=lambda: shop.status("even"))
    why = "spec.replicas asks for 5, and spec.scale.steps holds the fleet at 4, which divides 12 partitions evenly"
    assert why in await shop.event("Scaled", "even")
    await scale(shop, "even", 11)
    await eventually(partial(sizes, 11, 6), "of eleven there are six", shown=lambda: shop.status("even"))


async def test_unset_replicas_follow_the_deployment_and_a_real_autoscaler_sets_them(shop: World) -> None:
    await shop.deployment("unsaid", 2)
    await shop.external("unsaid")
    manifest = {
        "apiVersion": GROUP_VERSION,
        "kind": "ConsumerGroup",
        "metadata": {"name": "unsaid", "namespace": shop.namespace},
        "spec": {
            "queues": [{"name": "unsaid"}],
            "membership": {"session": "Optional"},
            "scale": {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "unsaid"}},
        },
    }
    await shop.api.apply_as("gitops", groups_path(shop.namespace, "unsaid"), manifest)

    async def has(replicas: int) -> bool:
        return await replicas_of(shop, "unsaid") == replicas

    await eventually(lambda: has(2), "the group has the size of its Deployment", shown=lambda: shop.status("unsaid"))
    assert await shop.replicas("unsaid") == 2

    reference = {"apiVersion": GROUP_VERSION, "kind": "ConsumerGroup", "name": "unsaid"}
    some = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    bounds = {"scaleTargetRef": reference, "minReplicas": 4, "maxReplicas": 6, "metrics": [some]}
    autoscaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "unsaid"}}
    autoscalers = group_path("autoscaling/v2", shop.namespace, "horizontalpodautoscalers")
    await shop.api.create(autoscalers, {**autoscaler, "spec": bounds})
    await eventually(
        lambda: has(4), "the autoscaler has raised it to its least", shown=lambda: shop.api.get(f"{autoscalers}/unsaid")
    )
    await shop.scaled("unsaid", 4)
    await shop.api.apply_as("gitops", groups_path(shop.namespace, "unsaid"), manifest)
    assert await has(4), "a manifest that does not say replicas leaves those of the autoscaler"
    await shop.change("consumergroups", "unsaid", {"spec": {"replicas": None}})
    await eventually(lambda: has(4), "removed replicas are those of the Deployment again")


async def test_an_externally_scaled_workload_is_left_alone(shop: World) -> None:
    await shop.deployment("theirs", 1)
    await shop.external("theirs")
    target = {"mode": "External", "targetRef": {"kind": "Deployment", "name": "theirs"}}
    await shop.group("theirs", rebalance={"resyncSeconds": 1}, scale=target)
    await shop.shows("theirs", desiredReplicas=1)
    path = group_path("apps/v1", shop.namespace, "deployments", "theirs") + "/scale"
    for count in (3, 2):
        await shop.api.merge(path, {"spec": {"replicas": count}})
        await shop.shows("theirs", desiredReplicas=count)  # the operator has looked, and lets it be
        assert await shop.replicas("theirs") == count
    with pytest.raises(ApiError, match=r"spec\.replicas has no effect with spec\.scale\.mode External"):
        await shop.change("consumergroups", "theirs", {"spec": {"replicas": 5}})


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"kind": "Deployment", "name": "nowhere"}, [f"Deployment {SHOP}/nowhere"]),
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x"}, ["apps/v1 DaemonSet", "Deployment"]),
    ],
    ids=["absent", "fixed"],
)
async def test_a_target_that_is_absent_or_cannot_be_scaled_is_named_in_the_condition(
    shop: World, target: Json, said: list[str], request: pytest.FixtureRequest
) -> None:
    name = f"target-{request.node.callspec.id}"
    await shop.fleet(name, replicas=1, scale={"mode": "Workload", "targetRef": target})
    message = await shop.told(name, "ScaleFailed")
    assert all(part in message for part in said)


async def test_for_spark_the_ledger_names_the_size_and_the_victims(shop: World) -> None:
    await shop.fleet("spark", "spark-a", "spark-b", partitions=4, replicas=2, scale={"mode": "Spark"})
    await scale(shop, "spark", 1)

    async def named() -> bool:
        wanted = json.loads((await shop.ledger_data("spark") or {})["group"]).get("scale") or {}
        return wanted.get("replicas") == 1 and len(wanted.get("victims") or []) == 1

    await eventually(named, "the ledger names a victim", shown=lambda: shop.ledger_data("spark"))
