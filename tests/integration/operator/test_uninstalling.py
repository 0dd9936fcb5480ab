"""What `helm uninstall` asks first, as the operator's account: which groups are left."""

import asyncio
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.kube.api import core_path
from baton.kube.releases import RELEASE_ANNOTATION
from baton.model.names import GROUP_LABEL, ledger_name
from charts.render import CHART
from tests.integration.operator.accounts import account
from tests.integration.operator.world import Cluster, Json, World
from tests.service_account import mounted

HELD = {"metadata": {"finalizers": ["baton.dev/release"]}}
FREED = {"metadata": {"finalizers": None}}

OWN, OTHER = "baton-system/baton-operator", "elsewhere/baton-operator"
"""Releases."""

SCRIPT = CHART / "files" / "no_group_is_left.py"
MEASURED = """
import re, runpy, sys
from pathlib import Path
script, server, account, *further = sys.argv[1:]
print(runpy.run_path(script)["main"](server, Path(account), further[0], further[1:]))
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
"""It prints the KiB that it has taken, too. (`ru_maxrss` would be the parent's, if that is more.)"""

Left = Callable[..., Any]
Annotated = dict[str, str]
Account = tuple[str, Path]


@pytest.fixture
async def operators(api: Cluster, kubeconfig: Path, tmp_path: Path, empty: World) -> Account:
    """The API server, and a pod's service account with the operator's role in the namespace of the fixture `empty`."""
    who = await account(api, f"uninstalls-{empty.namespace}", kubeconfig, tmp_path, [empty.namespace])
    config = yaml.safe_load(who.kubeconfig.read_text())
    folder = tmp_path / "account"
    mounted(kubeconfig, folder, config["users"][0]["user"]["token"])
    return config["clusters"][0]["cluster"]["server"], folder


@pytest.fixture
def left(operators: Account) -> Left:
    """`left(…)`: what the script says of these namespaces."""
    main = runpy.run_path(str(SCRIPT))["main"]
    return lambda *namespaces: main(*operators, OWN, list(namespaces))


async def test_it_names_the_groups_that_an_operator_must_release_first(empty: World, left: Left) -> None:
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
        await empty.change("consumergroups", name, FREED)
        await empty.delete("consumergroups", name)
    assert left(empty.namespace) is None


async def test_a_namespace_that_is_gone_with_its_role_delays_nothing(empty: World, left: Left) -> None:
    await empty.group("a")
    await empty.change("consumergroups", "a", HELD)
    assert f"Groups are left: {empty.namespace}/a. Delete" in left("gone", empty.namespace)
    assert left("gone") is None
    await empty.change("consumergroups", "a", FREED)


def ledger(group: str, annotations: Annotated) -> Json:
    return {"metadata": {"name": ledger_name(group), "labels": {GROUP_LABEL: group}, "annotations": annotations}}


async def test_groups_of_another_release_are_not_named(empty: World, left: Left) -> None:
    groups: dict[str, Annotated | None] = {
        "own": {RELEASE_ANNOTATION: OWN},
        "theirs": {RELEASE_ANNOTATION: OTHER},
        "nobodys": {},
        "nonsense": {RELEASE_ANNOTATION: "nonsense"},
        "without": None,
    }
    maps = core_path(empty.namespace, "configmaps")
    for name, annotations in groups.items():
        await empty.group(name)
        await empty.change("consumergroups", name, HELD)
        if annotations is not None:
            await empty.api.create(maps, ledger(name, annotations))
    theirs: Json = ledger("without", {RELEASE_ANNOTATION: OTHER})
    theirs["metadata"]["name"] = "settings"
    await empty.api.create(maps, theirs)
    named = ", ".join(f"{empty.namespace}/{name}" for name in ("nobodys", "nonsense", "own", "without"))
    assert f"Groups are left: {named}. Delete" in left(empty.namespace)
    for name in groups:
        if name != "theirs":
            await empty.change("consumergroups", name, FREED)
    assert left(empty.namespace) is None
    await empty.change("consumergroups", "theirs", FREED)


@pytest.mark.long
async def test_many_large_groups_fit_the_hooks_memory(empty: World, operators: Account) -> None:
    note = {"note": "x" * 250_000}
    for number in range(150):
        await empty.group(f"a{number}")
        await empty.change("consumergroups", f"a{number}", {"metadata": {"annotations": note}})
        await empty.api.create(core_path(empty.namespace, "configmaps"), ledger(f"a{number}", note))
    await empty.change("consumergroups", "a149", HELD)
    command = [sys.executable, "-c", MEASURED, str(SCRIPT), operators[0], str(operators[1]), OWN, empty.namespace]
    asked = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, taken = (await asked.communicate())[0].decode().splitlines()
    assert f"Groups are left: {empty.namespace}/a149. Delete" in said
    limit = re.search(r"limits: \{memory: (\d+)Mi\}", (CHART / "templates" / "_hooks.tpl").read_text())
    assert limit is not None
    assert int(taken) < 1024 * int(limit[1])
    await empty.change("consumergroups", "a149", FREED)
