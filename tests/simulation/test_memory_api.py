"""The client over the server in memory: what can go wrong on the way, and what a watch makes of it, in virtual time."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from baton.controller.cluster_cache import ClusterCache
from baton.kube.api import REQUEST_TIMEOUT, core_path
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError, UnavailableError
from baton.kube.leases import leases_path
from baton.model.names import GROUP_LABEL
from baton.simulation.virtual_time import run
from tests.simulation.api_server import ApiServer, Delay, Fault, Hang, LoseAnswer, MemoryApi, Refuse, Rule, WatchFeed

CONFIG_MAPS = core_path("shop", "configmaps")
PODS = core_path("shop", "pods")


def body(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def pod(name: str, group: str | None = "orders") -> dict[str, Any]:
    labels = {} if group is None else {GROUP_LABEL: group}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}


class World:
    """A server with a namespace, an administrator, and a client that has the next faults that it is given."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = asyncio.get_running_loop()
        self.server = ApiServer(random.Random(seed), self.loop.time)
        self.faults: list[Fault | None] = []
        self.admin = MemoryApi(self.server)
        self.client = MemoryApi(self.server, self._trouble, latency=lambda: 0.01)
        self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "shop"}})

    def _trouble(self, verb: str, path: str) -> Fault | None:
        return self.faults.pop(0) if self.faults else None

    def names(self, path: str = CONFIG_MAPS) -> list[str]:
        return [item["metadata"]["name"] for item in self.server.request("list", path)["items"]]


def in_virtual_time(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def lives() -> None:
        await test(World())

    def runs() -> None:
        run(lives())

    runs.__name__, runs.__doc__ = test.__name__, test.__doc__
    return runs


@in_virtual_time
async def test_a_request_takes_its_latency_both_ways(world: World) -> None:
    await world.client.create(CONFIG_MAPS, body("a"))
    assert world.loop.time() == pytest.approx(0.02)


@in_virtual_time
async def test_a_request_that_hangs_is_not_carried_out_and_ends_with_the_time_for_an_answer(world: World) -> None:
    world.faults = [Hang()]
    with pytest.raises(UnavailableError):
        await world.client.create(CONFIG_MAPS, body("a"))
    assert world.loop.time() == REQUEST_TIMEOUT
    assert world.names() == []


@pytest.mark.parametrize("hang", [False, True])
def test_a_request_whose_answer_is_lost_is_carried_out(hang: bool) -> None:
    async def lives() -> None:
        world = World()
        world.faults = [LoseAnswer(hang=hang)]
        with pytest.raises(UnavailableError):
            await world.client.create(CONFIG_MAPS, body("a"))
        assert world.names() == ["a"]
        assert world.loop.time() == pytest.approx(REQUEST_TIMEOUT if hang else 0.02)

    run(lives())


@pytest.mark.parametrize(
    ("status", "kind"), [(403, ApiError), (409, ConflictError), (422, ApiError), (429, UnavailableError), (503, UnavailableError)]
)
def test_a_refusal_on_the_way_is_what_the_client_makes_of_its_status(status: int, kind: type[Exception]) -> None:
    async def lives() -> None:
        world = World()
        world.faults = [Refuse(status, "Reason", "no")]
        with pytest.raises(kind, match="no"):
            await world.client.create(CONFIG_MAPS, body("a"))
        assert world.names() == []

    run(lives())


@in_virtual_time
async def test_a_request_that_is_delayed_beyond_the_time_for_an_answer_is_lost_on_the_side_where_it_waited(world: World) -> None:
    world.faults = [Delay(there=20), Delay(back=20), Delay(there=1, back=1)]
    for name in ("there", "back"):
        with pytest.raises(UnavailableError):
            await world.client.create(CONFIG_MAPS, body(name))
    assert world.loop.time() == pytest.approx(2 * REQUEST_TIMEOUT)
    await world.client.create(CONFIG_MAPS, body("both"))
    assert world.loop.time() == pytest.approx(2 * REQUEST_TIMEOUT + 2.02)
    assert world.names() == ["back", "both"]


@in_virtual_time
async def test_a_request_that_was_sent_arrives_also_where_its_sender_has_gone(world: World) -> None:
    sender = asyncio.create_task(world.client.create(CONFIG_MAPS, body("a")))
    await asyncio.sleep(0.001)
    sender.cancel()
    await asyncio.gather(sender, return_exceptions=True)
    assert world.names() == []
    await asyncio.sleep(0.02)
    assert world.names() == ["a"]


@in_virtual_time
async def test_no_reader_can_change_what_the_server_has(world: World) -> None:
    sent = body("a", key="value")
    made = await world.client.create(CONFIG_MAPS, sent)
    sent["data"]["key"] = "changed"
    with pytest.raises(TypeError):
        made["data"]["key"] = "changed"
    assert (await world.admin.get(f"{CONFIG_MAPS}/a"))["data"] == {"key": "value"}


@in_virtual_time
async def test_a_user_may_do_what_the_rules_grant_and_no_more(world: World) -> None:
    client = MemoryApi(world.server, user="system:serviceaccount:baton:baton")
    world.server.access.grant(client.user or "", Rule("", ["configmaps"], ["get"], "shop"))
    assert await client.find(f"{CONFIG_MAPS}/a") is None
    with pytest.raises(ApiError) as refused:
        await client.create(CONFIG_MAPS, body("a"))
    assert refused.value.message == (
        'configmaps is forbidden: User "system:serviceaccount:baton:baton" cannot create resource "configmaps" in API group "" '
        'in the namespace "shop"'
    )


# -- the watch


class Fed:
    """A cluster cache, and the feed that fills it."""

    def __init__(self, world: World, repeats: Callable[[], bool] = lambda: False, namespaces: Sequence[str] = ()) -> None:
        self.cache = ClusterCache(ApiServerClock(world.loop.time, world.loop.time))
        self.feed = WatchFeed(world.client, self.cache.event, namespaces, repeats)
        self._running = asyncio.create_task(self.feed.run())

    def pods(self) -> list[str]:
        return sorted(self.cache.pods.bucket("shop", "orders"))


@in_virtual_time
async def test_the_feed_tells_what_there_is_and_then_what_becomes_of_it(world: World) -> None:
    await world.admin.create(PODS, pod("a"))
    fed = Fed(world)
    await fed.feed.ready.wait()
    assert fed.pods() == ["a"]
    await world.admin.create(PODS, pod("b"))
    await world.admin.create(PODS, pod("c", group=None))
    await world.admin.merge(f"{PODS}/a", {"metadata": {"labels": {GROUP_LABEL: None}}})
    await asyncio.sleep(1)
    assert fed.pods() == ["b"]


@in_virtual_time
async def test_a_feed_whose_connections_broke_goes_on_from_where_it_was(world: World) -> None:
    await world.admin.create(PODS, pod("a"))
    fed = Fed(world, repeats=lambda: True)
    await fed.feed.ready.wait()
    await asyncio.sleep(1)
    await world.admin.delete(f"{PODS}/a")
    world.client.drop_watches()  # while the news is on its way
    await world.admin.create(PODS, pod("b"))
    await asyncio.sleep(1)
    assert fed.pods() == ["b"]


@in_virtual_time
async def test_a_feed_that_is_too_far_behind_lists_and_says_nothing_of_what_vanished(world: World) -> None:
    await world.admin.create(PODS, pod("a"))
    fed = Fed(world)
    await fed.feed.ready.wait()
    await asyncio.sleep(1)
    world.faults = [Hang()] * 5
    world.client.drop_watches()
    await world.admin.delete(f"{PODS}/a")
    await world.admin.create(PODS, pod("b"))
    world.server.compact()
    await asyncio.sleep(60)
    assert fed.pods() == ["a", "b"]


@in_virtual_time
async def test_a_feed_that_is_refused_tries_until_it_works(world: World) -> None:
    fed = Fed(world)
    world.faults += [Refuse(status, "", "no") for status in (403, 404, 410, 429, 500)] * 3
    await world.admin.create(PODS, pod("a"))
    await fed.feed.ready.wait()
    assert fed.pods() == ["a"]


@in_virtual_time
async def test_a_watch_that_cannot_go_on_is_listed_again_and_no_other(world: World) -> None:
    world.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "bank"}})
    asked: list[tuple[str, str]] = []
    refused_path = leases_path("shop")
    refused = [refused_path]

    def trouble(verb: str, path: str) -> Fault | None:
        asked.append((verb, path))
        return Refuse(404, "NotFound", "no") if verb == "watch" and path in refused and refused.pop() else None

    world.client.trouble = trouble
    fed = Fed(world, namespaces=["shop", "bank"])
    await asyncio.sleep(10)
    listed = [path for verb, path in asked if verb == "list"]
    assert listed.count(core_path("shop", "pods")) == listed.count(core_path("bank", "pods")) == 1
    assert listed.count(refused_path) == 2
    await world.admin.create(PODS, pod("a"))
    await asyncio.sleep(1)
    assert fed.pods() == ["a"]


@in_virtual_time
async def test_a_watch_that_is_forbidden_holds_up_no_other(world: World) -> None:
    world.client.trouble = lambda verb, path: Refuse(403, "Forbidden", "no") if path.endswith("/leases") else None
    fed = Fed(world)
    await world.admin.create(PODS, pod("a"))
    await asyncio.sleep(60)
    assert fed.pods() == ["a"]
    assert not fed.feed.ready.is_set()


@in_virtual_time
async def test_a_feed_that_heard_a_bookmark_goes_on_from_there(world: World) -> None:
    fed = Fed(world)
    await fed.feed.ready.wait()
    await asyncio.sleep(1)
    await world.admin.create(CONFIG_MAPS, body("unlabelled"))
    world.server.bookmark()
    await asyncio.sleep(1)
    world.server.compact()
    asked: list[str] = []
    world.client.trouble = lambda verb, path: asked.append(verb)
    world.client.drop_watches()
    await world.admin.create(PODS, pod("a"))
    await asyncio.sleep(1)
    assert (set(asked), fed.pods()) == ({"watch"}, ["a"]), "no list was necessary"


@in_virtual_time
async def test_the_rest_of_a_list_is_gone_once_the_past_is_forgotten(world: World) -> None:
    for name in ("a", "b"):
        await world.admin.create(CONFIG_MAPS, body(name))
    first = await world.admin.get(CONFIG_MAPS, limit="1")
    world.server.compact()
    with pytest.raises(ApiError) as refused:
        await world.admin.get(CONFIG_MAPS, limit="1", **{"continue": first["metadata"]["continue"]})
    assert (refused.value.status, refused.value.reason) == (410, "Expired")
