"""The finalizer of a group beside those of others."""

from typing import Any

from baton.controller.group_loop import Finalizer
from baton.kube.objects import FINALIZER, GroupView, group_view, groups_path
from tests.unit.kube.memory_api import ShopApi

OTHERS = "example.com/backup"


def group(api: ShopApi, *finalizers: str) -> dict[str, Any]:
    body = {"metadata": {"name": "orders", "finalizers": list(finalizers)}, "spec": {"queues": [{"name": "orders"}]}}
    return api.server.request("create", groups_path("shop"), body=body)


def seen(api: ShopApi) -> GroupView:
    return group_view(api.server.request("get", groups_path("shop", "orders")))


async def test_the_finalizer_is_added_and_removed_beside_others() -> None:
    api = ShopApi()
    group(api, OTHERS)
    finalizer = Finalizer(api, "shop", "orders")
    await finalizer.put_on(seen(api))
    assert set(seen(api).finalizers) == {OTHERS, FINALIZER}
    assert await finalizer.take_off(seen(api))
    assert seen(api).finalizers == (OTHERS,)


async def test_a_finalizer_added_meanwhile_stays_and_the_removal_is_retried() -> None:
    api = ShopApi()
    group(api, FINALIZER)
    finalizer, before = Finalizer(api, "shop", "orders"), seen(api)
    api.server.request("patch", groups_path("shop", "orders"), body={"metadata": {"finalizers": [FINALIZER, OTHERS]}})
    assert not await finalizer.take_off(before)
    assert set(seen(api).finalizers) == {OTHERS, FINALIZER}
    assert await finalizer.take_off(seen(api))
    assert seen(api).finalizers == (OTHERS,)


async def test_a_deleted_group_needs_no_removal() -> None:
    api = ShopApi()
    group(api, FINALIZER)
    before = seen(api)
    api.remove(groups_path("shop", "orders"))
    assert await Finalizer(api, "shop", "orders").take_off(before)
