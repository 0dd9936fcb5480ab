"""spec.replicas, as an autoscaler or `kubectl scale` sets it through /scale."""

import asyncio
import json

from baton.kube.api import core_path, group_path
from baton.kube.objects import GROUP_VERSION
from baton.kube.pods import DELETION_COST
from tests.integration.operator.world import World
from tests.waiting import eventually


async def scale(world: World, group: str, replicas: int) -> None:
    path = group_path(GROUP_VERSION, world.namespace, "consumergroups", group) + "/scale"
    await world.api.merge(path, {"spec": {"replicas": replicas}})


async def test_scaling_the_group_scales_its_deployment_and_names_the_pods_to_lose(shop: World) -> None:
    path = group_path("apps/v1", shop.namespace, "deployments")
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await shop.api.create(
        path, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scaled"}, "spec": deployment}
    )
    await shop.external("scaled")
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "scaled"}}
    await shop.group("scaled", replicas=3, scale=target)

    async def replicas() -> int:
        return int((await shop.api.get(f"{path}/scaled"))["spec"]["replicas"])

    async def is_three() -> bool:
        return await replicas() == 3

    await eventually(is_three, "the Deployment has three replicas")
    await asyncio.gather(*(shop.pod(f"scaled-{name}", "scaled") for name in "abc"))
    await shop.spread("scaled", 2, 2, 2)

    async def reported() -> bool:
        return (await shop.status("scaled")).get("replicas") == 3

    await eventually(reported, "/scale reports the pods")
    await scale(shop, "scaled", 1)

    async def chosen() -> bool:
        pods = [await shop.api.get(core_path(shop.namespace, "pods", f"scaled-{name}")) for name in "abc"]
        return sum(DELETION_COST in (pod["metadata"].get("annotations") or {}) for pod in pods) == 2

    await eventually(chosen, "two pods are the cheapest to lose")

    async def is_one() -> bool:
        return await replicas() == 1

    await eventually(is_one, "the Deployment has one replica")


async def test_a_target_that_does_not_exist_is_named_in_the_condition(shop: World) -> None:
    await shop.external("nowhere")
    await shop.group("nowhere", replicas=1, scale={"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "nowhere"}})
    await shop.pod("nowhere-a", "nowhere")
    message = await shop.told("nowhere", "ScaleFailed")
    assert "Deployment shop/nowhere" in message
    await shop.spread("nowhere", 6)


async def test_a_kind_that_cannot_be_scaled_is_named_in_the_condition(shop: World) -> None:
    await shop.external("fixed-size")
    target = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x"}
    await shop.group("fixed-size", replicas=1, scale={"mode": "Workload", "targetRef": target})
    await shop.pod("fixed-size-a", "fixed-size")
    message = await shop.told("fixed-size", "ScaleFailed")
    assert "apps/v1 DaemonSet" in message and "Deployment" in message


async def test_for_spark_the_ledger_names_the_size_and_the_victims(shop: World) -> None:
    await shop.external("spark", partitions=4)
    await shop.group("spark", replicas=2, scale={"mode": "Spark"})
    await asyncio.gather(shop.pod("spark-a", "spark"), shop.pod("spark-b", "spark"))
    await shop.spread("spark", 2, 2)
    await scale(shop, "spark", 1)

    async def named() -> bool:
        wanted = json.loads((await shop.ledger_data("spark") or {})["group"]).get("scale") or {}
        return wanted.get("replicas") == 1 and len(wanted.get("victims") or []) == 1

    await eventually(named, "the ledger names a victim", shown=lambda: shop.ledger_data("spark"))
