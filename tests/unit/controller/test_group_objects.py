"""When it is told that a pod keeps no session, and whether it has to."""

from typing import Any

import pytest

from baton.api import ConsumerGroupSpec, PartitionedQueueSpec, sessions_required
from baton.controller.cluster_cache import ClusterCache
from baton.controller.group_observation import SESSION_WITHIN, GroupObjects, QueueFacts, QueueSight
from baton.controller.problems import Reason
from baton.controller.status import object_problems
from baton.kube.clock import ApiServerClock
from baton.kube.objects import QueueView
from baton.model.ids import QueueName

KEY = ("shop", "orders")
EXTERNAL = {"type": "External"}
REDIS = {"type": "Redis", "redis": {"url": "redis://r"}}


def spec(session: str | None = None) -> ConsumerGroupSpec:
    return ConsumerGroupSpec.model_validate({"queues": [{"name": "orders"}], "membership": {"session": session}})


def queue(source: dict[str, Any]) -> PartitionedQueueSpec:
    return PartitionedQueueSpec.model_validate({"source": source, "partitions": 4})


@pytest.mark.parametrize(
    ("session", "sources", "required"),
    [
        (None, [REDIS], True),
        (None, [EXTERNAL], False),
        (None, [EXTERNAL, REDIS], True),
        (None, [], False),
        ("Required", [EXTERNAL], True),
        ("Optional", [REDIS], False),
    ],
)
def test_sessions_are_required_where_a_queue_has_consumers_that_keep_them(
    session: str | None, sources: list[dict[str, Any]], required: bool
) -> None:
    assert sessions_required(spec(session), map(queue, sources)) is required


class Seen:
    """A pod that is Ready, and perhaps its Lease."""

    def __init__(self) -> None:
        self.cache = ClusterCache(ApiServerClock())
        self.sight = GroupObjects(KEY, "uid", self.cache)
        self._version = 0

    def _metadata(self, name: str) -> dict[str, Any]:
        self._version += 1
        labels = {"baton.dev/group": "orders"}
        return {"namespace": "shop", "name": name, "uid": f"u-{name}", "labels": labels, "resourceVersion": str(self._version)}

    def pod(self, name: str, ready: bool = True) -> None:
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-11-21T10:00:00Z"}]
        self.cache.pods.event("ADDED", {"metadata": self._metadata(name), "status": {"conditions": conditions}})

    def lease(self, pod: str, trouble: str | None = None, holder: str | None = None) -> None:
        said = {} if trouble is None else {"annotations": {"baton.dev/trouble": trouble}}
        lease = {"metadata": self._metadata(f"baton-{pod}") | said, "spec": {"holderIdentity": holder or f"u-{pod}"}}
        self.cache.leases.event("MODIFIED", lease)

    def told(self, now: float) -> list[str]:
        return [message.split(":")[0] for message in self.messages(Reason.NO_SESSION, now)]

    def messages(self, reason: Reason, now: float = 100.0) -> list[str]:
        view = QueueView("shop", "orders", "uid-q", 1, queue(REDIS))
        sights = [QueueSight(QueueName("orders"), True, view, QueueFacts(partitions=4))]
        seen = self.sight.membership(spec(), sights, now)
        problems = object_problems(self.sight, spec(), seen, now, None, 0)
        return [problem.message for problem in problems if problem.reason is reason]


def test_a_pod_has_a_while_to_begin_its_session_and_is_told_of_after_that() -> None:
    one = Seen()
    one.pod("a")
    assert one.told(100.0) == []
    assert list(one.sight.due_after(100.0)) == [100.0 + SESSION_WITHIN], "it is looked at then, though nothing happens"
    one.pod("b")
    assert one.told(110.0) == []
    assert one.told(100.0 + SESSION_WITHIN) == ["a"]
    assert one.told(110.0 + SESSION_WITHIN) == ["a, b"]
    one.lease("a")
    assert one.told(200.0) == ["b"]
    one.pod("b", ready=False)
    assert one.told(201.0) == []
    one.pod("b")
    assert one.told(202.0) == [], "its time begins again"


def test_what_keeps_members_from_their_queues_is_told_in_their_words() -> None:
    one = Seen()
    for name in ("a", "b", "c"):
        one.pod(name)
        one.lease(name, "Redis at r:6379, database 7, has no partition 0")
    one.lease("c", "its\nwords " + 2000 * "x")
    same, long = one.messages(Reason.MEMBER_CUT_OFF)
    assert same == "a, b: Redis at r:6379, database 7, has no partition 0"
    assert long.startswith("c: its words x") and len(long) < 700
    one.lease("a", "")
    one.lease("b", "of an earlier pod of that name", holder="u-before")
    one.pod("c", ready=False)
    assert one.messages(Reason.MEMBER_CUT_OFF) == []
