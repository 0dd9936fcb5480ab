"""Sessions at a real API server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import kubernetes
import pytest

from baton.consumer import Session
from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.consumer.session import renewed
from baton.model.ids import Epoch, QueueName, Uid
from baton.model.lease import Manifest
from baton.model.names import GROUP_LABEL, RELEASES_ANNOTATION
from baton.model.session import Release
from cluster import Cluster
from tests.in_memory_lease import releases_in
from tests.waiting import until


@pytest.fixture
def api(control_plane: Cluster) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config(str(control_plane.kubeconfig)) as client:  # type: ignore[no-untyped-call]
        yield client


@pytest.fixture
def lease(control_plane: Cluster) -> KubernetesLease:
    api = ApiConnection.from_kubeconfig(str(control_plane.kubeconfig))
    return KubernetesLease(api, "default", f"baton-pod-{uuid4().hex[:8]}")


@pytest.fixture
def pod(api: kubernetes.client.ApiClient) -> Iterator[dict[str, str]]:
    """Name and uid of a pod: the Lease of one that does not exist would be collected as garbage."""
    pods = kubernetes.client.CoreV1Api(api)
    metadata = kubernetes.client.V1ObjectMeta(generate_name="orders-")
    spec = kubernetes.client.V1PodSpec(containers=[kubernetes.client.V1Container(name="consumer", image="localhost/none")])
    made = pods.create_namespaced_pod("default", kubernetes.client.V1Pod(metadata=metadata, spec=spec)).metadata
    assert made is not None and made.name is not None and made.uid is not None
    yield {"name": made.name, "uid": made.uid}
    pods.delete_namespaced_pod(made.name, "default", grace_period_seconds=0)


def read(lease: KubernetesLease) -> Manifest:
    found = lease.read()
    return found or {"metadata": {"annotations": {}}, "spec": {}}


def test_a_lease_with_the_highest_transition_count_can_be_taken(lease: KubernetesLease, pod: dict[str, str]) -> None:
    before = renewed(None, "", "orders", 15, datetime.now(UTC), {}, pod)
    lease.write({**before, "spec": {**before["spec"], "leaseTransitions": 2**31 - 1}})
    session = Session(lease, holder="me", group="orders", exclusive=True)
    assert session.acquire(timeout=0) is None
    assert read(lease)["spec"]["leaseTransitions"] == 0
    session.close()


def test_a_session_writes_its_lease_at_the_api_server(lease: KubernetesLease, pod: dict[str, str]) -> None:
    uid = pod["uid"]
    session = Session(lease, holder=uid, group="orders", every=0.05, owner=pod)
    assert lease.read() is None
    session.start()
    until(lambda: "holderIdentity" in read(lease)["spec"])
    first = read(lease)
    assert first["metadata"]["labels"] == {GROUP_LABEL: "orders"}
    assert first["metadata"]["ownerReferences"][0]["uid"] == uid
    assert (first["spec"]["holderIdentity"], first["spec"]["leaseDurationSeconds"]) == (uid, 15)
    until(lambda: read(lease)["spec"]["renewTime"] != first["spec"]["renewTime"])
    release = Release(Uid(uid), QueueName("orders"), 3, Epoch(7))
    session.release([release])
    session.close()
    assert releases_in(read(lease)["metadata"]["annotations"][RELEASES_ANNOTATION]) == {release}
    assert read(lease)["spec"]["acquireTime"] == first["spec"]["acquireTime"]
