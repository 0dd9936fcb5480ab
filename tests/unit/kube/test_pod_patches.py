"""The annotation on pods that makes the kubelet refresh."""

import asyncio
from dataclasses import replace
from typing import Any

from baton.kube.api import AT_ONCE
from baton.kube.clock import ApiServerClock
from baton.kube.mount_refresh import SHOWN_WITHIN, MountRefresher, due_refreshes, mark
from baton.kube.pods import PodView
from baton.model.ids import MemberId, Uid
from tests.unit.kube.memory_api import ShopApi


def entry(numbers: str) -> str:
    return f'{{"owned":{{"orders":"{numbers}"}}}}'


A = PodView("shop", MemberId("a"), Uid("u-a"), "orders")
B = PodView("shop", MemberId("b"), Uid("u-b"), "orders", told=mark(entry("1@1")))
LEDGER = {"group": "g", "a": entry("0@1"), "b": entry("1@1")}


def put(api: ShopApi, pod: PodView) -> str:
    path = f"/api/v1/namespaces/shop/pods/{pod.name}"
    api.put(path, {"metadata": {"name": pod.name, "uid": pod.uid}})
    return path


def test_only_pods_whose_key_changed_are_refreshed() -> None:
    assert [bump.pod for bump in due_refreshes(LEDGER, [A, B])] == ["a"]
    assert [bump.pod for bump in due_refreshes({**LEDGER, "b": entry("1-2@2")}, [A, B])] == ["a", "b"]
    assert due_refreshes({"group": "g"}, [A, replace(A, name=MemberId("group"))]) == []


def test_a_pod_is_refreshed_only_when_what_it_owns_changes() -> None:
    stands_by = '{"active":false,"owned":{},"generation":1}'
    assert due_refreshes({"a": stands_by}, [A]) == [], "it never had another entry"
    told = replace(A, told=mark(entry("0@1")))
    released = entry("0@1").replace("{", '{"generation":9,"revoking":{},', 1)
    assert due_refreshes({"a": released}, [told]) == []
    assert [bump.mark for bump in due_refreshes({"a": stands_by}, [told])] == [None]


def test_executors_are_not_refreshed_because_their_driver_watches_the_ledger() -> None:
    assert due_refreshes(LEDGER, [replace(A, spark_role="executor"), B]) == []


async def test_a_refresh_is_sent_once_and_repeated_if_it_failed() -> None:
    api = ShopApi()
    path = put(api, A)
    bumper = MountRefresher(api, ApiServerClock())
    api.away = True
    await bumper.carry_out(due_refreshes(LEDGER, [A]))
    api.away = False
    await bumper.carry_out(due_refreshes(LEDGER, [A]))
    assert api.objects[path]["metadata"]["annotations"] == {"baton.dev/ledger": mark(entry("0@1"))}
    version = api.objects[path]["metadata"]["resourceVersion"]
    await bumper.carry_out(due_refreshes(LEDGER, [A]))  # the watch has not shown it yet
    assert api.objects[path]["metadata"]["resourceVersion"] == version


async def test_a_refresh_that_was_undone_is_repeated() -> None:
    api = ShopApi()
    path = put(api, A)
    now = 0.0
    bumper = MountRefresher(api, ApiServerClock(monotonic=lambda: now))
    await bumper.carry_out(due_refreshes(LEDGER, [A]))
    put(api, A)
    now = SHOWN_WITHIN - 1
    await bumper.carry_out(due_refreshes(LEDGER, [A]))
    assert "annotations" not in api.objects[path]["metadata"], "the watch may only be late"
    now = SHOWN_WITHIN
    await bumper.carry_out(due_refreshes(LEDGER, [A]))
    assert api.objects[path]["metadata"]["annotations"] == {"baton.dev/ledger": mark(entry("0@1"))}


async def test_the_latest_refresh_wins_however_late_the_first_arrives() -> None:
    api = ShopApi()
    path = put(api, A)
    delays = iter([0.02])
    api.latency = lambda: next(delays, 0.0)
    bumper = MountRefresher(api, ApiServerClock())
    first = asyncio.create_task(bumper.carry_out(due_refreshes(LEDGER, [A])))
    await asyncio.sleep(0)
    await bumper.carry_out(due_refreshes({"a": entry("0-1@2")}, [A]))
    await first
    assert api.objects[path]["metadata"]["annotations"] == {"baton.dev/ledger": mark(entry("0-1@2"))}


async def test_a_pod_has_one_refresh_under_way_however_long_it_waits() -> None:
    class Held(ShopApi):
        asked, answers = 0, asyncio.Event()

        async def merge(self, path: str, patch: Any) -> Any:
            self.asked += 1
            await self.answers.wait()
            return await super().merge(path, patch)

    api, now = Held(), 0.0
    path = put(api, A)
    bumper = MountRefresher(api, ApiServerClock(monotonic=lambda: now))
    under_way = []
    for number in range(10):
        now = number * SHOWN_WITHIN
        under_way.append(asyncio.create_task(bumper.carry_out(due_refreshes({"a": entry(f"{number // 5}@1")}, [A]))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert api.asked == 1
    api.answers.set()
    await asyncio.gather(*under_way)
    assert api.objects[path]["metadata"]["annotations"] == {"baton.dev/ledger": mark(entry("1@1"))}
    await bumper.carry_out(due_refreshes({"a": entry("1@1")}, [A]))
    assert api.asked == 1, "it said what was so when it had its turn"


async def test_a_new_pod_of_the_same_name_is_refreshed_with_the_same_entry() -> None:
    api = ShopApi()
    put(api, A)
    bumper = MountRefresher(api, ApiServerClock())
    await bumper.carry_out(due_refreshes(LEDGER, [A]))
    again = replace(A, uid=Uid("u-a2"))
    path = put(api, again)
    await bumper.carry_out(due_refreshes(LEDGER, [again]))
    assert api.objects[path]["metadata"]["annotations"] == {"baton.dev/ledger": mark(entry("0@1"))}


async def test_cancelled_refreshes_are_sent_by_the_next_loop() -> None:
    api = ShopApi()
    api.latency = lambda: 0.001
    pods = [replace(A, name=MemberId(f"p{number}"), uid=Uid(f"u{number}")) for number in range(2 * AT_ONCE)]
    ledger: dict[str, str] = {pod.name: entry("0@1") for pod in pods}
    paths = [put(api, pod) for pod in pods]
    bumper = MountRefresher(api, ApiServerClock())
    for rounds in range(2):  # before any has begun, and in the midst of it
        under_way = asyncio.create_task(bumper.carry_out(due_refreshes(ledger, pods)))
        for _ in range(rounds):
            await asyncio.sleep(0)
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)
    assert not all("annotations" in api.objects[path]["metadata"] for path in paths)
    await bumper.carry_out(due_refreshes(ledger, pods))
    assert all("annotations" in api.objects[path]["metadata"] for path in paths)


async def test_a_deleted_pod_needs_no_refresh() -> None:
    api = ShopApi()
    await MountRefresher(api, ApiServerClock()).carry_out(due_refreshes(LEDGER, [A]))
    assert api.objects == {}
