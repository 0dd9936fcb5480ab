"""What the API server refuses, or never answers: acted on is what can be seen, and said is what cannot."""

import asyncio

import pytest

from baton.controller.relists import LEDGERS_EVERY
from baton.kube.api import core_path
from baton.kube.objects import groups_path, queues_path
from baton.kube.store import WATCHED, WatchedKind
from tests.simulation.api_server import Fault, Hang, Refuse
from tests.simulation.replicas import Lone, played

FAILURES: dict[str, Fault] = {
    "403": Refuse(403, "Forbidden", "no"),
    "404": Refuse(404, "NotFound", "no"),
    "410": Refuse(410, "Expired", "no"),
    "429": Refuse(429, "TooManyRequests", "later"),
    "503": Refuse(503, "ServiceUnavailable", "away"),
    "hang": Hang(),
}
REPORTED = 30 + 15 + 10 + 1
"""Seconds within which it is said that lists fail: how long they may, the backoff, a request that hangs, and a write."""


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@played
async def test_watches_are_acted_on_while_lists_fail(lone: Lone, failure: Fault) -> None:
    lone.group("shop", "a", "b")
    await asyncio.sleep(10)
    assert lone.owned() == {"a": 2, "b": 2}
    lone.fails = lambda verb, path: failure if verb == "list" else None
    relists = lone.replica.relists
    for namespace in ("shop", "bank"):
        for of in WATCHED:
            relists.watch_broke(of, namespace)  # as kopf tells where a watch breaks
    await asyncio.sleep(25)
    lone.delete_pod("b")
    await asyncio.sleep(1)
    assert lone.owned() == {"a": 4}
    await asyncio.sleep(REPORTED)
    assert lone.says("shop") == ("False", "NotSeen")
    assert lone.replica.stuck() is None
    lone.pod("c")
    await asyncio.sleep(1)
    assert lone.owned() == {"a": 2, "c": 2}
    lone.fails = lambda verb, path: None
    await asyncio.sleep(30)
    assert lone.says("shop") == ("True", "Ready")


@pytest.mark.parametrize("of", list(WatchedKind))
@played
async def test_a_failing_list_is_reported_in_its_namespace_only(lone: Lone, of: WatchedKind) -> None:
    for namespace in ("shop", "bank"):
        lone.group(namespace, "a", "b")
    await asyncio.sleep(10)
    lone.fails = lambda verb, path: FAILURES["403"] if verb in ("list", "watch") and path == of.path("bank") else None
    lone.replica.api.drop_watches()  # type: ignore[attr-defined]
    await asyncio.sleep(LEDGERS_EVERY + REPORTED)
    assert lone.says("bank") == ("False", "NotSeen")
    assert lone.says("shop") == ("True", "Ready")
    lone.fails = lambda verb, path: None
    await asyncio.sleep(30)
    assert lone.says("bank") == ("True", "Ready")


@played
async def test_sessions_do_not_lapse_while_leases_cannot_be_read(lone: Lone) -> None:
    for namespace in ("shop", "bank"):
        lone.group(namespace, "a", "b")
    hidden = False
    lone.fails = lambda verb, path: (
        FAILURES["403"] if hidden and verb in ("list", "watch") and path == WatchedKind.LEASES.path("bank") else None
    )
    for second in range(120):
        for namespace, pod in (("shop", "a"), ("bank", "a"), ("bank", "b")):
            lone.renew(namespace, pod)
        if second < 20:
            lone.renew("shop", "b")
        if second == 20:
            hidden = True
            lone.replica.api.drop_watches()  # type: ignore[attr-defined]
        await asyncio.sleep(1)
    assert lone.owned() == {"a": 4}  # b's session has lapsed
    assert lone.owned(namespace="bank") == {"a": 2, "b": 2}
    hidden = False
    for _ in range(40):
        lone.renew("bank", "a")
        await asyncio.sleep(1)
    assert lone.owned(namespace="bank") == {"a": 4}


@played
async def test_a_session_has_a_full_term_after_leases_could_not_be_read(lone: Lone) -> None:
    lone.group("bank", "a", "b")
    away = False
    lone.fails = lambda verb, path: (
        FAILURES["503"] if away and verb in ("list", "watch") and path == WatchedKind.LEASES.path("bank") else None
    )
    for second in range(150):
        if not away and second % 8 == 0:
            lone.renew("bank", "a")
            lone.renew("bank", "b")
        if second in (20, 100):
            away = not away
            lone.replica.api.drop_watches()  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        if second > 2:
            assert lone.owned(namespace="bank") == {"a": 2, "b": 2}


@played
async def test_a_silent_watch_ends_no_session(lone: Lone) -> None:
    lone.group("shop", "a", "b")
    silent = False
    lone.fails = lambda verb, path: Hang() if silent and verb == "watch" else None
    for second in range(100):
        lone.renew("shop", "a")
        lone.renew("shop", "b")
        if second == 20:
            silent = True
            lone.replica.api.drop_watches()  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        if second > 2:
            assert lone.owned() == {"a": 2, "b": 2}


@played
async def test_a_group_with_unreadable_pods_reports_that_and_delays_no_other(lone: Lone) -> None:
    lone.fails = lambda verb, path: FAILURES["403"] if verb == "list" and path == WatchedKind.PODS.path("bank") else None
    for namespace in ("shop", "bank"):
        lone.group(namespace, "a")
    await asyncio.sleep(2)
    assert lone.owned() == {"a": 4}
    assert lone.owned(namespace="bank") == {}
    await asyncio.sleep(REPORTED)
    assert lone.says("bank") == ("False", "NotSeen")
    assert lone.owned(namespace="bank") == {}
    lone.fails = lambda verb, path: None
    await asyncio.sleep(20)
    assert lone.owned(namespace="bank") == {"a": 4}
    assert lone.says("bank") == ("True", "Ready")


@pytest.mark.parametrize("status", ["403", "404"])
@played
async def test_a_namespace_is_deleted_though_its_rights_went_first(lone: Lone, status: str) -> None:
    """With watchNamespaces and rbac.finishDeletions: groups can be listed and patched, and nothing else in there."""

    def refuse(verb: str, path: str) -> Fault | None:
        finishing = path == groups_path("shop") or (verb == "patch" and path == groups_path("shop", "orders"))
        return FAILURES[status] if "/namespaces/shop/" in path and not finishing else None

    for namespace in ("shop", "bank"):
        lone.group(namespace, "a")
    await asyncio.sleep(10)
    await lone.stop()
    lone.fails = refuse
    lone.delete(core_path(None, "namespaces", "shop"))
    await asyncio.sleep(10)
    assert lone.find(groups_path("shop", "orders")) is not None
    lone.start("two", ("shop", "bank"))
    await asyncio.sleep(60)
    assert lone.find(groups_path("shop", "orders")) is None
    assert lone.owned(namespace="bank") == {"a": 4}


@played
async def test_a_deleted_group_waits_only_briefly_for_failing_lists(lone: Lone) -> None:
    lone.group("shop", "a")
    await asyncio.sleep(10)
    await lone.stop()
    lone.fails = lambda verb, path: FAILURES["503"] if verb == "list" and path == WatchedKind.PODS.path("shop") else None
    lone.delete(groups_path("shop", "orders"))
    lone.start("two", ("shop", "bank"))
    await asyncio.sleep(REPORTED)
    assert lone.find(groups_path("shop", "orders")) is not None
    lone.fails = lambda verb, path: None
    await asyncio.sleep(30)
    assert lone.find(groups_path("shop", "orders")) is None


@played
async def test_only_completed_rounds_count(lone: Lone) -> None:
    for namespace in ("shop", "bank"):
        lone.group(namespace, "a")
    await asyncio.sleep(30)
    lone.fails = lambda verb, path: FAILURES["403"] if verb in ("list", "watch") and "/bank/" in path else None
    lone.replica.api.drop_watches()  # type: ignore[attr-defined]
    await asyncio.sleep(200)
    ages = {
        namespace: lone.metric("baton_reconcile_age_seconds", namespace=namespace, group="orders")
        for namespace in ("shop", "bank")
    }
    assert ages["bank"] is not None and ages["shop"] is not None
    assert ages["bank"] > 120 and ages["shop"] < 40
    assert lone.replica.stuck() is None


@played
async def test_no_queue_is_unused_before_the_groups_of_its_namespace_were_seen(lone: Lone) -> None:
    def reason() -> str:
        return lone.condition(queues_path("shop", "orders"))[1]

    lone.group("shop", "a")
    await asyncio.sleep(10)
    assert reason() == "Reachable"
    await lone.stop()
    hidden = True
    groups = WatchedKind.GROUPS.path("shop")
    lone.fails = lambda verb, path: FAILURES["403"] if hidden and verb in ("list", "watch") and path == groups else None
    lone.start("one again", ["shop", "bank"])
    await asyncio.sleep(100)
    assert reason() == "Reachable"
    lone.change(groups_path("shop", "orders"), {"metadata": {"finalizers": None}})
    lone.delete(groups_path("shop", "orders"))
    hidden = False
    await asyncio.sleep(100)
    assert reason() == "Unused"
