"""Two replicas: only the leader acts, and a new leader starts without stale facts."""

import asyncio
from typing import Any

import pytest

from baton.controller.group_loops import LOOK_EVERY
from baton.controller.operator_replica import Replica
from baton.controller.supervision import CANCEL_AGAIN
from baton.kube.api import core_path, group_path
from baton.kube.elector import Terms
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.objects import FINALIZER, groups_path
from baton.model.names import ledger_name
from tests.simulation.api_server import ApiServer, Fault, Hang, MemoryApi, Refuse
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.simulation.replicas import Lone, played
from tests.unit.controller.memory_queue import MemoryQueue

NAMESPACES = ("shop", "bank")
LEADERS_LEASE = leases_path("baton", "operator")


async def followed(lone: Lone) -> Replica:
    """The replica of `lone` leads, and this one follows it."""
    await asyncio.sleep(5)
    assert lone.replica.elector.leading
    return lone.start("two", NAMESPACES)


def age(of: Replica) -> float | None:
    return of.metrics.registry.get_sample_value("baton_reconcile_age_seconds", {"namespace": "shop", "group": "orders"})


@played
async def test_a_follower_serves_no_group_and_posts_nothing(lone: Lone) -> None:
    second = await followed(lone)
    lone.group("shop", "a")
    lone.make(core_path("bank", "pods"), _stray())
    lone.change(core_path("bank", "pods", "stray") + "/status", _ready())
    await asyncio.sleep(60)
    assert lone.owned() == {"a": 4}
    assert age(lone.replica) is not None
    assert age(second) is None
    events = lone.get(group_path(EVENTS, "bank", "events"))["items"]
    assert [event["reason"] for event in events] == ["NoSuchGroup"]


@played
async def test_a_new_leader_forgets_pods_deleted_while_its_watches_restarted(lone: Lone) -> None:
    second = await followed(lone)
    lone.group("shop", "a", "b")
    await asyncio.sleep(20)
    assert {pod.name for pod in second.cache.pods} == {"a", "b"}
    lone.fails = lambda verb, path: Hang() if verb in ("watch", "list") else None
    second.api.drop_watches()  # type: ignore[attr-defined]
    lone.delete_pod("b")
    await asyncio.sleep(1)
    lone.server.compact()
    lone.fails = lambda verb, path: None
    await lone.stop()
    await asyncio.sleep(20)
    assert second.elector.leading
    assert {pod.name for pod in second.cache.pods} == {"a"}


@played
async def test_a_deposed_leader_serves_no_group(lone: Lone) -> None:
    second = await followed(lone)
    lone.group("shop", "a")
    await asyncio.sleep(20)
    lone.change(LEADERS_LEASE, {"spec": {"holderIdentity": "two"}})
    await asyncio.sleep(20)
    assert second.elector.leading and not lone.replica.elector.leading
    assert age(second) is not None
    assert age(lone.replica) is None
    lone.pod("b")
    await asyncio.sleep(5)
    assert lone.owned() == {"a": 2, "b": 2}


@played
async def test_sessions_have_a_full_term_under_a_new_leader(lone: Lone) -> None:
    second = await followed(lone)
    lone.group("shop", "a", "b")
    for moment in range(100):
        if not 30 < moment < 50:  # there was an outage of everything
            for pod in ("a", "b"):
                lone.renew("shop", pod)
        if moment == 31:
            lone.crash()
        await asyncio.sleep(1)
        if moment > 2:
            assert lone.owned() == {"a": 2, "b": 2}
    assert second.elector.leading


@played
async def test_a_group_recreated_unseen_is_another_group(lone: Lone) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(10)
    path = groups_path("shop", "orders")
    before = lone.get(path)
    lone.fails = lambda verb, path: Hang() if verb in ("watch", "list") else None
    lone.replica.api.drop_watches()  # type: ignore[attr-defined]
    assert FINALIZER in before["metadata"]["finalizers"]
    lone.delete(path)
    lone.change(path, {"metadata": {"finalizers": None}})
    await asyncio.sleep(1)
    spec = {key: value for key, value in before.items() if key in ("apiVersion", "kind", "spec")}
    made = lone.make(groups_path("shop"), {**spec, "metadata": {"name": "orders"}})
    assert made["metadata"]["uid"] != before["metadata"]["uid"]
    lone.fails = lambda verb, path: None
    await asyncio.sleep(60)
    ledger = lone.get(core_path("shop", "configmaps", ledger_name("orders")))
    assert [owner["uid"] for owner in ledger["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
    assert lone.owned() == {"a": 4}


@pytest.mark.parametrize("fault", [Refuse(403, "Forbidden", "no"), Refuse(503, "ServiceUnavailable", "away")], ids=str)
@played
async def test_a_refused_event_holds_back_no_other(lone: Lone, fault: Fault) -> None:
    events = group_path(EVENTS, "shop", "events")
    lone.fails = lambda verb, path: fault if (verb, path) == ("create", events) else None
    lone.group("shop", "a")
    await asyncio.sleep(5)
    assert lone.get(events)["items"] == []
    lone.fails = lambda verb, path: None
    lone.pod("b")
    await asyncio.sleep(5)
    assert lone.get(events)["items"]


def _stray() -> dict[str, object]:
    return {
        "metadata": {"name": "stray", "labels": {"baton.dev/group": "nothing"}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }


def _ready() -> dict[str, object]:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"status": {"phase": "Running", "conditions": [condition]}}


@played
async def test_a_leader_that_wins_again_reads_only_changes(lone: Lone) -> None:
    for namespace in ("shop", "bank"):
        lone.group(namespace, "a")
    await asyncio.sleep(60)
    loops = dict(lone.replica.group_loops._loops)
    reign, lease = lone.replica.elector.reign, lone.get(LEADERS_LEASE)
    asked: list[tuple[str, str]] = []

    def noted(verb: str, path: str) -> None:
        asked.append((verb, path))

    lone.fails = noted
    lone.unreachable = True
    await asyncio.sleep(Terms().renew_deadline + 1)
    assert lone.replica.elector.reign is None
    lone.pod("b")
    asked.clear()
    await asyncio.sleep(5)
    assert [one for one in asked if one[0] not in ("list", "watch")] == [], "it does not lead"
    lone.unreachable = False
    await asyncio.sleep(Terms().retry + 10)
    assert lone.replica.elector.reign == reign
    assert lone.get(LEADERS_LEASE)["spec"]["acquireTime"] == lease["spec"]["acquireTime"]
    assert lone.owned() == {"a": 2, "b": 2}
    assert lone.replica.group_loops._loops == loops
    assert [one for one in asked if one[0] not in ("list", "watch") and "/bank/" in one[1]] == [], "nothing changed there"


@played
async def test_waiters_for_the_lead_notice_that_it_came_back(lone: Lone) -> None:
    await asyncio.sleep(60.5)  # and no group has a round that would wake what waits
    loops = lone.replica.group_loops
    reign, loops.reign = loops.reign, (-1, "another")
    waiting = asyncio.create_task(lone.replica.pacing.turn())
    await asyncio.sleep(0.001)
    loops.reign = reign
    await asyncio.sleep(LOOK_EVERY + 0.1)
    assert waiting.done()


class LateWrites(MemoryApi):
    """Writes land a little later, also where who sent them has gone."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, latency=lambda: 0.005)
        self.sent = asyncio.Event()

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.sent.set()
        return await asyncio.shield(asyncio.create_task(self._late(path, body)))

    async def _late(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.008)
        return await super().replace(path, body)


@played
async def test_a_replica_that_ends_during_a_renewal_releases_the_lease(lone: Lone) -> None:
    await asyncio.sleep(5)
    lone.replica.elector._api = late = LateWrites(lone.server)
    await late.sent.wait()
    await lone.stop()
    await asyncio.sleep(1)
    assert lone.get(LEADERS_LEASE)["spec"]["holderIdentity"] == ""


# -- What a replica keeps of groups that another leads by now: nothing.


class SlowToClose(MemoryQueue):
    async def close(self) -> None:
        await super().close()
        await asyncio.sleep(2.5 * CANCEL_AGAIN)


@in_virtual_time
async def test_a_group_cancelled_twice_leaves_no_metrics(world: OneReplica) -> None:
    world.queues["orders"] = SlowToClose()
    await world.serve("a")
    assert world.metric("baton_moving_partitions", namespace="shop", group="orders") == 0.0
    lease = leases_path("baton-system", "operator")
    taken = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 7}
    world.change(lease, {"metadata": {}, "spec": taken})
    await world.until(lambda: world.replica.elector.leading, False)
    await asyncio.sleep(10 * CANCEL_AGAIN)
    assert world.metric("baton_moving_partitions", namespace="shop", group="orders") is None
