"""A fleet that changes over to another assignor by two rolling restarts, as docs/guides/change-assignor.md says."""

import asyncio

from tests.integration.operator.world import World
from tests.waiting import eventually


async def roll(world: World, group: str, turn: int, announced: str) -> None:
    """One pod after the other is replaced by one that announces these."""
    for n in range(2):
        await world.pod(f"{group}-{turn}-{n}", group, annotations={"baton.dev/assignors": announced})
        await world.delete_pod(f"{group}-{turn - 1}-{n}")


async def test_a_fleet_changes_its_assignor_by_two_rolling_restarts(shop: World) -> None:
    for queue in ("change", "change-too"):
        await shop.queue(queue, {"type": "External", "external": {"onDeadline": "Force"}}, 5)
    await shop.group("change", ["change", "change-too"], assignors=["range"])
    announced = {"baton.dev/assignors": "range"}
    await asyncio.gather(*(shop.pod(f"change-0-{n}", "change", annotations=announced) for n in range(2)))
    for queue in ("change", "change-too"):
        await shop.spread("change", 2, 3, queue=queue)
    await shop.shows("change", assignor="range")
    await shop.change("consumergroups", "change", {"spec": {"assignors": ["solace", "range"]}})

    await shop.pod("change-1-0", "change", annotations={"baton.dev/assignors": "range,solace"})
    await shop.delete_pod("change-0-0")
    assert (await shop.status("change"))["assignor"] == "range", "an old pod is still there"
    await shop.pod("change-1-1", "change", annotations={"baton.dev/assignors": "range,solace"})
    await shop.delete_pod("change-0-1")
    await shop.shows("change", assignor="solace")

    async def even() -> bool:
        entries = await shop.entries("change")
        return {name: sum(map(len, entry.owned.values())) for name, entry in entries.items()} == {
            "change-2-0": 5,
            "change-2-1": 5,
        }

    await roll(shop, "change", 2, "solace")
    await eventually(even, "totals are even, as solace makes them", shown=lambda: shop.ledger_data("change"))
    await shop.change("consumergroups", "change", {"spec": {"assignors": ["solace"]}})
    await shop.shows("change", assignor="solace")
    await shop.told("change", "Ready")


async def test_a_pod_with_a_misspelt_assignor_is_named_and_still_served(shop: World) -> None:
    await shop.external("slip", partitions=4)
    await shop.group("slip", assignors=["range"])
    await shop.pod("slip-a", "slip", annotations={"baton.dev/assignors": "rnage"})
    message = await shop.told("slip", "BadAnnotation")
    assert (
        "slip-a: annotation baton.dev/assignors names 'rnage', and there is no such assignor, so that the pod counts" in message
    )
    await shop.spread("slip", 4)

    async def event() -> bool:
        return any("names 'rnage'" in one["note"] for one in await shop.events("BadAnnotation"))

    await eventually(event, "the pod has an event")
    await shop.delete_pod("slip-a")
    await shop.pod("slip-b", "slip", annotations={"baton.dev/capacity": "lots"})
    await shop.told("slip", "BadAnnotation", says="slip-b: annotation baton.dev/capacity is 'lots', and counts as 1")
    await shop.spread("slip", 4)
