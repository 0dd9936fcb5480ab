"""What `kubectl get`, `kubectl wait` and `baton status` say of a group: nothing that is not so."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from baton.kube.api import group_path
from baton.kube.leases import leases_path
from baton.model.ids import QueueName
from baton.model.session import Release
from baton.model.times import to_micro_text, to_seconds
from cluster.cluster import Cluster as Machine
from tests.integration.operator.test_scaling import scale
from tests.integration.operator.test_status_command import status
from tests.integration.operator.world import SHOP, Operator, World

SETTLES = QueueName("settles")
SETTLED = "--for=condition=Settled"


async def shown(machine: Machine, group: str, namespace: str = SHOP) -> dict[str, str]:
    """The line of `kubectl get cg`, by column."""
    text = await asyncio.to_thread(machine.kubectl, "get", "cg", group, "-n", namespace)
    head, line = text.splitlines()
    starts = [head.index(name) for name in head.split()]
    cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return dict(zip(head.split(), cells, strict=True))


async def waited(machine: Machine, group: str, *what: str, seconds: int = 120) -> bool:
    """Whether `kubectl wait` saw it come about."""
    arguments = ("wait", f"cg/{group}", "-n", SHOP, *what, f"--timeout={seconds}s")
    return "condition met" in await asyncio.to_thread(machine.kubectl, *arguments, check=False)


async def test_a_group_without_its_queue_is_not_ready_until_the_queue_is_created(shop: World, control_plane: Machine) -> None:
    await shop.group("queueless")
    await shop.pod("queueless-a", "queueless")
    await shop.shows("queueless", state="NotReady")
    line = await shown(control_plane, "queueless")
    assert (line["STATE"], line["READY"]) == ("NotReady", "False")
    message = await shop.told("queueless", "QueueNotFound")
    assert f"{SHOP}/queueless" in message and "create it" in message
    await shop.external("queueless")
    await shop.shows("queueless", state="Ready")
    line = await shown(control_plane, "queueless")
    assert (line["STATE"], line["READY"]) == ("Ready", "True")
    await shop.spread("queueless", 6)


async def test_a_group_paused_from_the_beginning_shows_unowned_partitions(
    shop: World, control_plane: Machine, shared_operator: Operator
) -> None:
    await shop.external("unborn", partitions=12)
    await shop.group("unborn", paused=True)
    await shop.pod("unborn-a", "unborn")
    await shop.shows("unborn", state="Paused")
    line = await shown(control_plane, "unborn")
    assert (line["STATE"], line["PARTITIONS"], line["UNOWNED"], line["HOLD-UNTIL"]) == ("Paused", "12", "12", "")
    for kind in ("Balanced", "Settled"):
        told = await shop.condition("unborn", kind)
        assert (told["status"], told["reason"]) == ("False", "Paused")
        assert "12 of 12 partitions have no owner: spec.paused" in told["message"]
    labels = {"namespace": SHOP, "group": "unborn", "queue": "unborn"}
    await shared_operator.measures("baton_partitions", lambda value: value == 12, **labels, state="Unassigned")
    await shop.change("consumergroups", "unborn", {"spec": {"paused": False}})
    assert await waited(control_plane, "unborn", SETTLED)
    assert (await shown(control_plane, "unborn"))["UNOWNED"] == "0"


async def test_a_wait_for_settled_ends_when_nothing_moves(shop: World, control_plane: Machine) -> None:
    names = "settles-a", "settles-b"
    uids = dict(zip(names, await shop.fleet("settles", *names, partitions=4), strict=True))
    assert await waited(control_plane, "settles", SETTLED)
    await shop.pod("settles-c", "settles")
    await shop.shows("settles", moving=1)
    assert not await waited(control_plane, "settles", SETTLED, seconds=1)
    assert not await waited(control_plane, "settles", "--for=condition=Balanced", seconds=1)
    waiting = asyncio.create_task(waited(control_plane, "settles", SETTLED))
    ((giver, revoking),) = [
        (name, one.revoking[SETTLES]) for name, one in (await shop.entries("settles")).items() if one.revoking
    ]
    releases = [Release(uids[giver], SETTLES, number, epoch) for number, epoch in revoking.items()]
    await shop.session(giver, uids[giver], "settles", releases)
    assert await waiting
    assert sorted((await shop.counts("settles")).values()) == [1, 1, 2]


async def test_a_wait_right_after_a_spec_change_is_about_that_change(shop: World, control_plane: Machine) -> None:
    await shop.external("asked-more", partitions=4)
    await shop.group("asked-more", replicas=1, scale={"mode": "Spark"})
    await shop.pod("asked-more-a", "asked-more")
    assert await waited(control_plane, "asked-more", SETTLED)
    await scale(shop, "asked-more", 2)
    assert not await waited(control_plane, "asked-more", SETTLED, seconds=1), "a pod is still to come"
    await shop.told("asked-more", "Scaling", kind="Settled")
    await scale(shop, "asked-more", 1)
    assert await waited(control_plane, "asked-more", SETTLED)


async def test_a_group_scaled_to_zero_is_ready_without_pods(
    shop: World, control_plane: Machine, shared_operator: Operator
) -> None:
    await shop.external("none")
    await shop.group("none", replicas=0, scale={"mode": "Spark"})
    await shop.shows("none", state="ScaledToZero")
    assert (await shown(control_plane, "none"))["READY"] == "True"
    assert await waited(control_plane, "none", SETTLED)
    assert not [one for one in await shop.events("NoMembers") if one["regarding"]["name"] == "none"]
    labels = {"namespace": SHOP, "group": "none", "reason": "ScaledToZero"}
    await shared_operator.measures("baton_group_ready", lambda value: value == 1, **labels)


async def test_a_deployment_scaled_to_zero_requests_no_pods(shop: World) -> None:
    await shop.deployment("slept", 0)
    await shop.external("slept")
    target = {"mode": "External", "targetRef": {"kind": "Deployment", "name": "slept"}}
    await shop.group("slept", rebalance={"resyncSeconds": 1}, scale=target)
    await shop.shows("slept", state="ScaledToZero")
    await shop.api.merge(group_path("apps/v1", SHOP, "deployments", "slept"), {"spec": {"replicas": 1}})
    await shop.shows("slept", state="NotReady")
    assert await shop.replicas("slept") == 1, "the operator does not scale it"


async def test_a_group_without_an_operator_is_shown_as_unknown(
    empty: World, start: Callable[..., Operator], control_plane: Machine, kubeconfig: Path
) -> None:
    await empty.external("orders")
    await empty.group("orders")
    await empty.pod("a", "orders")
    told = json.loads((await status(kubeconfig, "orders", "-n", empty.namespace, "-o", "json")).stdout)
    assert told["state"] == "Unknown"
    began = time.time()
    operator = start(empty)
    await empty.shows("orders", state="Ready")
    assert began - 1 <= to_seconds((await empty.status("orders"))["lastChangeTime"]) <= time.time() + 1
    told = json.loads((await status(kubeconfig, "orders", "-n", empty.namespace, "-o", "json")).stdout)
    assert told["state"] == "Ready"
    operator.stop()
    await empty.api.merge(leases_path(empty.namespace, "operator"), {"spec": {"renewTime": to_micro_text(time.time() - 600)}})
    assert re.fullmatch(r"\d+[sm]\d*s?", (await shown(control_plane, "orders", empty.namespace))["CHANGED"])
    screen = (await status(kubeconfig, "orders", "-n", empty.namespace)).stdout
    assert f"{empty.namespace}/orders: Unknown" in screen
    assert re.search(r"No operator has looked since \S+Z \(1\d min ago\): everything shown is as of then \(Ready\)\.", screen)


async def test_a_stopped_operator_is_noticed_by_its_lease(empty: World, start: Callable[..., Operator], kubeconfig: Path) -> None:
    await empty.external("orders")
    await empty.group("orders")
    await empty.pod("a", "orders")
    operator = start(empty)
    await empty.shows("orders", state="Ready")
    done = await status(kubeconfig, "orders", "-n", empty.namespace)
    assert done.returncode == 0 and "No operator" not in done.stdout
    operator.stop()
    lease = leases_path(empty.namespace, "operator")
    assert not (await empty.api.get(lease))["spec"]["holderIdentity"], "it has given it up"
    await empty.api.merge(lease, {"spec": {"renewTime": to_micro_text(time.time() - 45)}})  # as if that had been some time ago
    done = await status(kubeconfig, "orders", "-n", empty.namespace)
    assert done.returncode == 3, done.stdout
    line, more = done.stdout[done.stdout.index("No operator has looked") :].splitlines()[:2]
    as_of = r"everything shown is as of then \(Ready\)\. Until one does, nothing moves\."
    assert re.match(rf"No operator has looked since \S+Z \(\d+ s ago\): {as_of}", line)
    leader = f"The Lease of its leader, operator in namespace {empty.namespace}, was released, and last renewed "
    assert re.match(rf"{leader}\d+ s ago\. Is an operator running", more)
    done = await status(kubeconfig, "orders", "-n", empty.namespace, "-o", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["state"], told["lastState"]) == (3, "Unknown", "Ready")
    assert (told["leader"]["lease"], told["leader"]["holder"]) == (f"{empty.namespace}/operator", None)
