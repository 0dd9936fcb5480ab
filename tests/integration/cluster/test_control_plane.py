"""What the integration tests take for granted of a cluster without a node."""

from collections.abc import Iterator

import pytest

from cluster import Cluster


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    """A second one, beside that of all tests."""
    with Cluster(node=False) as cluster:
        yield cluster


def test_tokens_are_given_for_service_accounts(control_plane: Cluster) -> None:
    assert control_plane.kubectl("create", "token", "default").count(".") == 2


def test_what_stands_in_etcd_survives_its_crash_and_that_of_the_api_server(other: Cluster) -> None:
    other.kubectl("create", "configmap", "kept", "--from-literal=key=value")
    for program in ("kube-apiserver", "etcd"):
        other.stop_process(program)
        other.start_process(program)
        assert other.get("configmap", "kept")["data"] == {"key": "value"}


def test_clusters_without_a_node_stand_side_by_side(control_plane: Cluster, other: Cluster) -> None:
    other.kubectl("create", "namespace", "only-here")
    assert "only-here" not in [each["metadata"]["name"] for each in control_plane.get("namespaces")["items"]]


def test_a_pod_that_is_said_to_run_somewhere_stays(control_plane: Cluster) -> None:
    container = {"name": "c", "image": "localhost/none:1"}
    spec = {"nodeName": "nowhere", "containers": [container]}
    control_plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "said-to-run"}, "spec": spec})
    assert control_plane.get("pod", "said-to-run")["spec"]["nodeName"] == "nowhere"
    control_plane.kubectl("delete", "pod", "said-to-run", "--grace-period=0", "--force")
