"""`baton plan --explain --group`: what would happen to a real group, and nothing happens."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from baton.kube.api import core_path
from baton.kube.mount_refresh import mark
from baton.kube.objects import groups_path
from baton.model.names import GROUP_LABEL, LEDGER_KEY_ANNOTATION
from baton.simulation import read_scenario, simulate
from cluster.cluster import Cluster
from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import SHOP, World
from tests.waiting import eventually


async def plan(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("plan", "--explain", "--kubeconfig", kubeconfig, *arguments)


async def versions(world: World, group: str) -> list[Any]:
    """Of everything that a plan might touch; the operator itself goes on writing the group's status, and pods of other groups."""
    pods = await world.api.get(core_path(world.namespace, "pods"), labelSelector=f"{GROUP_LABEL}={group}")
    group_ = (await world.api.get(groups_path(world.namespace, group)))["metadata"]
    return [
        (await world.api.get(world.ledger_path(group)))["metadata"]["resourceVersion"],
        (group_["generation"], group_.get("annotations")),
        sorted(pod["metadata"]["resourceVersion"] for pod in pods["items"]),
    ]


async def marked(world: World, group: str) -> bool:
    """Every pod has the annotation for what the ledger now says of it."""
    ledger = await world.ledger_data(group) or {}
    pods = (await world.api.get(core_path(world.namespace, "pods"), labelSelector=f"{GROUP_LABEL}={group}"))["items"]
    return all(
        (pod["metadata"].get("annotations") or {}).get(LEDGER_KEY_ANNOTATION) == mark(ledger[pod["metadata"]["name"]])
        for pod in pods
    )


async def test_a_live_group_is_explained_as_it_is_and_as_it_would_be(shop: World, kubeconfig: Path) -> None:
    zones = [{"partitions": "0-2", "zones": ["east"]}, {"partitions": "3-5", "zones": ["west"]}]
    await shop.external("supposed", partitions=6, partitionAttributes=zones)
    await shop.group("supposed", membership={"identityLabel": "app/index", "sessionTimeoutSeconds": 60})
    zoned = {"supposed-a": "east", "supposed-b": "west"}
    labels = {name: {"topology.kubernetes.io/zone": zone, "app/index": name} for name, zone in zoned.items()}
    await shop.together("supposed", *(shop.pod(name, "supposed", labels=its) for name, its in labels.items()))
    await shop.spread("supposed", 3, 3)
    await shop.told("supposed", "Ready")
    await eventually(lambda: marked(shop, "supposed"), "the pods have their marks, the operator's last write")
    before = await versions(shop, "supposed")

    as_it_is = (await plan(kubeconfig, "--group", "supposed", "-n", SHOP)).stdout.splitlines()
    assert as_it_is[:3] == [f"{SHOP}/supposed by solace: 6 partitions, 2 members", "Nothing moves.", "Balanced: 3 each."]
    assert "Without a replica in their member's zone" in as_it_is[3]

    more = (await plan(kubeconfig, "--group", f"{SHOP}/supposed", "--add", "1")).stdout
    assert f"{SHOP}/supposed by solace: 6 partitions, 3 members (1 without partitions so far)" in more
    assert "2 partitions move, the fewest possible for a balance." in more
    assert "Balanced: 2 each." in more and "\nnew-1 " in more

    fewer = (await plan(kubeconfig, "--group", f"{SHOP}/supposed", "--remove", "supposed-b")).stdout
    assert "6 partitions, 1 member (1 gone)" in fewer and "supposed-b (gone)" in fewer
    assert "The partitions of a static member wait 60 s for it before they move." in fewer

    grown = (await plan(kubeconfig, "--group", f"{SHOP}/supposed", "--partitions", "supposed=9")).stdout
    assert "9 partitions, 2 members" in grown and "Nothing moves. 3 partitions get a first owner." in grown

    other = (await plan(kubeconfig, "--group", f"{SHOP}/supposed", "--assignor", "range")).stdout
    assert f"{SHOP}/supposed by range: 6 partitions" in other
    assert "Without a replica in their member's zone: 0 partitions" in other

    assert await versions(shop, "supposed") == before


async def test_an_impossible_assumption_is_refused_in_one_line(shop: World, kubeconfig: Path) -> None:
    await shop.fleet("unsupposed", partitions=2)
    group = ("--group", f"{SHOP}/unsupposed")
    for arguments, said in (
        (("--group", f"{SHOP}/nothing"), '"nothing" not found'),
        ((*group, "--remove", "nobody"), "--remove nobody: there is no such member; the members are unsupposed-a"),
        ((*group, "--partitions", "order=3"), "--partitions order=3: there is no such queue; the queues are unsupposed"),
        ((*group, "--assignor", "best"), "there is no assignor 'best'; choose one of average"),
    ):
        done = await plan(kubeconfig, *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert said in done.stderr


# -- What kubectl prints of a group that works simulates as it is.


async def test_resources_printed_by_kubectl_can_be_simulated(shop: World, control_plane: Cluster, tmp_path: Path) -> None:
    await shop.fleet("simulated", "simulated-a", "simulated-b", queue={"rebalance": {"delaySeconds": 2}})
    printed = tmp_path / "fleet.yaml"
    printed.write_text(control_plane.kubectl("get", "cg,pq", "-o", "yaml", "-n", shop.namespace))
    scenario = read_scenario(printed, "simulated")
    assert [one.id for one in scenario.events[0].join] == ["simulated-1", "simulated-2"]
    result = await asyncio.to_thread(simulate, scenario)
    assert result.summary["state"] == "Ready"
