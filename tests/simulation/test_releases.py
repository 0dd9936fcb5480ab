"""Two installations of the operator whose namespaces overlap: one stands back and reports that."""

import asyncio

import pytest

from baton.controller.operator_replica import Replica
from baton.controller.relists import LEDGERS_EVERY
from baton.kube.api import core_path, group_path
from baton.kube.events import EVENTS
from baton.kube.leases import leases_path
from baton.kube.objects import groups_path, queues_path
from baton.kube.releases import MOST_KNOWN, RELEASE_ANNOTATION
from tests.simulation.replicas import Lone, played

FIRST, SECOND = "baton/operator", "baton/second"


def writer(lone: Lone) -> str:
    """The release that wrote the ledger last."""
    ledger = lone.get(core_path("shop", "configmaps", "orders-assignments"))
    return str(ledger["metadata"]["annotations"][RELEASE_ANNOTATION])


def versions(lone: Lone) -> tuple[str, str]:
    """Of the group's ledger and of its queue."""
    paths = (core_path("shop", "configmaps", "orders-assignments"), queues_path("shop", "orders"))
    ledger, queue = [lone.get(path)["metadata"]["resourceVersion"] for path in paths]
    return ledger, queue


async def joined_by_second(lone: Lone, *pods: str) -> Replica:
    """Start a second release beside the one that serves a group of these pods."""
    lone.group("shop", *pods)
    await asyncio.sleep(5)
    second = lone.start("two", ["shop"], lease="second")
    await asyncio.sleep(30)
    return second


def restored(replica: Replica) -> float | None:
    """How often it put the group's ledger right; None: it does not serve the group."""
    labels = {"namespace": "shop", "group": "orders"}
    return replica.metrics.registry.get_sample_value("baton_ledger_restored_total", labels)


def notes(lone: Lone) -> list[str]:
    found = lone.get(group_path(EVENTS, "shop", "events"))
    return [one["note"] for one in found["items"] if one["reason"] == "ServedElsewhere"]


@played
async def test_the_later_of_two_releases_stands_back_and_names_the_other(lone: Lone) -> None:
    second = await joined_by_second(lone, "a", "b")
    before = versions(lone)
    assert writer(lone) == FIRST
    await asyncio.sleep(300)
    assert versions(lone) == before, "neither writes"
    lone.delete_pod("b")
    await asyncio.sleep(5)
    assert lone.owned() == {"a": 4}
    assert writer(lone) == FIRST
    (note,) = notes(lone)
    assert FIRST in note and SECOND in note and "watchNamespaces" in note
    assert second.metrics.registry.get_sample_value("baton_groups_served_elsewhere", {"release": SECOND, "by": FIRST}) == 1
    assert [restored(replica) for replica in (lone.replica, second)] == [0, None]


@played
async def test_two_releases_that_start_together_agree(lone: Lone) -> None:
    second = lone.start("two", ["shop"], lease="second")
    await asyncio.sleep(5)
    lone.group("shop", "a", "b")
    await asyncio.sleep(60)
    before = versions(lone)
    assert lone.owned() == {"a": 2, "b": 2}
    await asyncio.sleep(120)
    assert versions(lone) == before
    assert sorted([restored(lone.replica), restored(second)], key=str) == [0, None]


@played
async def test_a_new_group_is_always_left_to_the_other_release(lone: Lone) -> None:
    """The list was older than the ledger, so the release that stood back opened the group every few seconds."""
    second = lone.start("two", ["shop"], lease="second")
    await asyncio.sleep(10)
    lone.group("shop", "a", "b")
    await asyncio.sleep(10)
    serves = writer(lone)
    other, stands_back = (SECOND, second) if serves == FIRST else (FIRST, lone.replica)
    left = []
    for _ in range(2 * round(LEDGERS_EVERY)):
        await asyncio.sleep(0.5)
        name, labels = "baton_groups_served_elsewhere", {"release": other, "by": serves}
        left.append(stands_back.metrics.registry.get_sample_value(name, labels))
    assert set(left) == {1}


@played
async def test_a_release_takes_over_when_the_other_is_gone(lone: Lone) -> None:
    await joined_by_second(lone, "a", "b")
    lone.crash()
    lone.delete_pod("b")
    await asyncio.sleep(40)
    assert writer(lone) == SECOND
    assert lone.owned() == {"a": 4}


@played
async def test_a_release_without_a_lease_is_not_waited_for(lone: Lone) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(5)
    lone.crash()
    lone.delete(leases_path("baton", "operator"))
    lone.start("two", ["shop"], lease="second")
    await asyncio.sleep(10)
    assert writer(lone) == SECOND


@played
async def test_a_release_that_took_over_keeps_the_group(lone: Lone) -> None:
    second = await joined_by_second(lone, "a", "b")
    lone.crash()
    await asyncio.sleep(40)
    lone.start("one again", ["shop", "bank"])
    await asyncio.sleep(30)
    before = versions(lone)
    await asyncio.sleep(120)
    assert versions(lone) == before
    assert writer(lone) == SECOND
    assert second.metrics.registry.get_sample_value("baton_ledger_restored_total", {"namespace": "shop", "group": "orders"}) == 0


@played
async def test_a_restarted_release_keeps_its_groups(lone: Lone) -> None:
    await joined_by_second(lone, "a")
    await lone.stop()
    await asyncio.sleep(10)
    lone.start("one again", ["shop", "bank"])
    await asyncio.sleep(60)
    lone.pod("b")
    await asyncio.sleep(5)
    assert lone.owned() == {"a": 2, "b": 2}
    assert writer(lone) == FIRST


@played
async def test_a_release_moved_to_other_namespaces_leaves_its_groups(lone: Lone) -> None:
    await joined_by_second(lone, "a")
    await lone.stop()
    lone.start("one again", ["bank"])
    await asyncio.sleep(10)
    assert writer(lone) == SECOND


@played
async def test_an_annotation_hands_a_group_to_the_other_release(lone: Lone) -> None:
    second = await joined_by_second(lone, "a")
    ledger = core_path("shop", "configmaps", "orders-assignments")
    lone.change(ledger, {"metadata": {"annotations": {RELEASE_ANNOTATION: SECOND}}, "data": {"group": ""}})
    await asyncio.sleep(LEDGERS_EVERY + 10)
    before = versions(lone)
    await asyncio.sleep(60)
    assert versions(lone) == before
    assert writer(lone) == SECOND
    lone.pod("b")
    await asyncio.sleep(5)
    assert lone.owned() == {"a": 2, "b": 2}
    assert [restored(replica) for replica in (lone.replica, second)] == [None, 0]


@pytest.mark.parametrize("releases", [1, 2])
@played
async def test_a_queue_whose_group_is_deleted_is_unused(lone: Lone, releases: int) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(5)
    if releases == 2:
        lone.start("two", ["shop"], lease="second")
    await asyncio.sleep(30)
    lone.delete(groups_path("shop", "orders"))
    await asyncio.sleep(10)
    assert lone.find(groups_path("shop", "orders")) is None
    queue = lone.get(queues_path("shop", "orders"))
    assert [one["reason"] for one in queue["status"]["conditions"]] == ["Unused"]
    await asyncio.sleep(120)
    assert lone.get(queues_path("shop", "orders")) == queue, "neither writes"


@played
async def test_a_queue_whose_group_went_without_its_finalizer_is_unused(lone: Lone) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(5)
    lone.delete(groups_path("shop", "orders"))
    lone.change(groups_path("shop", "orders"), {"metadata": {"finalizers": None}})
    await asyncio.sleep(10)
    queue = lone.get(queues_path("shop", "orders"))
    assert [one["reason"] for one in queue["status"]["conditions"]] == ["Unused"]


@played
async def test_a_group_deleted_without_a_leader_leaves_nothing_behind(lone: Lone) -> None:
    second = await joined_by_second(lone, "a")
    assert second.group_loops.other_releases._told
    taken = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    lone.change(leases_path("baton", "second"), {"spec": taken})
    await asyncio.sleep(5)
    assert not second.elector.leading
    lone.delete(groups_path("shop", "orders"))
    await asyncio.sleep(10)
    assert not second.group_loops.other_releases._told


@played
async def test_names_of_unknown_releases_are_bounded(lone: Lone) -> None:
    releases = lone.replica.releases
    for number in range(300):
        assert not await releases.serves(f"shop/release-{number}", "shop")
    assert len(releases._known) == MOST_KNOWN
