"""Pods come and go; External queues, where only the consumers' word counts."""

import asyncio
import time

from baton.kube.api import core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.mount_refresh import mark
from baton.model.ids import QueueName
from baton.model.names import LEDGER_KEY_ANNOTATION
from baton.model.session import Release
from baton.model.times import to_seconds
from tests.integration.operator.world import SHOP, Operator, World
from tests.waiting import eventually


async def test_the_ledger_exists_before_any_pod(shop: World) -> None:
    await shop.external("early")
    await shop.group("early")
    await eventually(lambda: shop.ledger_data("early"), "the ledger exists")
    assert set(await shop.ledger_data("early") or {}) == {"group"}


async def test_the_first_pods_share_all_partitions_after_the_delay(shop: World) -> None:
    await shop.external("first", partitions=6, rebalance={"delaySeconds": 10})
    await shop.group("first")
    await asyncio.gather(shop.pod("first-a", "first"), shop.pod("first-b", "first"))
    await shop.spread("first", 3, 3)
    await shop.shows("first", members=2, partitions=6)
    assert (await shop.status("first"))["selector"] == "baton.dev/group=first"


async def test_events_of_a_group_are_in_order(shop: World) -> None:
    await shop.external("lined-up", partitions=4)
    await shop.group("lined-up")
    await shop.pod("lined-up-a", "lined-up")
    assert (await shop.event("Granted", "lined-up")).endswith("; no hand-offs in progress")
    found = (await shop.api.get(group_path(EVENTS, shop.namespace, "events")))["items"]
    of_group = sorted((one for one in found if one["regarding"]["name"] == "lined-up"), key=lambda one: one["eventTime"])
    reasons = [one["reason"] for one in of_group]
    assert reasons[-1] == "Granted", reasons


async def test_a_pods_annotation_follows_its_key_so_that_the_kubelet_refreshes(shop: World) -> None:
    await shop.fleet("bumped")

    async def told() -> bool:
        data = await shop.ledger_data("bumped") or {}
        pod = await shop.api.get(core_path(shop.namespace, "pods", "bumped-a"))
        return (pod["metadata"].get("annotations") or {}).get(LEDGER_KEY_ANNOTATION) == mark(data["bumped-a"])

    await eventually(told, "the annotation says what the ledger says")
    path = core_path(shop.namespace, "pods", "bumped-a")
    await shop.api.merge(path, {"metadata": {"annotations": {LEDGER_KEY_ANNOTATION: "another"}}})
    await eventually(told, "it is written again, though nothing of the group changes")


async def test_a_hand_off_of_an_external_queue_waits_for_the_release(shop: World) -> None:
    (uid,) = await shop.fleet("word", partitions=4)
    await shop.pod("word-b", "word")
    releases = await shop.revoking("word", "word-a", 2)
    await shop.told("word", "NotEnforced", kind="Fenced")
    await shop.session("word-a", uid, "word", releases)
    await shop.spread("word", 2, 2)
    granted = (await shop.owned("word"))["word-b"]
    assert granted.keys() == {one.partition for one in releases}
    assert all(granted[one.partition] > one.epoch for one in releases)


async def test_a_ready_pod_whose_session_lapsed_is_no_member(shop: World) -> None:
    (uid,) = await shop.fleet("silent")
    await shop.session("silent-a", uid, "silent", duration=2)
    await shop.told("silent", "NoMembers", says="session has lapsed")


async def test_a_deleted_group_waits_for_a_release_until_the_deadline(shop: World) -> None:
    await shop.fleet("mute", queue={"rebalance": {"maxHandoffSeconds": 3}})
    asked = time.time()
    await shop.delete("consumergroups", "mute")
    await shop.gone("mute")
    assert "mute-a did not release" in await shop.event("DeadlineMissed", "mute")
    missed = [event["eventTime"] for event in await shop.events("DeadlineMissed") if event["regarding"]["name"] == "mute"]
    assert to_seconds(min(missed)) >= asked + 3, "not before"
    await shop.told("mute", "Unused", "partitionedqueues")


async def test_every_group_has_metrics(shop: World, shared_operator: Operator) -> None:
    await shop.fleet("measured", partitions=5)
    of = {"namespace": SHOP, "group": "measured"}
    await shared_operator.measures("baton_group_state", lambda value: value == 1, **of, state="Ready")
    await shared_operator.measures("baton_partitions", lambda value: value == 5, **of, queue="measured", state="Ready")
    await shared_operator.measures("baton_members", lambda value: value == 1, **of, role="active")
    await shared_operator.measures("baton_ready_to_ledger_seconds_count", lambda value: value == 1, **of)
    await shared_operator.measures("baton_ledger_bytes", lambda value: value > 100, **of)
    await shared_operator.measures("baton_reconcile_age_seconds", lambda value: value < 30, **of)
    assert shared_operator.get("/healthz")[0] == 200


async def test_an_unready_pod_keeps_its_external_partition_until_it_releases_it(shop: World) -> None:
    await shop.external("blink", partitions=1)
    await shop.group("blink")
    uid = await shop.pod("blink-a", "blink")
    await shop.session("blink-a", uid, "blink")
    await shop.spread("blink", 1)
    before = await shop.owned("blink")
    await shop.pod("blink-b", "blink")
    await shop.shows("blink", standbys=1)
    await shop.set_ready("blink-a", False)
    await shop.shows("blink", deadlineMisses=1)  # the hand-off waits for the release beyond its deadline
    entries = await shop.entries("blink")
    assert entries["blink-a"].revoking[QueueName("blink")] == before["blink-a"]
    assert not entries["blink-b"].owned
    ((number, epoch),) = before["blink-a"].items()
    await shop.session("blink-a", uid, "blink", [Release(uid, QueueName("blink"), number, epoch)])
    await eventually(lambda: _owns(shop, "blink", "blink-b"), "the standby has it")


async def _owns(shop: World, group: str, pod: str) -> bool:
    return set(await shop.owned(group)) == {pod}
