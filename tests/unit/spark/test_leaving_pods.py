"""Which pods are asked to stop, and how long they have."""

from typing import Any

from baton.spark.leaving_pods import graces


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def test_a_pod_that_is_asked_to_stop_has_the_grace_that_kubernetes_gave_it() -> None:
    asked = pod("exec-1", deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=60)
    assert graces([asked, pod("exec-2"), pod("exec-3", deletionTimestamp="2026-01-01T00:00:00Z")]) == {"exec-1": 60, "exec-3": 0}
