"""Which pods are asked to stop, and how long they have."""

from typing import Any

from baton.spark.dismissals import ends, graces
from tests.ids import by_member


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def test_a_pod_that_is_asked_to_stop_has_the_grace_that_kubernetes_gave_it() -> None:
    asked = pod("exec-1", deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=60)
    assert graces([asked, pod("exec-2"), pod("exec-3", deletionTimestamp="2026-01-01T00:00:00Z")]) == {"exec-1": 60, "exec-3": 0}


def test_a_pod_that_is_asked_again_with_less_time_is_killed_earlier_and_never_later() -> None:
    def asked(grace: int) -> list[dict[str, Any]]:
        return [pod("exec-1", deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=grace), pod("exec-2")]

    first = ends({}, asked(60), 100.0)
    assert first == by_member({"exec-1": 160.0})
    assert ends(first, asked(60), 110.0) == first, "the same word, heard again"
    assert ends(first, asked(5), 110.0) == by_member({"exec-1": 115.0})
