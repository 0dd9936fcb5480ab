"""spec.replicas, as an autoscaler or `kubectl scale` sets it through /scale."""

import json
from functools import partial

import pytest

from baton.kube.api import core_path, group_path
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.objects import GROUP_VERSION, groups_path
from baton.kube.pods import DELETION_COST
from tests.integration.operator.world import SHOP, World
from tests.waiting import eventually


async def scale(world: World, group: str, replicas: int) -> None:
    path = group_path(GROUP_VERSION, world.namespace, "consumergroups", group) + "/scale"
    await world.api.merge(path, {"spec": {"replicas": replicas}})


async def deployment(world: World, name: str, replicas: int) -> None:
    """Its pods are not the group's."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    await world.api.create(group_path("apps/v1", world.namespace, "deployments"), body)


async def size(world: World, name: str) -> int:
    """Of a Deployment."""
    return int((await world.api.get(group_path("apps/v1", world.namespace, "deployments", name)))["spec"]["replicas"])


async def replicas_of(world: World, name: str) -> int | None:
    """What /scale of a group says, to which the API server has no answer where spec.replicas is absent."""
    try:
        found = await world.api.get(group_path(GROUP_VERSION, world.namespace, "consumergroups", name) + "/scale")
    except (ApiError, UnavailableError):
        return None
    return int(found["spec"]["replicas"])


async def test_scaling_the_group_scales_its_deployment_and_names_the_pods_to_lose(shop: World) -> None:
    await deployment(shop, "scaled", 0)
    await shop.external("scaled")
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "scaled"}}
    await shop.group("scaled", replicas=3, scale=target)

    async def is_three() -> bool:
        return await size(shop, "scaled") == 3

    await eventually(is_three, "the Deployment has three replicas")
    await shop.together("scaled", *(shop.pod(f"scaled-{name}", "scaled") for name in "abc"))
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
        return await size(shop, "scaled") == 1

    await eventually(is_one, "the Deployment has one replica")


async def test_a_ready_pod_that_takes_no_part_is_lost_before_one_that_works(shop: World) -> None:
    await deployment(shop, "idle", 3)
    await shop.external("idle")
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "idle"}}
    await shop.group("idle", replicas=3, membership={"session": "Required"}, scale=target)
    await shop.together("idle", *(shop.pod(f"idle-{name}", "idle", session=True) for name in "ab"))
    await shop.pod("idle-c", "idle")
    await shop.spread("idle", 3, 3)
    await scale(shop, "idle", 2)

    async def marked() -> list[str]:
        pods = [await shop.api.get(core_path(shop.namespace, "pods", f"idle-{name}")) for name in "abc"]
        return [pod["metadata"]["name"] for pod in pods if DELETION_COST in (pod["metadata"].get("annotations") or {})]

    async def is_two() -> bool:
        return await size(shop, "idle") == 2

    await eventually(is_two, "the Deployment has two replicas")
    assert await marked() == ["idle-c"]


async def test_a_group_of_even_shares_has_only_sizes_that_divide_its_partitions(shop: World) -> None:
    await deployment(shop, "even", 0)
    await shop.external("even", partitions=12)
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "even"}, "steps": "EvenShares"}
    await shop.group("even", replicas=5, scale=target)

    async def sizes(asked: int, had: int) -> bool:
        status = await shop.status("even")
        return (await replicas_of(shop, "even"), await size(shop, "even"), status.get("desiredReplicas")) == (asked, had, had)

    await eventually(partial(sizes, 5, 4), "of five pods that are asked for there are four", shown=lambda: shop.status("even"))
    await scale(shop, "even", 11)
    await eventually(partial(sizes, 11, 6), "of eleven there are six", shown=lambda: shop.status("even"))


async def test_a_group_without_replicas_has_those_of_its_deployment_and_a_real_autoscaler_scales_it(shop: World) -> None:
    await deployment(shop, "unsaid", 2)
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
    assert await size(shop, "unsaid") == 2

    reference = {"apiVersion": GROUP_VERSION, "kind": "ConsumerGroup", "name": "unsaid"}
    some = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    bounds = {"scaleTargetRef": reference, "minReplicas": 4, "maxReplicas": 6, "metrics": [some]}
    autoscaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "unsaid"}}
    autoscalers = group_path("autoscaling/v2", shop.namespace, "horizontalpodautoscalers")
    await shop.api.create(autoscalers, {**autoscaler, "spec": bounds})
    await eventually(
        lambda: has(4), "the autoscaler has raised it to its least", shown=lambda: shop.api.get(f"{autoscalers}/unsaid")
    )

    async def is_four() -> bool:
        return await size(shop, "unsaid") == 4

    await eventually(is_four, "the Deployment has four replicas")
    await shop.api.apply_as("gitops", groups_path(shop.namespace, "unsaid"), manifest)
    assert await has(4), "a manifest that does not say replicas leaves those of the autoscaler"
    await shop.change("consumergroups", "unsaid", {"spec": {"replicas": None}})
    await eventually(lambda: has(4), "replicas that somebody has removed are those of the Deployment again")


async def test_what_others_scale_stays_as_they_scale_it(shop: World) -> None:
    await deployment(shop, "theirs", 1)
    await shop.external("theirs")
    target = {"mode": "External", "targetRef": {"kind": "Deployment", "name": "theirs"}}
    await shop.group("theirs", rebalance={"resyncSeconds": 1}, scale=target)

    async def desired(count: int) -> bool:
        return (await shop.status("theirs")).get("desiredReplicas") == count

    await eventually(lambda: desired(1), "the size is known")
    path = group_path("apps/v1", shop.namespace, "deployments", "theirs") + "/scale"
    for count in (3, 2):
        await shop.api.merge(path, {"spec": {"replicas": count}})
        await eventually(partial(desired, count), "the new size is known")  # the operator has looked, and lets it be
        assert await size(shop, "theirs") == count
    with pytest.raises(ApiError, match=r"spec\.replicas has no effect with spec\.scale\.mode External"):
        await shop.change("consumergroups", "theirs", {"spec": {"replicas": 5}})


async def test_a_target_that_does_not_exist_is_named_in_the_condition(shop: World) -> None:
    await shop.external("nowhere")
    await shop.group("nowhere", replicas=1, scale={"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "nowhere"}})
    await shop.pod("nowhere-a", "nowhere")
    message = await shop.told("nowhere", "ScaleFailed")
    assert f"Deployment {SHOP}/nowhere" in message
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
    await shop.together("spark", shop.pod("spark-a", "spark"), shop.pod("spark-b", "spark"))
    await shop.spread("spark", 2, 2)
    await scale(shop, "spark", 1)

    async def named() -> bool:
        wanted = json.loads((await shop.ledger_data("spark") or {})["group"]).get("scale") or {}
        return wanted.get("replicas") == 1 and len(wanted.get("victims") or []) == 1

    await eventually(named, "the ledger names a victim", shown=lambda: shop.ledger_data("spark"))
