"""What `helm uninstall` asks first, as the operator's account: which groups are left."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.render import CHART
from tests.integration.operator.accounts import account
from tests.integration.operator.world import Cluster, World
from tests.service_account import mounted

HELD = {"metadata": {"finalizers": ["baton.dev/release"]}}
LET_GO = {"metadata": {"finalizers": None}}

Left = Callable[..., Any]


@pytest.fixture
async def left(api: Cluster, kubeconfig: Path, tmp_path: Path, empty: World) -> Left:
    """`left(…)`: what the script says of these namespaces. The account has its role in that of the fixture `empty`."""
    who = await account(api, f"uninstalls-{empty.namespace}", kubeconfig, tmp_path, [empty.namespace])
    config = yaml.safe_load(who.kubeconfig.read_text())
    folder = tmp_path / "account"
    mounted(kubeconfig, folder, config["users"][0]["user"]["token"])
    main = runpy.run_path(str(CHART / "files" / "no_group_is_left.py"))["main"]
    return lambda *namespaces: main(config["clusters"][0]["cluster"]["server"], folder, list(namespaces))


async def test_it_names_the_groups_that_an_operator_is_to_release_before_they_go(empty: World, left: Left) -> None:
    for name in "abcdefg":
        await empty.group(name)
    assert left(empty.namespace) is None, "a group that no operator has seen needs none"
    for name in "ab":
        await empty.change("consumergroups", name, HELD)
    assert f"Groups are left: {empty.namespace}/a, {empty.namespace}/b. Delete them first" in left(empty.namespace)
    for name in "cdefg":
        await empty.change("consumergroups", name, HELD)
    assert f"{empty.namespace}/e and 2 more. Delete" in left(empty.namespace)
    for name in "abcdefg":
        await empty.change("consumergroups", name, LET_GO)
        await empty.delete("consumergroups", name)
    assert left(empty.namespace) is None


async def test_a_namespace_that_went_with_the_operators_role_holds_nothing_up(empty: World, left: Left) -> None:
    await empty.group("a")
    await empty.change("consumergroups", "a", HELD)
    assert f"Groups are left: {empty.namespace}/a. Delete" in left("gone", empty.namespace)
    assert left("gone") is None
    await empty.change("consumergroups", "a", LET_GO)
