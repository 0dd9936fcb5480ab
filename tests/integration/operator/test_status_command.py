"""`baton status` against a real group."""

import json
import subprocess
from pathlib import Path

import yaml

from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import SHOP, World


async def status(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("status", "--kubeconfig", kubeconfig, *arguments)


async def test_a_group_is_shown_on_one_screen_and_as_json(shop: World, kubeconfig: Path) -> None:
    await shop.external("shown", partitions=4)
    await shop.group("shown")
    await shop.together("shown", shop.pod("shown-a", "shown"), shop.pod("shown-b", "shown"))
    await shop.spread("shown", 2, 2)
    await shop.told("shown", "Ready")
    screen = (await status(kubeconfig, "shown", "-n", SHOP)).stdout
    assert f"{SHOP}/shown: " in screen and "shown-a" in screen and "Fenced is False" in screen
    told = json.loads((await status(kubeconfig, "shown", "-n", SHOP, "-o", "json")).stdout)
    assert {name: entry["count"] for name, entry in told["owners"].items()} == {"shown-a": 2, "shown-b": 2}
    as_yaml = yaml.safe_load((await status(kubeconfig, "shown", "-n", SHOP, "-o", "yaml")).stdout)
    assert as_yaml.keys() == told.keys() and as_yaml["owners"] == told["owners"]
    assert "shown-b" in (await status(kubeconfig, "shown", "-n", SHOP, "-o", "wide")).stdout
    assert "ASSIGNOR" in (await status(kubeconfig, "-n", SHOP, "-o", "wide")).stdout
    listed = json.loads((await status(kubeconfig, "-n", SHOP, "-o", "json")).stdout)
    assert "shown" in {one["group"] for one in listed}


async def test_a_group_that_does_not_exist_is_said(shop: World, kubeconfig: Path) -> None:
    done = await status(kubeconfig, "nothing", "-n", SHOP)
    assert done.returncode == 1
    assert '"nothing" not found' in done.stderr
