"""Calls that are never answered in some namespaces, as by an admission webhook: the groups of others do not wait for them."""

import asyncio
from functools import partial

import pytest

from baton.kube.api import core_path, group_path
from baton.kube.objects import groups_path
from baton.kube.pods import DELETION_COST
from baton.kube.store import WatchedKind
from baton.model.names import ledger_name
from tests.simulation.api_server import Delay, Fault, Hang
from tests.simulation.replicas import Lone, played
from tests.simulation.seeds import manifests

in_all_namespaces = partial(played, namespaces=())
BUSY = [f"busy-{number}" for number in range(100)]


def writes_hang(verb: str, path: str) -> Fault | None:
    """What changes anything in a namespace whose name begins with busy, except events."""
    return Hang() if verb in ("create", "update", "patch") and "/busy" in path and "/events" not in path else None


def all_hang(verb: str, path: str) -> Fault | None:
    return Hang() if verb not in ("list", "watch") and "/busy" in path else None


def crowd(lone: Lone, namespaces: list[str], groups: int) -> None:
    """So many groups in each of them, with a pod each."""
    for namespace in namespaces:
        lone.make(core_path(None, "namespaces"), {"metadata": {"name": namespace}})
        lone.external(namespace=namespace)
        for number in range(groups):
            name = f"group-{number}"
            lone.make(groups_path(namespace), manifests.group(name, {"queues": [{"name": "orders"}]}))
            lone.pod(name, name, namespace)


async def granted_within(lone: Lone, seconds: float, pod: str) -> None:
    """A new pod of the group in `shop` gets partitions, and another's go back where it ends."""
    lone.pod(pod)
    await asyncio.sleep(seconds)
    assert lone.owned().get(pod) == 2
    lone.delete_pod(pod)
    await asyncio.sleep(seconds)
    assert lone.owned() == {"a": 4}


def oldest_list(lone: Lone) -> float:
    """Of ledgers, which are listed every minute."""
    listers = [one for one in lone.replica.relists.listers if one.of is WatchedKind.LEDGERS]
    return max(lone.loop.time() - lister.begun for lister in listers)


CROWDS = {"one namespace of many groups": (["busy-0"], 200), "many namespaces": (BUSY, 2)}


@pytest.mark.parametrize("hangs", [writes_hang, all_hang])
@pytest.mark.parametrize(("namespaces", "groups"), CROWDS.values(), ids=CROWDS)
@in_all_namespaces
async def test_calls_that_hang_in_some_namespaces_delay_no_other_namespace(
    lone: Lone, namespaces: list[str], groups: int, hangs: object
) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(5)
    lone.fails = hangs  # type: ignore[assignment]
    crowd(lone, namespaces, groups)
    await asyncio.sleep(10)  # until all that hangs has been found to
    for number in range(8):  # longer than a list may be old
        await granted_within(lone, 1, f"b{number}")
        assert oldest_list(lone) < 65
        assert lone.replica.stuck() is None
        await asyncio.sleep(10)
    lone.fails = lambda verb, path: None
    await asyncio.sleep(45)
    for namespace in namespaces:
        for number in range(groups):
            ledger = lone.find(core_path(namespace, "configmaps", ledger_name(f"group-{number}")))
            assert ledger is not None, f"{namespace}/group-{number}"
    assert lone.replica.stuck() is None


@played
async def test_a_group_does_not_wait_until_the_pods_that_it_may_lose_are_marked(lone: Lone) -> None:
    """Each patch of a pod passes a webhook that takes its time; and the workload is made smaller when all of them are through."""
    workers = group_path("apps/v1", "shop", "deployments", "workers")
    pods = [f"pod-{number:02}" for number in range(42)]

    def marked() -> int:
        found = [lone.find(core_path("shop", "pods", pod)) or {"metadata": {}} for pod in pods]
        return len([pod for pod in found if DELETION_COST in (pod["metadata"].get("annotations") or {})])

    lowered = asyncio.Event()

    def slow(verb: str, path: str) -> Fault | None:
        if verb == "patch" and path == f"{workers}/scale":
            lowered.set()
            return Hang()
        return Delay(there=5.0) if verb == "patch" and "/pods/" in path else None

    lone.make(group_path("apps/v1", "shop", "deployments"), manifests.deployment("workers"))
    scale = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "workers"}}
    lone.group("shop", *pods, scale=scale)
    await asyncio.sleep(10)
    owner = next(pod for pod, count in lone.owned().items() if count)
    lone.fails = slow
    lone.change(groups_path("shop", "orders"), {"spec": {"replicas": 2}})
    await asyncio.sleep(1)
    lone.delete_pod(owner)
    await asyncio.sleep(2)
    owned = lone.owned()
    assert not owned.get(owner) and sum(owned.values()) == 4
    await lowered.wait()
    assert marked() >= 39
