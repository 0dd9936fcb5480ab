"""The examples as they are shipped work under the policies, with the tokens that their pods have."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.consumer import Session
from baton.consumer.api_server import KubernetesLease
from baton.kube.api import core_path
from baton.kube.errors import ApiError
from baton.model.ids import MemberId
from baton.model.names import driver_lease_name, session_lease_name
from baton.spark.session import DriverSession
from cluster.cluster import Cluster as Machine
from tests.integration.operator.admission.actors import Actor, blocking, token_of
from tests.integration.operator.world import Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

ActAs = Callable[..., Awaitable[Actor]]
Start = Callable[..., Operator]
EXAMPLES = Path(__file__).parents[4] / "manifests" / "examples"


async def pods_of(world: World, app: str, count: int) -> list[str]:
    """The pods that Kubernetes has made of the example's Deployment."""

    async def there() -> list[str]:
        found = await world.api.get(core_path(world.namespace, "pods"), labelSelector=f"app={app}")
        return sorted(pod["metadata"]["name"] for pod in found["items"] or ())

    async def enough() -> bool:
        return len(await there()) == count

    await eventually(enough, f"{count} pods of {app} are there", shown=there)
    return await there()


async def uid(world: World, pod: str) -> str:
    return str((await world.api.get(core_path(world.namespace, "pods", pod)))["metadata"]["uid"])


async def settled(world: World, group: str, members: int) -> None:
    async def so() -> bool:
        counts = await world.counts(group)
        return len(counts) == members and sum(counts.values()) == 12

    await eventually(so, f"{members} members share the partitions", shown=lambda: world.ledger_data(group))
    condition = await world.condition(group, "SessionsBound")
    assert (condition["status"], condition["reason"]) == ("True", "Enforced")


@pytest.mark.parametrize(
    ("folder", "account", "group"),
    [("external-consumer", "jobs-consumer", "jobs"), ("redis-consumer", "orders-consumer", "orders")],
)
async def test_consumers(
    guarded: World,
    control_plane: Machine,
    kubeconfig: Path,
    start: Start,
    redis_server: RedisServer,
    folder: str,
    account: str,
    group: str,
) -> None:
    await guarded.secret("orders-redis", redis_server.url)
    operator = start(guarded, folder, "--admission-policy", "on")
    control_plane.kubectl("apply", "-k", str(EXAMPLES / folder), "-n", guarded.namespace, "--validate=strict")
    sessions = []
    for pod in await pods_of(guarded, account, 3):
        await guarded.set_ready(pod, True)
        token, of_pod = await token_of(guarded, account, pod), await uid(guarded, pod)
        lease = KubernetesLease(blocking(kubeconfig, token), guarded.namespace, session_lease_name(MemberId(pod)))
        sessions.append(Session(lease, holder=of_pod, group=group, owner={"name": pod, "uid": of_pod}))
        sessions[-1].start()
    await settled(guarded, group, 3)
    for session in sessions:
        assert not session.lapsed()
        session.close()
    assert operator.stop() == 0


async def test_consumers_of_kafka(guarded: World, control_plane: Machine, start: Start) -> None:
    """There is no broker of the example's name; all else of it is accepted as it is."""
    operator = start(guarded, "kafka-consumer", "--admission-policy", "on")
    control_plane.kubectl("apply", "-k", str(EXAMPLES / "kafka-consumer"), "-n", guarded.namespace, "--validate=strict")
    await pods_of(guarded, "orders-consumer", 3)
    assert "orders-kafka" in await guarded.told("orders", "QueueUnreachable")
    assert operator.stop() == 0


async def test_a_spark_driver_and_its_executors(
    guarded: World, control_plane: Machine, kubeconfig: Path, start: Start, redis_server: RedisServer, act: ActAs
) -> None:
    await guarded.secret("orders-redis", redis_server.url)
    operator = start(guarded, "spark", "--admission-policy", "on")
    control_plane.kubectl("apply", "-k", str(EXAMPLES / "spark"), "-n", guarded.namespace, "--validate=strict")
    (pod,) = await pods_of(guarded, "orders-driver", 1)
    driver = await act(pod=pod, account="orders-driver")
    token, of_driver = driver.token or "", await uid(guarded, pod)
    for number in (1, 2):
        await driver.create(core_path(guarded.namespace, "pods"), executor(number, pod, of_driver))
        await guarded.set_ready(f"orders-exec-{number}", True)
    lease = KubernetesLease(blocking(kubeconfig, token), guarded.namespace, driver_lease_name("orders"))
    session = DriverSession(lease, "orders", of_driver)
    session.update(app="app-1")
    session.acquire()
    session.update(executors=("1", "2"))
    await settled(guarded, "orders", 2)
    session.close()
    assert operator.stop() == 0


async def test_the_controller_of_a_spark_operator_makes_the_driver(guarded: World, control_plane: Machine, act: ActAs) -> None:
    """Its own chart gives it pods, and the example the group."""
    rights = EXAMPLES / "spark-operator" / "rbac.yaml"
    (subject,) = next(one for one in yaml.safe_load_all(rights.read_text()) if one["kind"] == "RoleBinding")["subjects"]
    account = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    control_plane.kubectl("create", "role", "pods", "-n", guarded.namespace, "--verb=create", "--resource=pods")
    control_plane.kubectl("create", "rolebinding", "pods", "-n", guarded.namespace, "--role=pods", f"--user={account}")
    application = yaml.safe_load((EXAMPLES / "spark-operator" / "application.yaml").read_text())
    driver = application["spec"]["driver"]["template"]
    driver["metadata"]["name"] = "orders-driver"
    driver["spec"]["containers"][0]["image"] = "none"
    controller = await act(user=account)

    async def tried() -> str:
        try:
            await controller.create(core_path(guarded.namespace, "pods"), driver)
        except ApiError as error:
            return error.message
        return "made"

    async def refused() -> bool:
        return f"{account} needs the verb join on consumergroups.baton.dev orders" in await tried()

    async def made() -> bool:
        return await tried() == "made"

    await eventually(refused, "it may make pods, but none of the group", shown=tried)
    control_plane.kubectl("apply", "-n", guarded.namespace, "-f", str(rights))
    await eventually(made, "it may make those, too", shown=tried)


def executor(number: int, driver: str, uid: str) -> dict[str, Any]:
    """What Spark makes of the example's template."""
    made: dict[str, Any] = yaml.safe_load((EXAMPLES / "spark" / "executor.yaml").read_text())
    labels = {"spark-role": "executor", "spark-exec-id": str(number), "spark-app-selector": "app-1"}
    made["metadata"]["labels"] |= labels
    made["metadata"]["name"] = f"orders-exec-{number}"
    made["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": driver, "uid": uid, "controller": True}]
    made["spec"]["containers"][0]["image"] = "none"
    return made
