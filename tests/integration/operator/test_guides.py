"""What guides have people type, at an API server: it takes every object; and what the objects name is there."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from charts.render import CHART
from cluster import helm_binary
from cluster.cluster import Cluster
from cluster.programs import KUBE
from tests.e2e.spark import spark_operator
from tests.integration.operator.world import World
from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, eventually

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "manifests" / "examples"
POLICIES = EXAMPLES / "network-policies"

Typed = Callable[[str, Path], list[str]]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", (DOCS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)


def ran(command: Sequence[str | Path], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def typed(empty: World, control_plane: Cluster) -> Typed:
    """What kubectl answers to a block of a guide, in a new namespace. Waiting and `baton` are left out."""

    def run(block: str, folder: Path) -> list[str]:
        at = f'"{KUBE.path()}" kubectl --kubeconfig "{control_plane.kubeconfig}"'
        left_out = re.compile(r"^kubectl (create namespace|config|wait|logs)|^baton |^helm ", re.MULTILINE)
        lines = [line for line in block.splitlines(keepends=True) if not left_out.match(line)]
        script = "".join(lines).replace("-n shop", "").replace("redis.shop", f"redis.{empty.namespace}")
        kubectl = f'kubectl() {{ {at} --namespace {empty.namespace} "$@"; }}\n'
        command = ("bash", "-euc", kubectl + script)
        return ran(command, folder).splitlines()

    return run


async def test_the_tutorials_first_group_is_accepted(typed: Typed) -> None:
    fleet, producer = (
        block for block in blocks("tutorials/kubernetes") if "kubectl create deployment redis" in block or "kubectl run" in block
    )
    made = [*typed(fleet, ROOT), *typed(producer, ROOT)]
    assert {line.rpartition(" ")[2] for line in made} <= {"created", "exposed"}
    assert {"deployment.apps/redis", "secret/orders-redis", "consumergroup.baton.dev/orders", "pod/producer"} <= {
        line.partition(" ")[0] for line in made
    }


async def test_the_tutorials_producer_sends(redis_server: RedisServer) -> None:
    (block,) = (block for block in blocks("tutorials/kubernetes") if "kubectl run producer" in block)
    program = block.partition("-- -c '\n")[2].partition("\n'\n")[0]
    assert "redis://redis.shop:6379/0" in program
    queue = RedisQueue(redis_server.url, "shop/orders", Claimant("shop/orders", "a test"))
    await queue.ensure(12)
    process = ChildProcess((sys.executable, "-c", program.replace("redis://redis.shop:6379/0", redis_server.url)))

    async def sent() -> bool:
        return sum((await queue.check()).lag.values()) > 3

    try:
        await eventually(sent, "entries come", shown=queue.check)
    finally:
        process.kill()
        process.wait(PATIENCE)
        await queue.release()
        await queue.close()


async def test_the_guides_secrets_for_redis_with_users_and_tls_exist(typed: Typed, tmp_path: Path) -> None:
    files, secrets, *_ = blocks("guides/redis-users-and-tls")
    ran(("bash", "-euc", files), tmp_path)
    made = {line.removesuffix(" created") for line in typed(secrets, tmp_path)}
    mounted = re.findall(r"(secretName|name): ([\w-]+)\}", (EXAMPLES / "redis-tls" / "redis.yaml").read_text())
    assert made == {
        "secret/redis-tls",
        "secret/redis-users",
        "configmap/redis-ca",
        "secret/orders-redis",
        "secret/orders-redis-consumer",
    }
    assert {f"secret/{name}" for kind, name in mounted if kind == "secretName"} <= made


def objects(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


async def test_network_policies_select_existing_pods(empty: World, control_plane: Cluster) -> None:
    command: list[str | Path] = [helm_binary(), "template", "baton", CHART]
    command += ["--namespace", "baton-system", "--values", POLICIES / "operator-values.yaml"]
    chart = objects(ran(command, ROOT))
    operator = next(one for one in chart if one["kind"] == "Deployment")["spec"]["template"]["metadata"]["labels"]
    (policy,) = (one for one in chart if one["kind"] == "NetworkPolicy")
    policy["metadata"]["namespace"] = empty.namespace
    answers = [
        *control_plane.kubectl(
            "apply", "--dry-run=server", "-n", empty.namespace, "-f", str(POLICIES / "fleet.yaml")
        ).splitlines(),
        *control_plane.kubectl("apply", "--dry-run=server", "-f", "-", text=yaml.safe_dump(policy)).splitlines(),
    ]
    assert len(answers) == 6
    assert all(line.endswith(" created (server dry run)") for line in answers)
    redis = objects((EXAMPLES / "redis-tls" / "redis.yaml").read_text())[1]["spec"]["template"]
    consumer = objects((EXAMPLES / "redis-consumer" / "deployment.yaml").read_text())[0]["spec"]["template"]
    known = [labels.items() for labels in (operator, redis["metadata"]["labels"], consumer["metadata"]["labels"])]
    asked = [policy, *objects((POLICIES / "fleet.yaml").read_text())]
    pods = [selector for one in asked for selector in selectors(one["spec"]) if selector]
    assert len(pods) > 6
    assert [one for one in pods if one != {"app": "orders-producer"} and not any(one.items() <= labels for labels in known)] == []
    ports = {port["containerPort"] for port in redis["spec"]["containers"][0]["ports"]}
    assert ports == {6379}


def selectors(spec: Any) -> list[dict[str, str]]:
    """The labels of each podSelector in it."""
    if isinstance(spec, list):
        return [labels for one in spec for labels in selectors(one)]
    if not isinstance(spec, dict):
        return []
    own = [spec["podSelector"].get("matchLabels", {})] if "podSelector" in spec else []
    return own + [labels for value in spec.values() for labels in selectors(value)]


# -- The examples as a user applies them: nothing in them is unknown to the API server, and it accepts every object.


STARTED = {"deployment.apps", "statefulset.apps", "job.batch", "sparkapplication.sparkoperator.k8s.io"}
REPLACED = ("poddisruptionbudget.policy/", "statefulset.apps/redis ")
"""kubectl sends the selector of the one, and the claims of the other, whole with every apply, and says \"configured\"."""
FOLDERS = sorted(file.parent for file in EXAMPLES.glob("*/kustomization.yaml"))


@pytest.fixture(scope="module")
def machine(control_plane: Cluster) -> Cluster:
    """It knows SparkApplications."""
    spark_operator.define(control_plane)
    return control_plane


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
async def test_an_example_can_be_applied_twice(empty: World, machine: Cluster, folder: Path) -> None:
    arguments = ("apply", "-k", str(folder), "-n", empty.namespace, "--validate=strict")
    first = machine.kubectl(*arguments).splitlines()
    kinds = {line.split("/")[0] for line in first}
    assert kinds >= {"partitionedqueue.baton.dev", "consumergroup.baton.dev"}
    assert kinds & STARTED
    assert [line for line in first if not line.endswith(" created")] == []
    again = machine.kubectl(*arguments).splitlines()
    assert [line for line in again if not line.endswith(" unchanged") and not line.startswith(REPLACED)] == []
