"""Lists that all groups of a scope share, and lists that fail."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from baton.controller.cluster_cache import ClusterCache
from baton.controller.relists import (
    APART,
    BLIND_AFTER,
    EVERY,
    LEDGERS_EVERY,
    LONGEST_BACKOFF,
    PATIENCE,
    Relists,
)
from baton.controller.supervision import Tasks
from baton.kube.api import PAGE, REQUEST_TIMEOUT, Api, Json
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, NotFoundError, PageTooLargeError, UnavailableError, refusal
from baton.kube.store import WatchedKind
from baton.simulation import virtual_time
from tests.unit.kube.virtual_tests import told_by

POD = {
    "metadata": {"namespace": "shop", "name": "a", "uid": "u-a", "resourceVersion": "3", "labels": {"baton.dev/group": "orders"}},
    "status": {},
}
LEASE = {
    "metadata": {"namespace": "shop", "name": "baton-a", "resourceVersion": "5", "labels": {"baton.dev/group": "orders"}},
    "spec": {"holderIdentity": "u-a", "leaseDurationSeconds": 40, "renewTime": "10:00:00"},
}
LEDGER = {"metadata": {"namespace": "shop", "name": "orders-assignments", "uid": "l", "resourceVersion": "7"}}


class Lists(Api):
    """An API server with one pod, its session and one ledger. Lists in `refused` fail, by namespace and resource; HANG never
    answers."""

    def __init__(self) -> None:
        super().__init__(None)
        self.pods = [POD]
        self.begun: list[tuple[str, str]] = []
        self.refused: dict[tuple[str, str], Exception | str] = {}
        self.gate: asyncio.Future[None] | None = None
        """Lists of pods wait for this future."""

    async def _exchange(self, method: str, path: str, query: Mapping[str, str] | None = None, *_: Any, **__: Any) -> Json:
        namespace, resource = path.split("/")[-2:]
        self.begun.append((namespace, resource))
        refused = self.refused.get((namespace, resource))
        if refused == HANG:
            await asyncio.sleep(REQUEST_TIMEOUT)
            raise UnavailableError("TimeoutError")
        if isinstance(refused, Exception):
            raise refused
        if resource == "pods" and self.gate is not None:
            await self.gate
        items = {"pods": self.pods, "leases": [LEASE], "configmaps": [LEDGER]}.get(resource, [])
        return {"items": items if namespace in ("shop", "v1", "v1alpha1") else [], "metadata": {"resourceVersion": "9"}}

    def times(self, resource: str, namespace: str = "shop") -> int:
        return self.begun.count((namespace, resource))


HANG = "hang"
FAILURES = {
    "403": ApiError(403, "Forbidden", "no"),
    "404": NotFoundError(404, "NotFound", "no"),
    "410": ApiError(410, "Expired", "the rest of the list is gone"),
    "429": refusal(429, {"message": "later"}),
    "500": refusal(500, {"message": "broken"}),
    "503": refusal(503, {"message": "away"}),
    "hang": HANG,
}


class Served:
    """Lists of two namespaces, on a loop whose time is virtual."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = ApiServerClock(loop.time, loop.time)
        self.api = Lists()
        self.cache = ClusterCache(self.clock)
        self.tasks = Tasks(self.clock)
        self.relists = Relists(self.api, self.cache, self.clock, self.tasks, ["shop", "bank"])
        self.told: list[tuple[WatchedKind, str | None]] = []
        self.relists.listed = lambda of, scope: self.told.append((of, scope))
        self.blind: list[tuple[str | None, float]] = []
        self.relists.blind_changed = lambda scope: self.blind.append((scope, self.clock.ticks()))

    def want(self, at: float, namespace: str = "shop") -> None:
        for lister in self.relists.listers:
            if lister.scope == namespace:
                lister.want(at)

    async def tended(self, seconds: float) -> None:
        """Call `tend` regularly, like a leader, for `seconds`."""
        until = self.clock.ticks() + seconds
        while self.clock.ticks() < until:
            self.relists.tend()
            await asyncio.sleep(2)


@told_by
def played(story: Callable[[Served], Awaitable[None]]) -> None:
    async def main() -> None:
        served = Served()
        await asyncio.sleep(100)
        await story(served)
        await served.relists.stop()
        assert not served.tasks.failures.total()

    virtual_time.run(main())


@played
async def test_an_object_that_vanished_unseen_is_noticed(one: Served) -> None:
    one.want(0)
    await asyncio.sleep(1)
    assert one.cache.pods.get("shop", "a") is not None
    one.api.pods = []
    one.want(one.clock.ticks())
    await asyncio.sleep(1)
    assert one.cache.pods.get("shop", "a") is None
    ledger = one.relists.ledger(("shop", "orders"))
    assert ledger is not None and ledger.version == "7"
    assert one.relists.ledger(("shop", "returns")) is None


@played
async def test_only_a_complete_recent_list_shows_that_a_group_has_no_ledger(one: Served) -> None:
    orders, returns, loans = ("shop", "orders"), ("shop", "returns"), ("bank", "loans")
    began = one.clock.ticks()
    assert not one.relists.ledger_absent(returns, 0), "nothing has been listed"
    one.api.refused["bank", "configmaps"] = FAILURES["403"]
    one.want(began)
    one.want(began, "bank")
    await asyncio.sleep(1)
    assert one.relists.ledger_absent(returns, began)
    assert not one.relists.ledger_absent(orders, began)
    assert not one.relists.ledger_absent(loans, began), "this namespace could not be listed"
    assert not one.relists.ledger_absent(returns, began + 0.5), "the list is of an earlier term"


@played
async def test_many_requests_share_one_list(one: Served) -> None:
    for _ in range(50):
        one.want(0)
    await asyncio.sleep(1)
    one.want(0)
    assert one.api.times("pods") == 1


@played
async def test_a_list_begun_before_the_request_is_too_old(one: Served) -> None:
    one.api.gate = asyncio.get_running_loop().create_future()
    one.want(0)
    await asyncio.sleep(1)
    one.want(one.clock.ticks())
    await asyncio.sleep(1)
    one.api.gate.set_result(None)
    await asyncio.sleep(1)
    assert one.api.times("pods") == 2
    assert one.told.count((WatchedKind.PODS, "shop")) == 2


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("resource", [of.value for of in WatchedKind])
@played
async def test_a_failing_list_is_reported_and_affects_no_other_namespace(
    one: Served, failure: Exception | str, resource: str
) -> None:
    one.api.refused["bank", resource] = failure
    begun = one.clock.ticks()
    one.want(begun, "bank")
    one.want(begun)
    await asyncio.sleep(0.1)
    assert set(one.told) == {(of, scope) for of in WatchedKind for scope in ("shop", "bank")} - {(resource, "bank")}
    await asyncio.sleep(BLIND_AFTER + LONGEST_BACKOFF + REQUEST_TIMEOUT)
    (problem,) = one.relists.problems("bank")
    assert f"cannot list {resource} in namespace bank" in problem.message
    assert one.relists.problems("shop") == []
    assert [scope for scope, _ in one.blind] == ["bank"]
    (lister,) = [one for one in one.relists.listers if one.failing_since is not None]
    assert (lister.scope, lister.of, lister.failing_since) == ("bank", resource, begun)
    assert lister.failures.total() > 2
    ((_, blind_at),) = one.blind
    assert blind_at >= begun + BLIND_AFTER
    del one.api.refused["bank", resource]
    await asyncio.sleep(LONGEST_BACKOFF + REQUEST_TIMEOUT)
    assert (resource, "bank") in one.told
    assert one.relists.problems("bank") == []
    assert [scope for scope, _ in one.blind] == ["bank", "bank"]


@played
async def test_hanging_lists_leave_turns_for_other_namespaces(one: Served) -> None:
    many = [f"bank-{number}" for number in range(100)]
    relists = Relists(one.api, one.cache, one.clock, one.tasks, [*many, "shop"])
    one.api.refused = {(namespace, of.value): HANG for namespace in many for of in WatchedKind}
    relists.want_all(one.clock.ticks())
    await asyncio.sleep(REQUEST_TIMEOUT * 5 * len(many))
    begun = one.clock.ticks()
    assert await relists.seen("shop", begun, 1)
    assert one.clock.ticks() == begun
    await relists.stop()


@played
async def test_a_group_begins_once_its_own_namespace_was_seen(one: Served) -> None:
    one.api.refused = {("bank", of.value): FAILURES["403"] for of in WatchedKind}
    leads_since = one.clock.ticks()
    assert await one.relists.seen("shop", leads_since, 5)
    assert one.clock.ticks() == leads_since
    assert not await one.relists.seen("bank", leads_since, 5)
    assert one.clock.ticks() == leads_since + 5
    assert not await one.relists.seen("bank", leads_since, 500)
    one.api.refused = {}
    assert await one.relists.seen("bank", leads_since, LONGEST_BACKOFF)


@played
async def test_a_group_waits_only_a_while_for_newer_lists(one: Served) -> None:
    assert await one.relists.seen("shop", one.clock.ticks(), 5)
    await asyncio.sleep(50)
    one.api.refused = {("shop", of.value): FAILURES["503"] for of in WatchedKind}
    leads_since = one.clock.ticks()
    assert await one.relists.seen("shop", leads_since, 60)
    assert one.clock.ticks() == leads_since + PATIENCE


@pytest.mark.parametrize("resource", [WatchedKind.PODS, WatchedKind.LEASES, WatchedKind.QUEUES])
@played
async def test_a_group_does_not_begin_before_its_pods_sessions_and_queues_were_seen(one: Served, resource: WatchedKind) -> None:
    one.api.refused["shop", resource.value] = FAILURES["403"]
    assert not await one.relists.seen("shop", one.clock.ticks(), 5 * PATIENCE)


@played
async def test_a_namespace_listed_once_and_refused_since_counts_as_seen(one: Served) -> None:
    one.api.refused = {("bank", of.value): FAILURES["403"] for of in WatchedKind}
    assert await one.relists.seen("shop", one.clock.ticks(), 5)
    one.relists.want_all(one.clock.ticks())
    await asyncio.sleep(100)
    assert (one.relists.refused_for("shop"), one.relists.refused_for("bank")) == (0, 100)
    one.api.refused = {("shop", of.value): FAILURES["403"] for of in WatchedKind}
    one.relists.want_all(one.clock.ticks())
    await asyncio.sleep(100)
    assert (one.relists.refused_for("shop"), one.relists.refused_for("bank")) == (0, 0)


@played
async def test_everything_is_listed_rarely_and_one_kind_after_another(one: Served) -> None:
    one.relists.want_all(one.clock.ticks())
    await asyncio.sleep(1)
    one.api.begun.clear()
    await one.tended(EVERY - 10)
    assert {resource for _, resource in one.api.begun} == {"configmaps"}, "which are not watched"
    assert one.api.times("configmaps") == pytest.approx(EVERY / LEDGERS_EVERY, abs=1)
    one.api.begun.clear()
    await one.tended(EVERY / 2)
    half = set(one.api.begun)
    await one.tended(EVERY / 2 + 10)
    others = [(scope, of.value) for scope in ("shop", "bank") for of in WatchedKind if of is not WatchedKind.LEDGERS]
    assert 2 <= len(half & set(others)) < len(others)
    assert sorted(begun for begun in one.api.begun if begun in others) == sorted(others)


@played
async def test_a_list_that_always_fails_delays_no_other(one: Served) -> None:
    one.api.refused["shop", "pods"] = FAILURES["403"]
    one.relists.want_all(one.clock.ticks())
    await asyncio.sleep(1)
    one.api.begun.clear()
    await one.tended(2 * EVERY)
    assert {("bank", "pods"), ("bank", "leases"), ("shop", "leases")} <= set(one.api.begun)


@played
async def test_a_kind_is_listed_after_its_watch_broke_with_pauses(one: Served) -> None:
    one.relists.want_all(one.clock.ticks())
    await asyncio.sleep(1)
    one.api.begun.clear()
    await one.tended(30)
    assert one.api.begun == []
    one.relists.watch_broke(WatchedKind.PODS, "shop")
    await one.tended(APART + 5)
    assert one.api.begun == [("shop", "pods")]
    for _ in range(30):
        one.relists.watch_broke(WatchedKind.PODS, "shop")
        await one.tended(1)
    assert 2 <= one.api.times("pods") <= 2 + 60 / APART


@played
async def test_a_kind_that_kopf_has_relisted_is_not_listed_again(one: Served) -> None:
    one.relists.want_all(one.clock.ticks())
    await asyncio.sleep(1)
    one.api.begun.clear()
    one.relists.watch_broke(WatchedKind.PODS, "shop")
    await one.tended(APART - 3)
    one.relists.go_on()
    await one.tended(APART - 3)
    one.relists.watch_listed(WatchedKind.PODS, "shop", set(), 9)
    await one.tended(30)
    assert one.api.begun == []
    assert one.cache.pods.get("shop", "a") is None


@played
async def test_a_group_that_doubts_a_session_is_woken_by_its_list(one: Served) -> None:
    woken: list[tuple[str, str]] = []
    one.cache.wake = woken.append
    one.relists.want_sessions(("bank", "orders"), one.clock.ticks())
    await asyncio.sleep(1)
    assert woken == [("bank", "orders")]
    assert {resource for _, resource in one.api.begun} == {"leases"}


class Paged(Lists):
    """Its list of pods has `count` pods, and a page of more than `largest` is too large."""

    def __init__(self, count: int, largest: int) -> None:
        super().__init__()
        self.count, self.largest = count, largest
        self.asked: list[int] = []

    async def _exchange(self, method: str, path: str, query: Mapping[str, str] | None = None, *_: Any, **__: Any) -> Json:
        if not path.endswith("/shop/pods"):
            return await super()._exchange(method, path, query)
        limit, at = int((query or {})["limit"]), int((query or {}).get("continue", 0))
        self.asked.append(limit)
        if limit > self.largest:
            raise PageTooLargeError
        numbers = range(at, min(self.count, at + limit))
        pods = [{**POD, "metadata": {**POD["metadata"], "name": f"pod-{n}"}} for n in numbers]
        more = str(numbers.stop) if numbers.stop < self.count else ""
        return {"items": pods, "metadata": {"resourceVersion": "9", "continue": more}}


@pytest.mark.parametrize(
    ("count", "largest", "asked"),
    [(2 * PAGE + 1, PAGE, [PAGE] * 3), (30, 10, [PAGE, PAGE // 10, *[PAGE // 100] * 15])],
    ids=["pages", "large objects"],
)
@played
async def test_a_list_comes_in_pages_and_in_smaller_ones_if_objects_are_large(
    one: Served, count: int, largest: int, asked: list[int]
) -> None:
    api = Paged(count, largest)
    relists = Relists(api, one.cache, one.clock, one.tasks, ["shop"])
    assert await relists.seen("shop", 0, 1)
    assert set(one.cache.pods.bucket("shop", "orders")) == {f"pod-{n}" for n in range(count)}
    assert api.asked == asked
    await relists.stop()
