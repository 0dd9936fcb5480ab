"""Pods with wrong labels: which are warned, how often, and at what cost if there are thousands."""

from typing import Any

from baton.controller.cluster_cache import ClusterCache
from baton.controller.metrics import Metrics
from baton.controller.mislabelled_pods import AGAIN, EVERY, MOST_EVENTS, MOST_LABELS, OTHERS, PodWarnings
from baton.kube.clock import ApiServerClock
from tests.unit.controller.test_events import Said


class Told(Said):
    """Which pods were told what."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: list[str] = []

    def post(self, about: Any, *args: Any, **options: Any) -> None:
        self.pods.append(about.name)
        super().post(about, *args, **options)


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        clock = ApiServerClock(lambda: 1_800_000_000.0, lambda: self.now)
        self.cache, self.events, self.metrics = ClusterCache(clock), Told(), Metrics(clock)
        self.warnings = PodWarnings(self.cache, self.events, self.metrics, clock)
        self._version = 0

    def _metadata(self, name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
        self._version += 1
        version = str(self._version)
        return {"namespace": "shop", "name": name, "uid": f"u-{name}", "labels": labels, "resourceVersion": version, **fields}

    def pod(self, name: str, group: str, *, ready: bool = True, kind: str = "MODIFIED", **annotations: str) -> None:
        metadata = self._metadata(
            name, {"baton.dev/group": group}, annotations={f"baton.dev/{k}": v for k, v in annotations.items()}
        )
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2020-01-01T00:00:00Z"}]
        self.cache.pods.event(kind, {"metadata": metadata, "status": {"phase": "Running", "conditions": conditions}})

    def group(self, name: str, kind: str = "MODIFIED") -> None:
        metadata = self._metadata(name, {}, generation=1)
        self.cache.groups.event(kind, {"metadata": metadata, "spec": {"queues": [{"name": "orders"}]}})

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.warnings.look()

    def looked(self) -> None:
        """What is there now has been there for two looks."""
        self.after(EVERY)
        self.after(EVERY)

    @property
    def gauge(self) -> dict[str, float]:
        families = [family for family in self.metrics.collect() if family.name == "baton_pods_without_group"]
        return {sample.labels["group"]: sample.value for family in families for sample in family.samples}


def test_a_ready_pod_of_no_group_is_warned_after_a_short_wait() -> None:
    world = World()
    world.group("orders")
    world.pod("fine", "orders")
    world.pod("typo", "ordres")
    world.pod("unready", "ordres", ready=False)
    world.after(1)
    world.after(EVERY - 1)
    assert (world.events.pods, world.gauge) == ([], {})
    world.after(1)
    assert (world.events.pods, world.gauge) == (["typo"], {"ordres": 1.0})
    assert "label baton.dev/group: ordres names no ConsumerGroup of namespace shop (there is orders)" in world.events.said[0][1]


def test_the_warning_ends_when_the_group_comes_or_the_pod_goes() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.pod(name, "late")
    world.looked()
    assert world.gauge == {"late": 3.0}
    world.pod("a", "late", kind="DELETED")
    world.pod("b", "late", ready=False)
    world.after(EVERY)
    assert world.gauge == {"late": 1.0}
    world.group("late")
    world.after(EVERY)
    assert world.gauge == {}
    world.group("late", kind="DELETED")
    world.looked()
    assert world.gauge == {"late": 1.0}


def test_bad_annotations_and_reserved_names_are_warned_of_too() -> None:
    world = World()
    world.group("orders")
    world.pod("group", "orders")
    world.pod("heavy", "orders", capacity="much")
    world.looked()
    assert sorted(reason for reason, _, _ in world.events.said) == ["BadAnnotation", "NameTaken"]


def test_a_warning_is_repeated_before_the_api_server_forgets_it() -> None:
    world = World()
    world.pod("typo", "ordres")
    world.looked()
    world.after(AGAIN - 2 * EVERY)
    assert world.events.pods == ["typo"]
    world.looked()
    assert world.events.pods == ["typo", "typo"]


def test_only_some_pods_of_a_large_deleted_group_are_warned() -> None:
    world = World()
    world.group("orders")
    for number in range(5000):
        world.pod(f"p-{number}", "orders")
    world.looked()
    world.group("orders", kind="DELETED")
    for _ in range(10):
        world.after(EVERY)
    assert world.gauge == {"orders": 5000.0}
    assert len(world.events.pods) == MOST_EVENTS


def test_many_labels_share_a_few_series() -> None:
    world = World()
    for number in range(1000):
        world.pod(f"p-{number}", f"g-{number}")
    world.looked()
    assert len(world.gauge) == MOST_LABELS + 1
    assert world.gauge[OTHERS] == 1000 - MOST_LABELS


def test_the_gauge_is_the_leaders_and_a_new_leader_looks_at_all_pods() -> None:
    world = World()
    world.pod("typo", "ordres")
    world.looked()
    world.warnings.end()
    assert world.gauge == {}
    world.pod("more", "ordres")
    world.looked()
    assert world.gauge == {"ordres": 2.0}


def test_a_relabelled_pod_is_counted_under_its_new_label() -> None:
    world = World()
    world.pod("a", "one")
    world.looked()
    world.pod("a", "two")
    world.looked()
    assert world.gauge == {"two": 1.0}
