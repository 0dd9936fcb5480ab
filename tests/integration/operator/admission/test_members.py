"""Who may bring pods into a group, and who may write its ledger."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from baton.kube.api import core_path, group_path
from baton.kube.errors import ApiError
from baton.model.names import DRAIN_ANNOTATION, GROUP_LABEL
from tests.integration.operator.accounts import grant
from tests.integration.operator.admission.actors import (
    DEPLOYER,
    MAP_EDITOR,
    POD_MAKER,
    STATUS_WRITER,
    Actor,
    account,
    joins,
    may_edit,
    refused,
)
from tests.integration.operator.world import Cluster, World
from tests.waiting import eventually

ActAs = Callable[..., Awaitable[Actor]]
REPLICASETS = "system:serviceaccount:kube-system:replicaset-controller"


def labelled(group: str | None) -> dict[str, Any]:
    return {"labels": {GROUP_LABEL: group, "app": "x"} if group else {"app": "x"}}


def pod(name: str, group: str | None) -> dict[str, Any]:
    return {"metadata": {"name": name, **labelled(group)}, "spec": {"containers": [{"name": "c", "image": "none"}]}}


def workload(name: str, group: str | None) -> dict[str, Any]:
    template = {"metadata": labelled(group), "spec": pod("", None)["spec"]}
    return {"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}}


def cron_job(name: str, group: str | None) -> dict[str, Any]:
    template = {"metadata": labelled(group), "spec": {**pod("", None)["spec"], "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}}


async def allowed(work: Callable[[], Awaitable[Any]]) -> None:
    """Rights take a moment to come into force where a role is put together of others."""

    async def so() -> bool:
        try:
            await work()
        except ApiError as error:
            assert error.status == 403, error
            return False
        return True

    await eventually(so, "it is allowed")


async def test_an_account_that_may_only_create_pods_makes_no_members(guarded: World, act: ActAs) -> None:
    await account(guarded, "robot", POD_MAKER)
    robot, pods = await act(pod="ci", account="robot", group=None), core_path(guarded.namespace, "pods")
    message = await refused(robot.create(pods, pod("a", "orders")))
    assert "the label baton.dev/group: orders makes pods members of that ConsumerGroup, for which" in message
    assert f"system:serviceaccount:{guarded.namespace}:robot needs the verb join on consumergroups.baton.dev orders" in message
    await robot.create(pods, pod("a", None))
    assert "makes pods members" in await refused(robot.merge(f"{pods}/a", {"metadata": labelled("orders")}))


async def test_only_an_account_that_may_join_the_group_removes_a_member(guarded: World, act: ActAs) -> None:
    await account(guarded, "robot", POD_MAKER, joins("returns"))
    robot, pods = await act(account="robot"), core_path(guarded.namespace, "pods")
    await guarded.api.create(pods, pod("a", "orders"))
    await robot.merge(f"{pods}/a", {"metadata": {"annotations": {"baton.dev/ledger": "x"}, "labels": {"app": "y"}}})
    gone = {"metadata": {"labels": {GROUP_LABEL: None}}}
    message = await refused(robot.merge(f"{pods}/a", gone))
    assert "makes pods members of that ConsumerGroup, and to take it away" in message
    assert "consumergroups.baton.dev orders" in await refused(robot.merge(f"{pods}/a", {"metadata": labelled("returns")}))
    await robot.create(pods, pod("b", "returns"))
    await robot.merge(f"{pods}/b", gone)


async def test_a_pods_status_cannot_bring_it_into_or_out_of_a_group(guarded: World, act: ActAs) -> None:
    await account(guarded, "robot", STATUS_WRITER, joins("returns"))
    robot, pods = await act(account="robot"), core_path(guarded.namespace, "pods")
    await guarded.api.create(pods, pod("a", None))
    await guarded.api.create(pods, pod("b", "orders"))
    assert "makes pods members" in await refused(robot.merge(f"{pods}/a/status", {"metadata": labelled("orders")}))
    gone = {"metadata": {"labels": {GROUP_LABEL: None}}}
    assert "to take it away" in await refused(robot.merge(f"{pods}/b/status", gone))
    assert "consumergroups.baton.dev orders" in await refused(robot.merge(f"{pods}/b/status", {"metadata": labelled("returns")}))
    await robot.merge(f"{pods}/a/status", {"metadata": labelled("returns")})
    await robot.merge(f"{pods}/a/status", gone)


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
async def test_other_subresources_of_a_pod_cannot_change_labels(guarded: World, act: ActAs, part: str) -> None:
    parts = {"apiGroups": [""], "resources": [f"pods/{part}"], "verbs": ["patch"]}
    await account(guarded, "robot", parts)
    robot, pods = await act(account="robot"), core_path(guarded.namespace, "pods")
    for name, group, patch in (("a", None, labelled("orders")), ("b", "orders", {"labels": {GROUP_LABEL: None}})):
        made = await guarded.api.create(pods, pod(name, group))
        await robot.merge(f"{pods}/{name}/{part}", {"metadata": patch})
        assert (await guarded.api.get(f"{pods}/{name}"))["metadata"]["labels"] == made["metadata"]["labels"]


async def test_writing_the_status_of_pods_needs_no_right_to_their_group(guarded: World, act: ActAs) -> None:
    await account(guarded, "node", STATUS_WRITER)
    node, pods = await act(account="node"), core_path(guarded.namespace, "pods")
    await guarded.api.create(pods, pod("a", "orders"))
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    patch = {"labels": {"zone": "1"}, "annotations": {DRAIN_ANNOTATION: "true"}}
    await node.merge(f"{pods}/a/status", {"metadata": patch, "status": ready})
    found = await node.get(f"{pods}/a")
    assert (found["metadata"]["labels"]["zone"], found["metadata"]["annotations"][DRAIN_ANNOTATION]) == ("1", "true")
    assert await node.replace(f"{pods}/a/status", found | {"status": {"phase": "Running"}})


@pytest.mark.parametrize("path", ["pods/{}/binding", "bindings"])
async def test_a_binding_cannot_bring_a_pod_into_a_group(guarded: World, act: ActAs, path: str) -> None:
    binder = {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]}
    await account(guarded, "robot", binder, joins("orders"))
    await account(guarded, "scheduler", binder, joins())
    robot, scheduler = await act(account="robot"), await act(account="scheduler")

    async def bind_by(who: Actor, name: str, group: str | None) -> None:
        labels = {} if group is None else {GROUP_LABEL: group}
        body = {"metadata": {"name": name, "labels": labels}, "target": {"kind": "Node", "name": "n"}}
        await who.create(core_path(guarded.namespace, path.format(name)), body)

    for name in "ab":
        await guarded.api.create(core_path(guarded.namespace, "pods"), pod(name, "returns"))
    for group in ("orders", ""):
        message = await refused(bind_by(robot, "a", group))
        assert "the label baton.dev/group of a Binding becomes its pod's" in message
        assert f"{guarded.namespace}:robot needs the verb join on all consumergroups.baton.dev of the namespace" in message
    await bind_by(robot, "a", None)
    await bind_by(scheduler, "b", "orders")
    found = [await guarded.api.get(core_path(guarded.namespace, "pods", name)) for name in "ab"]
    assert [one["spec"]["nodeName"] for one in found] == ["n", "n"]
    assert [one["metadata"]["labels"][GROUP_LABEL] for one in found] == ["returns", "orders"]


async def test_an_editor_of_the_namespace_may_make_members(guarded: World, act: ActAs) -> None:
    await account(guarded, "editor")
    await may_edit(guarded, "editor")
    editor, pods = await act(account="editor"), core_path(guarded.namespace, "pods")
    await allowed(lambda: editor.create(pods, pod("a", "orders")))
    await allowed(lambda: editor.create(group_path("apps/v1", guarded.namespace, "deployments"), workload("x", "orders")))


@pytest.mark.parametrize(
    ("api_group", "plural", "made"),
    [
        ("apps/v1", "deployments", workload),
        ("apps/v1", "replicasets", workload),
        ("apps/v1", "statefulsets", workload),
        ("batch/v1", "cronjobs", cron_job),
    ],
)
async def test_a_pod_template_cannot_bring_pods_into_a_group(
    guarded: World, act: ActAs, api_group: str, plural: str, made: Any
) -> None:
    await account(guarded, "deployer", DEPLOYER)
    deployer, path = await act(account="deployer"), group_path(api_group, guarded.namespace, plural)
    message = await refused(deployer.create(path, made("a", "orders")))
    assert "the label of the pods' template, baton.dev/group: orders makes pods members" in message
    await deployer.create(path, made("b", None))
    await guarded.api.create(path, made("c", "orders"))
    await deployer.merge(f"{path}/c", {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}})


async def test_a_pod_template_cannot_take_pods_out_of_a_group(guarded: World, act: ActAs) -> None:
    await account(guarded, "deployer", DEPLOYER, joins("returns"))
    deployer, path = await act(account="deployer"), group_path("apps/v1", guarded.namespace, "deployments")
    await guarded.api.create(path, workload("a", "orders"))
    await guarded.api.create(path, workload("b", "returns"))
    for group in (None, "returns"):
        labels = {"spec": {"template": {"metadata": {"labels": {GROUP_LABEL: group}}}}}
        message = await refused(deployer.merge(f"{path}/a", labels))
        assert "the label of the pods' template, baton.dev/group: orders makes pods members" in message
        assert "to take it away" in message and "consumergroups.baton.dev orders" in message
        await deployer.merge(f"{path}/b", labels)


async def test_kubernetes_own_controllers_may_make_the_pods_of_workloads(guarded: World, act: ActAs) -> None:
    await grant(guarded.api, guarded.namespace, "replicasets", [POD_MAKER], REPLICASETS)
    controller = await act(user=REPLICASETS)
    await controller.create(core_path(guarded.namespace, "pods"), pod("a", "orders"))


def ledger(group: str, name: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name or f"{group}-assignments", "labels": {GROUP_LABEL: group}}, "data": {"group": "{}"}}


async def test_only_the_operator_writes_a_ledger(guarded: World, act: ActAs, api: Cluster) -> None:
    await account(guarded, "editor", MAP_EDITOR)
    await may_edit(guarded, "editor")
    editor, maps = await act(account="editor"), core_path(guarded.namespace, "configmaps")
    message = await refused(editor.create(maps, ledger("orders")))
    assert "ConfigMap orders-assignments is the ledger of ConsumerGroup orders, and its operator alone writes it" in message
    assert "change the ConsumerGroup instead" in message
    operator = await act(user="system:serviceaccount:baton-system:baton")
    await allowed(lambda: operator.create(maps, ledger("orders")))
    for work in (
        editor.merge(f"{maps}/orders-assignments", {"data": {"group": "mine"}}),
        editor.merge(f"{maps}/orders-assignments", {"metadata": {"labels": {GROUP_LABEL: None}}}),
        editor.merge(f"{maps}/orders-assignments", {"metadata": {"labels": {GROUP_LABEL: "returns"}}}),
        editor._request("DELETE", f"{maps}/orders-assignments"),
        editor._request("DELETE", maps),
    ):
        assert "is the ledger of ConsumerGroup orders" in await refused(work)
    found = await operator.get(f"{maps}/orders-assignments")
    await operator.replace(f"{maps}/orders-assignments", found | {"data": {"group": "{1}"}})


async def test_other_config_maps_are_not_restricted(guarded: World, act: ActAs) -> None:
    await account(guarded, "editor", MAP_EDITOR)
    editor, maps = await act(account="editor"), core_path(guarded.namespace, "configmaps")
    await editor.create(maps, ledger("orders", "settings"))
    await editor.create(maps, {"metadata": {"name": "returns-assignments"}, "data": {}})
    assert "is the ledger of ConsumerGroup returns" in await refused(
        editor.merge(f"{maps}/returns-assignments", {"metadata": {"labels": {GROUP_LABEL: "returns"}}})
    )
    await editor._request("DELETE", f"{maps}/settings")
