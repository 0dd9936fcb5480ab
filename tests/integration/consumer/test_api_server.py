"""A pod's way to the API server: by the files of its service account, which the kubelet replaces."""

import json
from pathlib import Path

import pytest
import urllib3

from baton.consumer.api_server import AnswerTooLong, ApiConnection, ApiRefused, KubernetesLease
from cluster import Cluster
from cluster.pki import Authority
from tests.service_account import mounted

VERSION = "/version"
OWN_NAME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def token(control_plane: Cluster) -> str:
    return control_plane.kubectl("create", "token", "default", "-n", "default").strip()


def who(api: ApiConnection) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return str(api.request("POST", OWN_NAME, review)["status"]["userInfo"]["username"])


def test_a_replaced_token_is_used_with_the_next_request(control_plane: Cluster, tmp_path: Path, token: str) -> None:
    api = mounted(control_plane.kubeconfig, tmp_path, "expired")
    with pytest.raises(ApiRefused, match="401 Unauthorized"):
        who(api)
    (tmp_path / "token").write_text(token + "\n")
    assert who(api) == "system:serviceaccount:default:default"


def test_a_replaced_ca_is_used_with_the_next_connection(control_plane: Cluster, tmp_path: Path, token: str) -> None:
    api = mounted(control_plane.kubeconfig, tmp_path, token)
    right = (tmp_path / "ca.crt").read_text()
    (tmp_path / "ca.crt").write_bytes((Authority(tmp_path / "another").folder / "ca.crt").read_bytes())
    with pytest.raises(urllib3.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        api.request("GET", VERSION)
    (tmp_path / "ca.crt").write_text(right)
    assert "gitVersion" in api.request("GET", VERSION)


def test_one_connection_serves_request_after_request(control_plane: Cluster, tmp_path: Path, token: str) -> None:
    api = mounted(control_plane.kubeconfig, tmp_path, token)
    for _ in range(5):
        api.request("GET", VERSION)
        with pytest.raises(ApiRefused):
            api.request("GET", "/none")
    (key,) = api._pool.pools.keys()
    assert api._pool.pools[key].num_connections == 1


def test_an_api_error_is_one_line(control_plane: Cluster, tmp_path: Path, token: str) -> None:
    lease = KubernetesLease(mounted(control_plane.kubeconfig, tmp_path, token), "default", "baton-a")
    with pytest.raises(ApiRefused) as refusal:
        lease.read()
    assert str(refusal.value).startswith("403 leases.coordination.k8s.io") and "\n" not in str(refusal.value)
    assert refusal.value.status == 403


def test_a_lease_written_by_another_client_meanwhile_is_not_overwritten(control_plane: Cluster) -> None:
    lease = KubernetesLease(ApiConnection.from_kubeconfig(str(control_plane.kubeconfig)), "default", "baton-contested")
    written = lease.write({"metadata": {}, "spec": {"holderIdentity": "a"}})
    assert written is not None
    assert lease.write({"metadata": {}, "spec": {"holderIdentity": "b"}}) is None, "it exists"
    assert lease.write(written | {"spec": {"holderIdentity": "b"}}) is not None
    assert lease.write(written) is None, "it was written since"
    control_plane.kubectl("delete", "lease", "baton-contested", "-n", "default")
    assert lease.read() is None
    assert lease.write(written) is None


def test_a_list_of_large_objects_is_complete(control_plane: Cluster) -> None:
    namespace = "large-objects"
    one = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"filler": "x" * 900_000}}
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for number in range(20):
        made = {**one, "metadata": {"name": f"large-{number}", "namespace": namespace}}
        control_plane.kubectl("create", "-f", "-", text=json.dumps(made))
    api = ApiConnection.from_kubeconfig(str(control_plane.kubeconfig))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with pytest.raises(AnswerTooLong):
        api.request("GET", path)
    listed = api.list(path, fieldSelector="metadata.name!=kube-root-ca.crt")
    assert sorted(item["metadata"]["name"] for item in listed["items"]) == sorted(f"large-{number}" for number in range(20))
    assert listed["metadata"]["resourceVersion"]
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
