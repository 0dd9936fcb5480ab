"""What the integration tests take for granted of a cluster without a node."""

import json

import pytest
from tests.cluster import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_tokens_are_given_for_service_accounts(control_plane: Cluster) -> None:
    assert control_plane.kubectl("create", "token", "default").count(".") == 2


def test_what_stands_in_etcd_survives_its_crash_and_that_of_the_api_server() -> None:
    with Cluster(node=False) as cluster:
        cluster.kubectl("create", "configmap", "kept", "--from-literal=key=value")
        for program in ("kube-apiserver", "etcd"):
            cluster.stop_process(program)
            cluster.start_process(program)
            assert cluster.get("configmap", "kept")["data"] == {"key": "value"}


def test_clusters_without_a_node_stand_side_by_side(control_plane: Cluster) -> None:
    with Cluster(node=False) as other:
        other.kubectl("create", "namespace", "only-here")
        names = [
            each["metadata"]["name"] for each in json.loads(control_plane.kubectl("get", "namespaces", "-o", "json"))["items"]
        ]
        assert "only-here" not in names
    assert control_plane.kubectl("get", "--raw", "/readyz") == "ok"


def test_a_pod_that_is_said_to_run_somewhere_stays(control_plane: Cluster) -> None:
    container = {"name": "c", "image": "localhost/none:1"}
    spec = {"nodeName": "nowhere", "containers": [container]}
    control_plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "said-to-run"}, "spec": spec})
    assert control_plane.get("pod", "said-to-run")["spec"]["nodeName"] == "nowhere"
    control_plane.kubectl("delete", "pod", "said-to-run", "--grace-period=0", "--force")
