"""What Kubernetes' own controllers do to a fleet under load: a StatefulSet's, a ReplicaSet's, evictions that a budget bounds, a
rolling update with surge, two that change the assignor. And a fleet whose operator is uninstalled."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.kube.elector import LONGEST_DURATION
from baton.kube.objects import GROUP_VERSION
from baton.kube.releases import RELEASE_ANNOTATION
from baton.model.names import ASSIGNORS_ANNOTATION, DRAIN_ANNOTATION, GROUP_LABEL, ledger_name
from baton.model.ranges import parse_grants
from charts.render import ROOT
from cluster import Cluster, ClusterError
from cluster.node import NAME as NODE
from tests.e2e.installing import NAMESPACE, install, installed_by_helm, leader, namespace, uninstall
from tests.e2e.loaded_fleet import under_load
from tests.e2e.plain_fleet import GROUP, PARTITIONS, QUEUE, Fleet
from tests.waiting import until

EXAMPLES = ROOT / "manifests" / "examples"
LONG = 600
"""Seconds. For what is to be over only when something else has come about, on any machine."""

RATE = 100
"""Messages in a second."""


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the chart's values, once it is installed."""
    return tmp_path_factory.mktemp("chart") / "values.json"


@pytest.fixture(scope="module")
def operator(node: Cluster, values: Path) -> Iterator[Cluster]:
    with installed_by_helm(node, values.parent) as cluster:
        yield cluster


def test_a_statefulset_of_static_members_is_scaled_by_its_ordinals_and_rolled_without_a_move(operator: Cluster) -> None:
    with under_load(operator, "ordinals", replicas=2, scale="Workload", kind="StatefulSet", rate=RATE) as fleet:
        identity = example("static-members/group.yaml", "ConsumerGroup")["spec"]["membership"]["identityLabel"]
        fleet.change("consumergroup", {"membership": {"identityLabel": identity, "sessionTimeoutSeconds": 5}})
        fleet.scale(4)
        fleet.settled(members=4)
        four = owned(fleet)
        fleet.scale(2)
        fleet.settled(members=2)
        assert list(owned(fleet)) == ["reader-0", "reader-1"], "the highest ordinals go"
        assert all(four[pod] <= those for pod, those in owned(fleet).items()), "who stays keeps what it has"
        settled = fleet.group()["status"]
        assert settled["moves"] == settled["lowerBound"]

        fleet.change("consumergroup", {"membership": {"sessionTimeoutSeconds": LONG}})
        two, before = owned(fleet), fleet.owned()
        fleet.roll()
        fleet.rolled()
        fleet.settled(members=2)
        assert owned(fleet) == two, "each pod comes back under its name to what it had"
        assert all(ranges != before[pod] for pod, ranges in fleet.owned().items()), "at new epochs"
        assert fleet.group()["status"]["moves"] == settled["moves"]


@pytest.mark.long
def test_a_deployment_is_drained_rolled_with_surge_and_scaled_in_at_the_least_cost(operator: Cluster) -> None:
    with under_load(operator, "budget", scale="Workload", rate=RATE, graceful=True) as fleet:
        fleet.change("partitionedqueue", {"rebalance": {"delaySeconds": LONG, "maxHandoffSeconds": LONG}})
        with each_partition_moves_once(fleet):
            drain(operator, fleet)
        with each_partition_moves_once(fleet):
            fleet.change("deployment", {"strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}})
            before = fleet.pods()
            fleet.roll()
            fleet.rolled()
            assert not set(before) & set(fleet.pods())
            fleet.settled(members=3)

        fleet.change("partitionedqueue", {"rebalance": {"delaySeconds": 2}})
        oldest = by_age(operator, fleet)[0]  # which a ReplicaSet would be the last to give up
        operator.kubectl("-n", fleet.namespace, "annotate", "pod", oldest, f"{DRAIN_ANNOTATION}=true")
        until(lambda: not fleet.owned_by(oldest) and not fleet.moving() and fleet.group()["status"]["state"] == "Ready")
        others, moves = owned(fleet), fleet.group()["status"]["moves"]
        del others[oldest]
        fleet.scale(2)
        fleet.settled(members=2)
        assert owned(fleet) == others, "the pod goes that has nothing"
        assert fleet.group()["status"]["moves"] == moves


def drain(cluster: Cluster, fleet: Fleet) -> None:
    """`kubectl drain`, with the example's budget: of the three pods one goes at a time."""
    budget = example("redis-consumer/disruption.yaml", "PodDisruptionBudget")
    budget["spec"]["selector"] = {"matchLabels": {GROUP_LABEL: GROUP}}
    cluster.kubectl("-n", fleet.namespace, "apply", "-f", "-", text=json.dumps(budget))
    until(lambda: allowed(cluster, fleet, budget["metadata"]["name"]) == 1)
    leaving, healthy = set(fleet.pods()), [len(fleet.ready())]
    with ThreadPoolExecutor(1) as pool:
        only = (f"--pod-selector={GROUP_LABEL}={GROUP}", f"--timeout={LONG}s")
        drained = pool.submit(cluster.kubectl, "drain", NODE, *only)
        try:
            until(lambda: evicted(drained, leaving, fleet), "the first is asked to stop")
            healthy.append(len(fleet.ready()))
        finally:
            cluster.kubectl("uncordon", NODE)  # as if there were another node
        while not drained.done():
            healthy.append(len(fleet.ready()))
        drained.result()
    assert not leaving & set(fleet.pods())
    assert min(healthy) == 2, "one at a time"
    fleet.settled(members=3)


def allowed(cluster: Cluster, fleet: Fleet, budget: str) -> int | None:
    """Evictions, at present."""
    found = cluster.find("poddisruptionbudget", budget, "-n", fleet.namespace).get("status", {}).get("disruptionsAllowed")
    return None if found is None else int(found)


def evicted(drained: "Future[str]", leaving: set[str], fleet: Fleet) -> bool:
    """The first has gone, and the node takes no other. Raises what kubectl has come to."""
    return not leaving <= set(fleet.pods()) or bool(drained.done() and drained.result())


@contextmanager
def each_partition_moves_once(fleet: Fleet) -> Iterator[None]:
    """In the block each pod is followed by one that takes all that it had, as docs/guides/choose-a-delay.md has it."""
    before = fleet.group()["status"]
    yield
    after = fleet.group()["status"]
    assert after["moves"] - before["moves"] == after["lowerBound"] - before["lowerBound"] == PARTITIONS


@pytest.mark.long
@pytest.mark.parametrize("source", ["Redis", "Kafka"])
def test_a_deployment_changes_over_to_another_assignor_by_two_rolling_restarts(operator: Cluster, source: str) -> None:
    """As docs/guides/change-assignor.md has it: no pod works under an assignor that it does not announce."""
    with under_load(operator, f"assignor-{source.lower()}", rate=RATE, graceful=True, source=source) as fleet:
        fleet.change("partitionedqueue", {"rebalance": {"maxHandoffSeconds": LONG}})
        fleet.change("consumergroup", {"assignors": ["range"]})
        announces(fleet, "range", meanwhile="range")
        fleet.change("consumergroup", {"assignors": ["solace", "range"]})
        announces(fleet, "range,solace", meanwhile="range")
        until(lambda: fleet.group()["status"]["assignor"] == "solace", "all pods know the new one")
        announces(fleet, "solace", meanwhile="solace")
        fleet.change("consumergroup", {"assignors": ["solace"]})
        fleet.settled(members=3)
        assert fleet.group()["status"]["assignor"] == "solace"


def announces(fleet: Fleet, assignors: str, *, meanwhile: str) -> None:
    """A rolling restart to pods that announce these; while one of the former is there, that one is in use."""
    former = set(fleet.pods())
    fleet.change("deployment", {"template": {"metadata": {"annotations": {ASSIGNORS_ANNOTATION: assignors}}}})
    while True:
        in_use = fleet.group()["status"]["assignor"]
        if not former & set(fleet.pods()):
            break
        assert in_use == meanwhile
    fleet.rolled()
    fleet.settled(members=3)


@pytest.mark.long
def test_helm_refuses_to_take_a_groups_operator_and_a_fleet_goes_on_without_one(operator: Cluster, values: Path) -> None:
    with namespace(operator, "left") as left, under_load(operator, "alone", rate=RATE, graceful=True) as fleet:
        fleet.change("partitionedqueue", {"rebalance": {"maxHandoffSeconds": LONG}})
        operator.kubectl("-n", left, "apply", "-f", "-", text=spare_group())
        until(lambda: finalizers(operator, left))
        before, moves = fleet.owned(), fleet.group()["status"]["moves"]

        operator.kubectl("-n", left, "apply", "-f", "-", text=json.dumps(leading("other-operator")))
        own = served_by(operator, left, f"{left}/other-operator")
        with pytest.raises(ClusterError, match=r"Groups are left: alone/numbers\. Delete them first") as refused:
            uninstall(operator)
        print(refused.value)
        served_by(operator, left, own)
        assert leader(operator), "the operator is still there"
        operator.helm("rollback", "baton", "1", "--namespace", NAMESPACE, "--wait", "--timeout", "300s")
        release = json.loads(operator.helm("status", "baton", "--namespace", NAMESPACE, "--output", "json"))
        assert release["info"]["status"] == "deployed", "it may stay after all"

        uninstall(operator, "--no-hooks")
        replicas = ("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=operator")
        until(lambda: not operator.get(*replicas)["items"], "no operator is left")
        done = fleet.processings()
        until(lambda: fleet.processings() > done + RATE, "consumers go on with what they own")
        operator.kubectl("-n", left, "delete", f"consumergroup/{GROUP}", "--wait=false")
        assert finalizers(operator, left), "its queue waits for an operator that releases it"

        install(operator, values)
        until(lambda: finalizers(operator, left) is None, "what was deleted meanwhile goes")
        fleet.settled(members=3)
        assert (fleet.owned(), fleet.group()["status"]["moves"]) == (before, moves)
        fleet.scale(2)
        fleet.settled(members=2)
    uninstall(operator)  # as no group is left
    operator.kubectl("delete", "namespace", "alone", "left", "--ignore-not-found", "--timeout=300s")


def leading(name: str) -> dict[str, Any]:
    """The Lease of another release's leader, for as long as it is believed without a renewal."""
    spec = {"holderIdentity": "other", "leaseDurationSeconds": int(LONGEST_DURATION)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def served_by(cluster: Cluster, name: str, release: str) -> str:
    """From now on the group in this namespace is that release's, by its ledger. Gives whose it was."""
    ledger = ("configmap", ledger_name(GROUP), "-n", name)
    was = until(lambda: cluster.find(*ledger).get("metadata", {}).get("annotations", {}).get(RELEASE_ANNOTATION))
    cluster.kubectl("annotate", *ledger, "--overwrite", f"{RELEASE_ANNOTATION}={release}")
    return str(was)


def owned(fleet: Fleet) -> dict[str, set[int]]:
    """The partitions of each pod."""
    return {pod: set(parse_grants(ranges.get(QUEUE, ""))) for pod, ranges in fleet.owned().items()}


def by_age(cluster: Cluster, fleet: Fleet) -> list[str]:
    """Pods, the oldest first."""
    found = cluster.get("pods", "-n", fleet.namespace, "--sort-by=.metadata.creationTimestamp")["items"]
    there = set(fleet.pods())
    return [name for pod in found if (name := pod["metadata"]["name"]) in there]


def finalizers(cluster: Cluster, name: str) -> list[str] | None:
    """Of the group in this namespace; None: it is gone."""
    found = cluster.find("consumergroup", GROUP, "-n", name)
    return list(found["metadata"].get("finalizers", [])) if found else None


def example(path: str, kind: str) -> Any:
    (found,) = (one for one in yaml.safe_load_all((EXAMPLES / path).read_text()) if one["kind"] == kind)
    return found


def spare_group() -> str:
    """A group without pods, with a separate queue."""
    specs = {
        "PartitionedQueue": {"source": {"type": "External"}, "partitions": 1},
        "ConsumerGroup": {"queues": [{"name": QUEUE}]},
    }
    made = [
        {"apiVersion": GROUP_VERSION, "kind": kind, "metadata": {"name": GROUP}, "spec": spec} for kind, spec in specs.items()
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
