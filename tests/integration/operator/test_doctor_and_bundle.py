"""`baton doctor` and `baton bundle` of a real API server: what is wrong, what may not be read, and no secret in it.

One process runs them: `doctor` looks at the operators of all namespaces, and the test of `bundle` makes one."""

import asyncio
import json
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.api.crd import crds
from baton.cli.doctor import OLDEST_KUBERNETES, OPERATORS
from baton.kube.api import core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.objects import groups_path, queues_path
from baton.model.ids import Uid
from baton.model.names import OPERATOR_SELECTOR
from baton.queues.redis import RedisProducer
from tests.integration.operator.accounts import account, grant, of_token, service_account, token_of
from tests.integration.operator.baton_command import baton
from tests.integration.operator.test_rights import rendered
from tests.integration.operator.world import KEEPS, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]


async def doctor(kubeconfig: Path, *arguments: str) -> tuple[int, list[dict[str, str]], str]:
    """The exit code, what it found, and what it said besides."""
    done = await baton("doctor", "--kubeconfig", kubeconfig, "-o", "json", *arguments)
    return done.returncode, json.loads(done.stdout) if done.stdout else [], done.stderr


def said(found: list[dict[str, str]], verdict: str) -> dict[str, str]:
    """What is said of each thing with this verdict."""
    told: dict[str, str] = {}
    for one in found:
        if one["verdict"] == verdict:
            told[one["about"]] = "; ".join(filter(None, [told.get(one["about"]), one["says"]]))
    return told


async def test_doctor_finds_nothing_in_a_healthy_namespace_and_each_problem_in_another(
    empty: World, start: Callable[..., Operator], kubeconfig: Path
) -> None:
    await start(empty, "looks").leads()
    here = empty.namespace
    await empty.fleet("fine", partitions=2)
    await empty.told("fine", "Ready")
    code, found, _ = await doctor(kubeconfig, "-n", here)
    assert (code, said(found, "Failed")) == (0, {}), found
    good = said(found, "OK")
    assert {"Kubernetes", f"group {here}/fine", f"queue {here}/fine", f"leader {here}/operator"} <= good.keys()
    assert {f"CRD {one['metadata']['name']}" for one in crds()} <= good.keys()
    assert "Fenced is False: NotEnforced" in said(found, "Warning")[f"group {here}/fine"]

    await empty.group("lost", queues=["nowhere"])
    await empty.told("lost", "QueueNotFound")
    await empty.pod("stray", "nobody", ready=False)
    await empty.pod("odd", "fine", ready=False, annotations={"baton.dev/capacity": "\x1b[31mmuch"})
    code, found, _ = await doctor(kubeconfig, "-n", here)
    failed, warned = said(found, "Failed"), said(found, "Warning")
    assert code == 1 and "QueueNotFound" in failed[f"group {here}/lost"]
    assert "there is no such group" in failed[f"pod {here}/stray"] and "capacity" in warned[f"pod {here}/odd"]
    assert warned[f"pods of {here}/fine"] == "odd is not Ready"
    assert all(one["cure"] for one in found if one["verdict"] in ("Failed", "Warning")), found

    deployments = group_path("apps/v1", here, "deployments")
    labels = {"app.kubernetes.io/part-of": "baton", "app.kubernetes.io/component": "operator"}
    labels |= {"app.kubernetes.io/name": "mine", "app.kubernetes.io/version": "0.0.9"}  # as nameOverride has it
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}], "serviceAccountName": "weak"},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await empty.api.create(deployments, {"metadata": {"name": "old", "labels": labels}, "spec": spec})
    containers = [{"name": "c", "image": "none", "args": ["operator", "--namespace=elsewhere"]}]
    elsewhere = {"template": {"spec": {"containers": containers}}}
    try:
        _, found, _ = await doctor(kubeconfig, "-n", here)
        await empty.api.merge(f"{deployments}/old", {"spec": elsewhere})
        _, found_elsewhere, _ = await doctor(kubeconfig, "-n", here)
    finally:
        await empty.api.delete(f"{deployments}/old")
    assert "is release 0.0.9" in said(found, "Warning")[f"operator {here}/old"]
    assert said(found, "Failed")[f"operator {here}/old"] == "none of 1 pod is Ready"
    assert f"system:serviceaccount:{here}:weak may not" in said(found, "Failed")["the operator's rights"]
    assert "the operator's rights" not in said(found_elsewhere, "Failed")


async def test_a_viewer_is_told_what_doctor_could_not_read(empty: World, kubeconfig: Path, tmp_path: Path) -> None:
    """With the chart's role for viewers, and Kubernetes' own."""
    here = empty.namespace
    await empty.external("seen", partitions=1)
    await empty.group("seen")
    await empty.api.create(core_path(here, "serviceaccounts"), {"metadata": {"name": "viewer"}})
    rules = [
        {"apiGroups": ["baton.dev"], "resources": ["consumergroups", "partitionedqueues"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps", "pods", "events"], "verbs": ["get", "list"]},
    ]
    await grant(empty.api, here, "viewer", rules, service_account(here, "viewer"))
    token = await token_of(empty.api, here, "viewer")
    code, found, error = await doctor(of_token(kubeconfig, token, tmp_path / "viewer"), "-n", here)
    assert {"CRDs", "operator"} <= said(found, "Unknown").keys(), (found, error)
    rights = [one["says"] for one in found if one["about"] == "your rights"]
    assert any("patch consumergroups.baton.dev" in one for one in rights) and not any("list pods" in one for one in rights)
    assert code == 1 and "no operator" in said(found, "Failed")[f"group {here}/seen"]


@pytest.mark.parametrize("verb_and_what", [(verb, what) for verb, what, _ in OPERATORS], ids=" ".join)
def test_the_chart_allows_what_doctor_expects_of_the_operator(verb_and_what: tuple[str, str]) -> None:
    verb, what = verb_and_what
    name, _, sub = what.partition("/")
    resource, _, group = name.partition(".")
    wanted = f"{resource}/{sub}" if sub else resource
    rules = [rule for one in rendered("rights-doctor") if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    assert any(verb in rule["verbs"] and wanted in rule["resources"] and group in rule["apiGroups"] for rule in rules)


def test_doctor_and_the_chart_agree_on_the_oldest_kubernetes() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "baton" / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={'.'.join(map(str, OLDEST_KUBERNETES))}.0-0"


# -- bundle

PLANTED = "hunter2"
"""In every secret."""


async def bundle(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await baton("bundle", "--kubeconfig", kubeconfig, *arguments)


def unpacked(file: Path) -> dict[str, bytes]:
    """By the path in the archive, without its first folder."""
    with tarfile.open(file) as archive:
        found = {one.name.partition("/")[2]: archive.extractfile(one) for one in archive.getmembers()}
        return {name: content.read() for name, content in found.items() if content is not None}


async def planted(world: World, server: RedisServer) -> int:
    """Put a secret into every place of a group `orders` that can hold one. Returns how many."""
    count = 0

    def secret(around: str = "{}") -> str:
        nonlocal count
        count += 1
        return around.format(f"{PLANTED}-{count}")

    api, here = world.api, world.namespace
    url, word = "cannot reach redis://me:{}@redis:6379/0", "its password={} was refused"
    applied = {
        "kubectl.kubernetes.io/last-applied-configuration": secret('{{"url": "redis://:{}@redis"}}'),
        "team/note": secret(),
    }
    marks: dict[str, Any] = {"annotations": applied, "labels": {"team/key": secret()}}
    await world.secret("orders-redis", secret("redis://:{}@redis:6379"))
    await api.merge(queues_path(here, "orders"), {"metadata": marks})
    await api.merge(groups_path(here, "orders"), {"metadata": marks})
    await api.merge(world.ledger_path("orders"), {"metadata": marks, "data": {"notes": secret()}})

    container = {
        "name": "consumer",
        "image": "none",
        "env": [{"name": "BATON_REDIS_URL", "value": secret("redis://:{}@redis:6379")}, {"name": "PLAIN", "value": secret()}],
        "command": ["python", secret()],
        "args": [secret("--password={}")],
    }
    metadata = {"name": "orders-a", "labels": {"baton.dev/group": "orders", **marks["labels"]}, "annotations": applied}
    await api.create(core_path(here, "pods"), {"metadata": metadata, "spec": {"containers": [container]}})
    waiting = {"name": "consumer", "image": "none", "imageID": "", "ready": False, "restartCount": 3}
    waiting["state"] = {"waiting": {"reason": "CreateContainerConfigError", "message": secret(word)}}
    condition = {"type": "Ready", "status": "False", "reason": "Odd", "message": secret(url)}
    status = {"phase": "Pending", "message": secret(), "conditions": [condition], "containerStatuses": [waiting]}
    await api.merge(core_path(here, "pods", "orders-a") + "/status", {"status": status})

    await world.session("orders-b", Uid("uid-of-b"), "orders", name="baton-orders-b")
    trouble = {"annotations": {"baton.dev/trouble": secret(url), **applied}}
    await api.merge(leases_path(here, "baton-orders-b"), {"metadata": trouble})
    event = {
        "metadata": {"name": "orders.planted", "annotations": applied},
        "eventTime": "2026-11-26T12:00:00.000000Z",
        "reportingController": "tests",
        "reportingInstance": "tests",
        "action": "Told",
        "reason": "Planted",
        "type": "Warning",
        "note": secret(url),
        "regarding": {"apiVersion": "baton.dev/v1alpha1", "kind": "ConsumerGroup", "namespace": here, "name": "orders"},
    }
    await api.create(group_path(EVENTS, here, "events"), event)

    labels = {"app.kubernetes.io/part-of": "baton", "app.kubernetes.io/component": "operator"}
    operator = {
        "name": "operator",
        "image": "none",
        "args": ["operator", "--log-level=debug", secret("--password={}"), secret()],
        "env": [{"name": "TOKEN", "value": secret()}],
    }
    template = {"metadata": {"labels": labels, "annotations": applied}, "spec": {"containers": [operator]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    about = {"name": "baton", "labels": labels, "annotations": applied}
    await api.create(group_path("apps/v1", here, "deployments"), {"metadata": about, "spec": spec})

    async def made() -> bool:
        return bool((await api.get(core_path(here, "pods"), labelSelector=OPERATOR_SELECTOR))["items"])

    await eventually(made, "the Deployment has its pod")
    with RedisProducer(server.url, f"{here}/orders") as producer:
        producer.send("key", secret())
    return count


async def test_a_bundle_contains_no_secret(
    empty: World, start: Callable[..., Operator], kubeconfig: Path, redis_server: RedisServer, tmp_path: Path
) -> None:
    await start(empty, "collects", *KEEPS).leads()
    await empty.fleet("orders", "orders-first", url=redis_server.url, partitions=1)
    file, here = tmp_path / "report.tar.gz", empty.namespace
    assert await planted(empty, redis_server) > 15
    done = await bundle(kubeconfig, f"{here}/orders", "--file", str(file))
    assert done.returncode == 0, done.stderr
    inside = unpacked(file)
    assert [name for name, content in inside.items() if PLANTED.encode() in content] == []
    assert PLANTED not in done.stdout + done.stderr

    folder = f"{here}/groups/orders"
    wanted = {"versions.json", "doctor.json", "unread.json", f"{here}/events.json", f"{here}/queues/orders.json"}
    wanted |= {f"{folder}/{name}.json" for name in ("group", "ledger", "leases", "pods")} | {f"operators/{here}/baton.json"}
    assert wanted <= inside.keys(), inside.keys()
    read = {name: json.loads(content) for name, content in inside.items() if name.endswith(".json")}
    assert read[f"{folder}/group.json"]["spec"]["queues"] == [{"name": "orders"}]
    assert set(read[f"{folder}/ledger.json"]["data"]) >= {"group", "orders-first"}
    (sick,) = [one for one in read[f"{folder}/pods.json"] if one["metadata"]["name"] == "orders-a"]
    assert sick["containers"][0]["restartCount"] == 3
    planted_event = next(one for one in read[f"{here}/events.json"] if one["reason"] == "Planted")
    assert planted_event["note"] == "cannot reach redis://***@redis:6379/0"
    assert read[f"operators/{here}/baton.json"]["containers"][0]["arguments"] == ["--log-level=debug"]
    assert "redis://***@redis:6379/0" in json.dumps(read[f"{folder}/leases.json"])


async def test_a_bundle_lists_what_could_not_be_read_and_has_the_rest(
    empty: World, kubeconfig: Path, tmp_path: Path, redis_server: RedisServer
) -> None:
    await empty.redis("orders", redis_server.url, partitions=1)
    await empty.group("orders")
    looker = await account(empty.api, "collects-little", kubeconfig, tmp_path, [empty.namespace])
    await looker.bind(empty.namespace, without="pods")
    file = tmp_path / "report.tar.gz"
    done = await bundle(looker.kubeconfig, "-n", empty.namespace, "--file", str(file))
    assert done.returncode == 0, done.stderr
    inside = unpacked(file)
    unread = json.loads(inside["unread.json"])
    assert "forbidden" in unread[f"pods of {empty.namespace}"] and f"{empty.namespace}/groups/orders/group.json" in inside
    assert f"not in it: pods of {empty.namespace}: " in done.stderr
    assert stat.S_IMODE((await asyncio.to_thread(file.stat)).st_mode) == 0o600
    again = await bundle(looker.kubeconfig, "-n", empty.namespace, "--file", str(file))
    assert again.returncode == 2 and "exists already" in again.stderr


async def test_a_missing_group_makes_no_bundle(empty: World, kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "none.tar.gz"
    for words in (("nothing", "-n", empty.namespace), ("-n", empty.namespace)):
        done = await bundle(kubeconfig, *words, "--file", str(file))
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
        assert not await asyncio.to_thread(file.exists)
