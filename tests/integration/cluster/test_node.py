"""What the demo and the end-to-end tests take for granted of a cluster with a node."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import Cluster, ClusterError, built_images

ROOT = Path(__file__).parents[3]
NAMESPACE = "cluster-test"
LABELS = {"app": "sleeper"}
PROGRAM = "import baton, time; print('awake', flush=True); time.sleep(3600)"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def pods(node: Cluster) -> Iterator[list[str]]:
    """The names of two pods of a Deployment, in a restricted security context, with a ConfigMap and a headless Service."""
    node.kubectl("create", "namespace", NAMESPACE)
    node.kubectl("create", "configmap", "map", "-n", NAMESPACE, "--from-literal=key=old")
    node.apply(service(), deployment(node))
    node.kubectl("wait", "deployment/sleeper", "-n", NAMESPACE, "--for=condition=Available", "--timeout=300s")
    yield [pod["metadata"]["name"] for pod in node.get("pods", "-n", NAMESPACE)["items"]]
    node.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def deployment(node: Cluster) -> dict[str, Any]:
    volumes, mounts = node.host_volumes()
    container = {
        "name": "sleeper",
        "image": node.load_consumer_image(),
        "args": ["-c", PROGRAM],
        "securityContext": RESTRICTED,
        "volumeMounts": [*mounts, {"name": "map", "mountPath": "/map"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [*volumes, {"name": "map", "configMap": {"name": "map"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "sleeper", "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": spec}},
    }


def service() -> dict[str, Any]:
    spec = {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sleepers", "namespace": NAMESPACE}, "spec": spec}


def python(node: Cluster, pod: str, program: str) -> str:
    """What the program prints in the pod."""
    return node.kubectl("exec", pod, "-n", NAMESPACE, "--", "python", "-c", program).strip()


def test_logs_show_what_a_container_printed(node: Cluster, pods: list[str]) -> None:
    assert [node.logs(pod, namespace=NAMESPACE) for pod in pods] == ["awake\n", "awake\n"]


def test_a_pod_reaches_the_api_server_by_name_and_the_bridge(node: Cluster, pods: list[str]) -> None:
    program = f"""import socket
for place in (("kubernetes.default", 443), ("{node.address}", 53)): print(socket.create_connection(place, 60).getpeername())"""
    assert python(node, pods[0], program) == "('10.96.0.1', 443)\n('10.244.77.1', 53)"


def test_a_headless_service_names_its_pods(node: Cluster, pods: list[str]) -> None:
    addresses = {pod["status"]["podIP"] for pod in node.get("pods", "-n", NAMESPACE)["items"]}
    program = "import socket; print(*(a[4][0] for a in socket.getaddrinfo('sleepers', 80, type=socket.SOCK_STREAM)))"
    node.wait(lambda: set(python(node, pods[0], program).split()) == addresses, 10, "the name server knows both pods")


def test_a_pod_cannot_send_anything_further(node: Cluster, pods: list[str]) -> None:
    program = """import socket
try: socket.create_connection(("192.0.2.250", 80), 5)
except OSError as error: print(error.strerror)"""
    assert python(node, pods[0], program) == "Network is unreachable"


def test_bumping_an_annotation_refreshes_a_mounted_config_map(node: Cluster, pods: list[str]) -> None:
    patch = json.dumps({"data": {"key": "new"}})
    node.kubectl("patch", "configmap", "map", "-n", NAMESPACE, "--type=merge", "-p", patch)
    node.kubectl("annotate", "pod", pods[0], "-n", NAMESPACE, "bump=1")
    node.wait(lambda: python(node, pods[0], "print(open('/map/key').read())") == "new", 10, "the pod sees the new text")


def test_a_stopped_container_does_nothing_until_it_is_woken(node: Cluster, pods: list[str]) -> None:
    def states() -> set[str]:
        texts = (Path(f"/proc/{pid}/stat").read_text() for pid in node.container_pids(pods[0], NAMESPACE))
        return {text.rpartition(")")[2].split()[0] for text in texts}

    node.signal_container(pods[0], signal.SIGSTOP, NAMESPACE)
    node.wait(lambda: states() == {"T"}, 5, "all its processes are stopped")
    node.signal_container(pods[0], signal.SIGCONT, NAMESPACE)
    node.wait(lambda: states() == {"S"}, 5, "all its processes go on")


def test_a_killed_container_is_started_again_in_its_pod(node: Cluster, pods: list[str]) -> None:
    node.signal_container(pods[1], signal.SIGKILL, NAMESPACE)

    def restarts() -> int:
        return int(node.get("pod", pods[1], "-n", NAMESPACE)["status"]["containerStatuses"][0]["restartCount"])

    node.wait(lambda: restarts() == 1, 30, "the kubelet has started it again")


def test_an_image_that_was_not_loaded_is_not_pulled(node: Cluster, pods: list[str]) -> None:
    node.kubectl("run", "stranger", "-n", NAMESPACE, "--image=registry.example/stranger:1")

    def reason() -> str:
        status = node.get("pod", "stranger", "-n", NAMESPACE)["status"].get("containerStatuses", [{}])[0]
        return str(status.get("state", {}).get("waiting", {}).get("message", ""))

    node.wait(lambda: "connection refused" in reason() or "no such host" in reason(), 30, "the pull failed on this machine")
    node.kubectl("delete", "pod", "stranger", "-n", NAMESPACE, "--wait=false")


def test_a_container_that_does_not_run_cannot_be_signalled(node: Cluster, pods: list[str]) -> None:
    with pytest.raises(ClusterError, match='"nobody" not found'):
        node.signal_container("nobody", signal.SIGKILL, NAMESPACE)


@pytest.fixture
def volumes(node: Cluster) -> Iterator[None]:
    node.provide_volumes(2)
    yield
    node.kubectl("delete", "persistentvolumes", "volume-1", "volume-2", "--ignore-not-found", "--wait=false")


def test_a_claim_of_an_example_is_bound_and_its_pods_may_write_there(node: Cluster, volumes: None) -> None:
    folder = ROOT / "manifests" / "examples" / "spark"
    namespace = f"{NAMESPACE}-claims"
    node.kubectl("create", "namespace", namespace)
    try:
        node.kubectl("apply", "-n", namespace, "-f", str(folder / "storage.yaml"))
        (driver,) = yaml.safe_load_all((folder / "driver.yaml").read_text())
        host, mounts = node.host_volumes()
        (claimed,) = [one for one in driver["spec"]["template"]["spec"]["volumes"] if one["name"] == "data"]
        program = "open('/data/written', 'w').close()"
        container = {
            "name": "writer",
            "image": node.load_consumer_image(),
            "args": ["-c", program],
            "volumeMounts": [*mounts, {"name": "data", "mountPath": "/data"}],
        }
        spec = {
            "restartPolicy": "Never",
            "securityContext": driver["spec"]["template"]["spec"]["securityContext"],
            "containers": [container],
            "volumes": [*host, claimed],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer", "namespace": namespace}, "spec": spec}
        node.apply(pod)
        node.kubectl("wait", "pod/writer", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s")
        bound = node.get("persistentvolumeclaim", "orders-data", "-n", namespace)["spec"]["volumeName"]
        assert (node.folder / "volumes" / bound / "written").exists()
    finally:
        node.kubectl("delete", "namespace", namespace, "--wait=false")


def test_an_example_runs_in_its_image_that_was_built_and_loaded(node: Cluster) -> None:
    name = node.load_built_image(built_images.CONSUMER)
    program = "import baton.queues.redis; print('imported')"
    try:
        node.kubectl("run", "loaded", f"--image={name}", "--image-pull-policy=Never", "--restart=Never", "--", "-c", program)
        node.kubectl("wait", "pod/loaded", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s")
        assert node.logs("loaded", namespace="default") == "imported\n"
    finally:
        node.kubectl("delete", "pod", "loaded", "--ignore-not-found", "--wait=false")
