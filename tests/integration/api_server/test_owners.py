"""What becomes of an object whose owner goes.

The collector of the real server hears of new kinds every half minute, so here it may have to be waited for.
"""

from typing import Any

from tests.integration.api_server.objects import FINALIZER, body, owned_by, path
from tests.integration.api_server.servers import Server
from tests.simulation.api_server.kinds import CONFIG_MAPS, GROUPS, Kind
from tests.waiting import eventually

Json = dict[str, Any]


async def made(server: Server, kind: Kind, namespace: str, name: str = "a", **content: Any) -> Json:
    return await server.api.create(path(kind, namespace), body(kind, name, **content))


def held(**more: Any) -> Json:
    return {"name": "a", "finalizers": [FINALIZER], **more}


async def test_what_is_owned_goes_after_its_owner(server: Server, namespace: str) -> None:
    owner = await made(server, GROUPS, namespace)
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(owner)]})
    await server.delete(path(GROUPS, namespace, "a"))
    await server.gone(path(CONFIG_MAPS, namespace, "a"))


async def test_what_has_another_owner_stays_with_that_one(server: Server, namespace: str) -> None:
    one, two = [await made(server, GROUPS, namespace, name) for name in ("one", "two")]
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(one), owned_by(two)]})
    await server.delete(path(GROUPS, namespace, "one"))

    async def owners() -> list[str]:
        found = await server.api.get(path(CONFIG_MAPS, namespace, "a"))
        return [owner["name"] for owner in found["metadata"]["ownerReferences"]]

    async def left() -> bool:
        return await owners() == ["two"]

    await eventually(left, "the reference to the owner that is gone is taken away", shown=owners)


async def test_what_names_an_owner_that_is_gone_goes(server: Server, namespace: str) -> None:
    """A namesake is another owner."""
    owner = await made(server, GROUPS, namespace)
    await server.delete(path(GROUPS, namespace, "a"))
    await made(server, GROUPS, namespace)
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(owner)]})
    await server.gone(path(CONFIG_MAPS, namespace, "a"))


async def test_an_owner_with_a_finalizer_keeps_what_it_owns(server: Server, namespace: str) -> None:
    owner = await made(server, GROUPS, namespace, metadata=held())
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(owner)]})
    await server.delete(path(GROUPS, namespace, "a"))
    await made(server, CONFIG_MAPS, namespace, "b", metadata={"name": "b", "ownerReferences": [owned_by(owner, uid="gone")]})
    await server.gone(path(CONFIG_MAPS, namespace, "b"))  # so the collector has been here
    assert await server.api.find(path(CONFIG_MAPS, namespace, "a")) is not None
