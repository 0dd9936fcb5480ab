"""Which changes wake which group, and since when a pod can take part."""

from typing import Any

from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.kube.clock import ApiServerClock
from baton.model import Uid
from baton.model.names import DRAIN_ANNOTATION, LEDGER_KEY_ANNOTATION
from baton.model.times import to_text

OLD = to_text(1_000_000)


class Watched:
    def __init__(self) -> None:
        self.cache = ClusterCache(ApiServerClock())
        self.woken: list[GroupKey] = []
        self.cache.wake = self.woken.append
        self._version = 0

    def _metadata(self, name: str, group: str | None, **fields: Any) -> dict[str, Any]:
        self._version += 1
        labels = {"baton.dev/group": group} if group else {}
        return {
            "namespace": "shop",
            "name": name,
            "uid": f"u-{name}",
            "labels": labels,
            "resourceVersion": str(self._version),
            **fields,
        }

    def pod(
        self, name: str, group: str = "orders", ready: str | None = None, executor: str | None = None, **annotations: str
    ) -> None:
        metadata = self._metadata(name, group, annotations=annotations)
        metadata["labels"] |= {"spark-role": "executor", "spark-exec-id": executor} if executor else {}
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
        self.cache.pods.event("MODIFIED", {"metadata": metadata, "status": {"phase": "Running", "conditions": conditions}})

    def lease(self, renewal: str, executors: str = "", duration: float = 15) -> None:
        metadata = self._metadata("orders-driver", "orders", annotations={"baton.dev/executors": executors})
        spec = {"holderIdentity": "u", "leaseDurationSeconds": duration, "renewTime": renewal}
        self.cache.leases.event("MODIFIED", {"metadata": metadata, "spec": spec})

    def group(self, name: str, queue: str = "orders") -> None:
        metadata = self._metadata(name, None, generation=1)
        self.cache.groups.event("MODIFIED", {"metadata": metadata, "spec": {"queues": [{"name": queue}]}})

    def queue(self, name: str, partitions: int = 4) -> None:
        metadata = self._metadata(name, None, generation=1)
        self.cache.queues.event(
            "MODIFIED", {"metadata": metadata, "spec": {"source": {"type": "External"}, "partitions": partitions}}
        )

    def eligible(self, name: str) -> float | None:
        pod = self.cache.pods.get("shop", name)
        assert pod is not None
        return self.cache.take_eligible_since(pod)


def test_the_operators_own_write_to_a_pod_wakes_no_group() -> None:
    one = Watched()
    one.pod("a", **{LEDGER_KEY_ANNOTATION: "1"})
    one.woken.clear()
    one.pod("a", **{LEDGER_KEY_ANNOTATION: "2"})
    assert one.woken == []
    pod = one.cache.pods.get("shop", "a")
    assert pod is not None and pod.told == "2"
    one.pod("a", **{DRAIN_ANNOTATION: "true"})
    assert one.woken == [("shop", "orders")] * 2


def test_a_heartbeat_wakes_no_group() -> None:
    one = Watched()
    one.pod("a", ready=OLD)
    one.lease("10:00:00")
    one.woken.clear()
    one.pod("a", ready=OLD)
    one.lease("10:00:03")
    assert one.woken == []
    one.pod("a", ready=None)
    assert set(one.woken) == {("shop", "orders")}


def test_a_late_renewal_wakes_its_group() -> None:
    one = Watched()
    one.lease("10:00:00", duration=-1)
    one.woken.clear()
    one.lease("10:00:03", duration=-1)
    assert one.woken == [("shop", "orders")] * 2


def test_a_changed_queue_wakes_the_groups_that_name_it() -> None:
    one = Watched()
    one.group("first")
    one.group("second")
    one.group("third", queue="returns")
    one.queue("orders")
    one.woken.clear()
    one.queue("orders", partitions=5)
    assert sorted(one.woken) == [("shop", "first"), ("shop", "second")]


def test_a_pod_is_eligible_once_from_when_it_was_seen_to_become_ready() -> None:
    one = Watched()
    one.pod("a")
    one.pod("a", ready=OLD)
    assert one.eligible("a") is not None
    assert one.eligible("a") is None


def test_a_pod_that_was_ready_before_the_first_look_is_not_measured() -> None:
    one = Watched()
    one.pod("a", ready=OLD)
    assert one.eligible("a") is None
    one.pod("b", ready=to_text(ApiServerClock().now()))
    assert one.eligible("b") is not None, "it became Ready just now, and its first event came late"


def test_an_executor_is_eligible_once_its_driver_has_registered_it() -> None:
    one = Watched()
    one.pod("e", executor="3")
    one.pod("e", ready=OLD, executor="3")
    ready = one.cache._became_ready[Uid("u-e")]
    one.lease("10:00:00", executors="3")
    assert (one.eligible("e") or 0) > ready
