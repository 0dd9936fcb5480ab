"""`baton status`, `baton pause`, `baton resume`, and what all commands say of a group that is not there; `kubectl baton`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from baton import __version__
from cluster.programs import KUBE
from tests.integration.operator.baton_command import baton
from tests.integration.operator.world import SHOP, World


async def status(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("status", "--kubeconfig", kubeconfig, *arguments)


async def test_a_group_is_shown_on_one_screen_and_as_json(shop: World, kubeconfig: Path) -> None:
    await shop.fleet("shown", "shown-a", "shown-b", partitions=4)
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


@pytest.mark.parametrize("command", ["status", "pause", "approve", "rebalance"])
async def test_a_group_that_does_not_exist_is_refused_in_one_line(shop: World, kubeconfig: Path, command: str) -> None:
    done = await baton(command, "nothing", "-n", SHOP, "--kubeconfig", kubeconfig)
    assert done.returncode == 1
    assert done.stderr.startswith(f'baton {command}: consumergroups.baton.dev "nothing" not found in namespace {SHOP}: ')
    assert len(done.stderr.splitlines()) == 1


async def test_nothing_moves_while_a_group_is_paused(shop: World, kubeconfig: Path) -> None:
    async def said(command: str) -> str:
        return (await baton(command, "halted", "-n", SHOP, "--kubeconfig", kubeconfig)).stdout

    source = {"type": "External", "external": {"onDeadline": "Force"}}
    await shop.queue("halted", source, partitions=4, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 0})
    await shop.group("halted")
    await shop.pod("halted-a", "halted")
    await shop.spread("halted", 4)
    assert "no new hand-offs begin" in await said("pause")
    await shop.seen("halted")
    await shop.pod("halted-b", "halted")
    await shop.shows("halted", members=2, state="Paused")
    assert max((await shop.counts("halted")).values()) == 4
    assert "is already paused" in await said("pause")
    assert "hand-offs may begin" in await said("resume")
    await shop.spread("halted", 2, 2)


# -- The real kubectl runs `kubectl baton` where the command is installed.

SCRIPTS = Path(sys.executable).parent


def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    command = [str(KUBE.path()), "kubectl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_kubectl_finds_the_plugin() -> None:
    listed = kubectl("plugin", "list")
    assert str(SCRIPTS / "kubectl-baton") in listed.stdout.splitlines(), listed
    assert kubectl("baton", "--version").stdout == f"baton, version {__version__}\n"


@pytest.mark.parametrize("form", [("-n", "{namespace}", "orders"), ("{namespace}/orders",)])
async def test_the_plugin_shows_a_group_with_kubectls_own_options(empty: World, kubeconfig: Path, form: tuple[str, ...]) -> None:
    await empty.external("orders", partitions=2)
    await empty.group("orders")
    words = [word.format(namespace=empty.namespace) for word in form]
    done = kubectl("baton", "status", "--kubeconfig", str(kubeconfig), *words)
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, f"{empty.namespace}/orders: Unknown"), done
    missing = kubectl("baton", "pause", "--kubeconfig", str(kubeconfig), "-n", empty.namespace, "nothing")
    assert missing.returncode == 1 and missing.stderr.startswith("baton pause: ")
