"""A fleet of plain pods under load: killed, stopped and woken up, scaled, rolled. Nothing is lost, nothing is out of order."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cluster import Cluster
from tests.e2e.installing import NAMESPACE, installed_by_helm, leader
from tests.e2e.loaded_fleet import under_load
from tests.waiting import until


@pytest.mark.parametrize("source", [pytest.param("Redis", marks=pytest.mark.long), "Kafka"])
def test_a_fleet_of_plain_pods_loses_nothing_whatever_happens_to_it(node: Cluster, tmp_path: Path, source: str) -> None:
    with installed_by_helm(node, tmp_path), under_load(node, f"plain-{source.lower()}", source=source) as fleet:
        name = fleet.namespace
        first, second, third = fleet.pods()

        node.signal_container(first, signal.SIGKILL, name)  # the container starts again in place, in the same pod
        until(lambda: fleet.restarts(first) == 1)
        fleet.settled(members=3)

        node.kubectl("-n", name, "delete", "pod", second, "--grace-period=0", "--force")
        until(lambda: second not in fleet.pods())
        fleet.settled(members=3)

        owned = fleet.owned_by(third)
        assert owned
        node.signal_container(third, signal.SIGSTOP, name)
        until(lambda: not fleet.owned_by(third))  # its Lease lapses, and its partitions go on elsewhere
        node.signal_container(third, signal.SIGCONT, name)
        fleet.settled(members=3)

        fleet.scale(5)
        fleet.settled(members=5)
        fleet.scale(2)
        fleet.settled(members=2)


@pytest.mark.long
def test_a_fleet_of_plain_pods_loses_nothing_when_many_go_at_once_and_the_operator_with_them(
    node: Cluster, tmp_path: Path
) -> None:
    with installed_by_helm(node, tmp_path), under_load(node, "many") as fleet:
        before = fleet.pods()
        fleet.roll()
        until(lambda: len(fleet.pods()) == 3 and not set(before) & set(fleet.pods()), "the fleet has been rolled")
        fleet.settled(members=3)

        fleet.scale(5)
        fleet.settled(members=5)
        lost = fleet.pods()[:3]
        node.kubectl("-n", fleet.namespace, "delete", "pod", *lost, "--grace-period=0", "--force")  # as a node's loss does
        until(lambda: not set(lost) & set(fleet.pods()))
        fleet.settled(members=5)

        fleet.scale(2)
        fleet.settled(members=2)
        operator, slow = leader(node), fleet.pods()[0]
        node.signal_container(slow, signal.SIGSTOP, fleet.namespace)  # what it has in hand is waited for until the deadline
        fleet.scale(4)
        until(lambda: fleet.group()["status"]["state"] != "Ready")
        node.signal_container(operator, signal.SIGKILL, NAMESPACE)
        node.signal_container(slow, signal.SIGCONT, fleet.namespace)
        fleet.settled(members=4)


@pytest.mark.long
@pytest.mark.parametrize("source", ["Redis", "Kafka"])
def test_a_pod_ends_before_its_grace_period_though_the_holddown_is_longer(node: Cluster, tmp_path: Path, source: str) -> None:
    """Its preStop hook takes of its 30 seconds, and no pod takes its place."""
    name = f"ending-{source.lower()}"
    how: dict[str, Any] = {"source": source, "delay": 40, "hook": 12, "graceful": True}
    with installed_by_helm(node, tmp_path), under_load(node, name, **how) as fleet:

        def finalizers(value: list[str] | None) -> None:
            for pod in pods:
                patch = json.dumps({"metadata": {"finalizers": value}})
                node.kubectl("-n", name, "patch", "pod", pod, "--type=merge", "-p", patch)

        pods = fleet.pods()
        finalizers(["baton.test/exit-code"])  # the object stays until its end is known
        fleet.scale(2)
        until(lambda: len(fleet.pods()) == 2)
        (ending,) = set(pods) - set(fleet.pods())

        def end() -> Any:
            return node.get("pod", ending, "-n", name)["status"]["containerStatuses"][0]["state"].get("terminated")

        until(end, "its container has ended")
        assert end()["exitCode"] == 0
        finalizers(None)
        fleet.settled(members=2)
