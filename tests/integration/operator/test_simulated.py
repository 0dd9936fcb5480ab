"""What kubectl prints of a group that works simulates as it is."""

import asyncio
from pathlib import Path

import pytest

from baton.simulation import read_scenario, simulate
from cluster.cluster import Cluster
from tests.integration.operator.world import World


@pytest.mark.usefixtures("shared_operator")
async def test_resources_as_kubectl_prints_them(shop: World, control_plane: Cluster, tmp_path: Path) -> None:
    await shop.external("simulated", rebalance={"delaySeconds": 2})
    await shop.group("simulated")
    await shop.together("simulated", shop.pod("simulated-a", "simulated"), shop.pod("simulated-b", "simulated"))
    await shop.spread("simulated", 3, 3)
    printed = tmp_path / "fleet.yaml"
    printed.write_text(control_plane.kubectl("get", "cg,pq", "-o", "yaml", "-n", shop.namespace))
    scenario = read_scenario(printed, "simulated")
    assert [one.id for one in scenario.events[0].join] == ["simulated-1", "simulated-2"]
    result = await asyncio.to_thread(simulate, scenario)
    assert result.summary["state"] == "Ready"
