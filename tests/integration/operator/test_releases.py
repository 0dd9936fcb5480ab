"""Two releases of the operator that serve the same namespace."""

from collections.abc import Callable

from baton.kube.releases import RELEASE_ANNOTATION
from tests.integration.operator.world import Operator, World
from tests.waiting import eventually


async def test_the_second_of_two_releases_takes_over_when_the_first_is_gone(empty: World, start: Callable[..., Operator]) -> None:
    first = await start(empty, "one").leads()
    await empty.queue("orders", {"type": "External", "external": {"onDeadline": "Force"}}, 6, rebalance={"delaySeconds": 0})
    await empty.group("orders")
    await empty.pod("a", "orders")
    await empty.spread("orders", 6)
    second = await start(empty, "two", "--lease-name", "second").leads()
    names = [f"{empty.namespace}/operator", f"{empty.namespace}/second"]
    await second.measures("baton_groups_served_elsewhere", lambda value: value == 1, release=names[1], by=names[0])
    (event,) = await eventually(lambda: empty.events("ServedElsewhere"), "an event says so")
    assert all(name in event["note"] for name in names)
    await empty.pod("b", "orders")
    await empty.spread("orders", 3, 3)
    assert first.metric("baton_ledger_restored_total", group="orders") == 0.0
    assert await written_by(empty) == names[0]
    first.kill()
    await empty.delete_pod("b")
    await empty.spread("orders", 6)
    assert await written_by(empty) == names[1]


async def written_by(world: World) -> str:
    ledger = await world.api.get(world.ledger_path("orders"))
    return str(ledger["metadata"]["annotations"][RELEASE_ANNOTATION])
