"""Ledgers that the API server does not let the operator write, and ConfigMaps that are none: the group reports it, no other is
harmed, and work goes on as soon as it can."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from baton.cli.group import look_at
from baton.kube.api import core_path, group_path
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.objects import groups_path
from baton.model.names import ledger_name
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import SHOP, Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

ADMISSION = "admissionregistration.k8s.io/v1"


async def test_a_group_whose_ledger_exceeds_a_quota_reports_it_from_the_beginning(shop: World, shared_operator: Operator) -> None:
    quotas = core_path(SHOP, "resourcequotas")
    await shop.api.create(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"count/configmaps": "0"}}})

    async def counted() -> bool:
        return bool((await shop.api.get(f"{quotas}/small")).get("status", {}).get("hard"))

    await eventually(counted, "the quota is in force")
    await shop.external("unaffordable")
    await shop.group("unaffordable")
    await shop.pod("unaffordable-a", "unaffordable")
    message = await shop.told("unaffordable", "LedgerRefused")
    assert "exceeded quota: small" in message and "raise the ResourceQuota" in message
    await shop.event("LedgerRefused", "unaffordable")
    labels = {"namespace": SHOP, "group": "unaffordable"}
    await shared_operator.measures("baton_ledger_failures_total", lambda value: value > 0, **labels)
    await shared_operator.measures("baton_ledger_failing_seconds", lambda value: value > 0, **labels)
    await shared_operator.measures("baton_group_ready", lambda value: value == 0, **labels, reason="LedgerRefused")
    await shop.api.delete(f"{quotas}/small")
    await shop.spread("unaffordable", 6)
    await shop.told("unaffordable", "Ready")
    await shared_operator.measures("baton_ledger_failing_seconds", lambda value: value == 0, **labels)


@pytest.mark.parametrize("more", [{}, {"immutable": True}, {"binaryData": {"key": "AAEC"}}], ids=["plain", "immutable", "binary"])
async def test_a_foreign_config_map_of_the_ledgers_name_is_left_alone(
    shop: World, more: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = f"taken-{request.node.callspec.id}"
    body = {"metadata": {"name": ledger_name(name), "labels": {"app.kubernetes.io/managed-by": "baton"}}, "data": {"mine": "1"}}
    made = await shop.api.create(core_path(SHOP, "configmaps"), body | more)
    await shop.external(name)
    await shop.group(name)
    await shop.pod(f"{name}-a", name)
    message = await shop.told(name, "LedgerNameTaken")
    assert f"ConfigMap {SHOP}/{name}-assignments" in message and "Delete it or give it another name" in message
    found = await shop.api.get(shop.ledger_path(name))
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    seen = await look_at(shop.api, SHOP, name)
    assert (seen.members, seen.state, seen.leader) == ({}, None, None)  # nor do the commands believe it
    await shop.api.delete(shop.ledger_path(name))
    await shop.spread(name, 6)
    await shop.told(name, "Ready")


async def test_a_ledger_held_by_a_finalizer_is_written_until_it_goes(shop: World, redis_server: RedisServer) -> None:
    await shop.fleet("finalized", url=redis_server.url)
    path = shop.ledger_path("finalized")
    await shop.api.merge(path, {"metadata": {"finalizers": ["example.com/backup"]}})
    await shop.api.delete(path)
    await shop.pod("finalized-b", "finalized")
    await shop.spread("finalized", 3, 3)
    found = await shop.api.get(path)
    assert found["metadata"]["finalizers"] == ["example.com/backup"] and "deletionTimestamp" in found["metadata"]
    await shop.api.merge(path, {"metadata": {"finalizers": None}})

    async def made_again() -> bool:
        found = await shop.api.find(path)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    await eventually(made_again, "there is another ledger")
    await shop.spread("finalized", 3, 3)
    await shop.told("finalized", "Ready")


async def test_a_group_whose_finalizer_is_refused_reports_it(shop: World) -> None:
    """Admission may refuse the group itself, too."""
    await shop.external("frozen")
    path = group_path(ADMISSION, None, "validatingadmissionpolicies")
    name = f"{SHOP}-groups"
    rule = {"apiGroups": ["baton.dev"], "apiVersions": ["*"], "resources": ["consumergroups"], "operations": ["UPDATE"]}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": "frozen"}]}
    await shop.api.create(path, {"metadata": {"name": name}, "spec": policy})
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SHOP}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    await shop.api.create(f"{path.removesuffix('ies')}ybindings", {"metadata": {"name": name}, "spec": binding})
    try:
        await shop.group("frozen-probe", ["frozen"], paused=True)

        async def closed() -> bool:
            try:
                patch = {"metadata": {"annotations": {"try": "1"}}}
                await shop.api._request(
                    "PATCH", groups_path(SHOP, "frozen-probe"), {"dryRun": "All"}, patch, "application/merge-patch+json"
                )
            except ApiError:
                return True
            return False

        await eventually(closed, "changes of groups are refused")
        await shop.group("frozen")
        message = await shop.told("frozen", "ApiRefused")
        assert "the finalizer baton.dev/release cannot be put on the group" in message and "frozen" in message
    finally:
        await shop.api.delete(f"{path.removesuffix('ies')}ybindings/{name}")
        await shop.api.delete(f"{path}/{name}")
    await shop.pod("frozen-a", "frozen")
    await shop.spread("frozen", 6)


# -- An admission webhook of one tenant that never answers delays only the groups of its namespace.


GROUPS = 100
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]},
    {
        "apiGroups": ["baton.dev"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["consumergroups", "consumergroups/status"],
    },
]


@asynccontextmanager
async def hanging_webhook(api: Cluster, name: str, port: int) -> AsyncIterator[None]:
    """In this namespace a webhook at the port decides on ledgers and groups. It takes effect, and ends, a moment later."""
    webhook = {
        "name": "gate.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": RULES,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
    }
    path = group_path(ADMISSION, None, "validatingwebhookconfigurations")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "try-"}}

    async def refused() -> bool:
        try:
            await api._request("POST", core_path(name, "configmaps"), {"dryRun": "All"}, config_map)
        except (ApiError, UnavailableError):
            return True
        return False

    async def accepted() -> bool:
        return not await refused()

    await api.create(path, {"metadata": {"name": name}, "webhooks": [webhook]})
    try:
        await eventually(refused, "ConfigMaps are refused")
        yield
    finally:
        await api.delete(f"{path}/{name}")
        await eventually(accepted, "ConfigMaps are accepted")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        yield server.getsockname()[1]


@pytest.mark.long
async def test_a_hanging_webhook_in_one_namespace_delays_no_other(
    empty: World, api: Cluster, start: Callable[..., Operator], silent_port: int
) -> None:
    busy = await namespace(api, f"{empty.namespace}-busy")
    operator = await start(empty, "one", "--namespace", busy.namespace).leads()
    source = {"type": "External", "external": {"onDeadline": "Force"}}
    await empty.queue("orders", source, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 0})
    await empty.group("orders")
    await empty.pod("a", "orders")
    await empty.spread("orders", 6)
    await busy.external("jobs", 6, rebalance={"delaySeconds": 0})
    async with hanging_webhook(api, busy.namespace, silent_port):
        await asyncio.gather(*(busy.group(f"jobs-{number}", ["jobs"]) for number in range(GROUPS)))
        await asyncio.gather(*(busy.pod(f"jobs-{number}", f"jobs-{number}") for number in range(GROUPS)))
        began, turn = time.monotonic(), 0
        while turn < 5 or time.monotonic() < began + 40:  # so long that all of them have tried, and some again
            turn += 1
            await empty.pod(f"b{turn}", "orders")
            await empty.spread("orders", 3, 3)
            await empty.delete_pod(f"b{turn}")
            await empty.spread("orders", 6)
            assert operator.get("/healthz")[0] == 200

    async def all_have_ledgers() -> bool:
        found = await api.get(core_path(busy.namespace, "configmaps"))
        names = {one["metadata"]["name"] for one in found["items"]}
        return all(ledger_name(f"jobs-{number}") in names for number in range(GROUPS))

    await eventually(all_have_ledgers, "every group has a ledger")
