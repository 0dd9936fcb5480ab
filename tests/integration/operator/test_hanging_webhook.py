"""An admission webhook of one tenant that never answers: all its groups wait for it, and those of no other tenant."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from baton.kube.api import core_path
from baton.model.names import ledger_name
from tests.integration.operator.conftest import namespace
from tests.integration.operator.test_refused_writes import Gate
from tests.integration.operator.world import Cluster, Operator, World
from tests.waiting import eventually

GROUPS = 100
RULES = {
    "apiGroups": ["baton.dev"],
    "apiVersions": ["*"],
    "operations": ["UPDATE"],
    "resources": ["consumergroups", "consumergroups/status"],
}


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
    gate = Gate(api, busy.namespace)
    try:
        await gate.webhook(silent_port, RULES)
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
    finally:
        await gate.open()

    async def all_have_ledgers() -> bool:
        found = await api.get(core_path(busy.namespace, "configmaps"))
        names = {one["metadata"]["name"] for one in found["items"]}
        return all(ledger_name(f"jobs-{number}") in names for number in range(GROUPS))

    await eventually(all_have_ledgers, "every group has a ledger")
