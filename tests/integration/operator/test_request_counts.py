"""How many requests 40 groups cost the operator: counts, which a busy machine changes little. The limits may only shrink."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from tests.bench.scale import measured
from tests.bench.scale.client import Kind
from tests.bench.scale.fleet import Extent
from tests.bench.scale.place import Place, Report, place
from tests.integration.operator.world import KEEPS
from tests.waiting import eventually

GROUPS, PODS, PARTITIONS, CHANGED = 40, 4, 8, 20

LIMITS = {
    "cold": {"requests": 13.0, "writes": 12.7, "ledgers": 2.6, "statuses": 3.2},
    "gone": {"requests": 8.5, "writes": 8.5, "ledgers": 2.3, "statuses": 2.6},
    "come": {"requests": 11.0, "writes": 11.0, "ledgers": 3.2, "statuses": 3.2},
}
"""For a group, from the operator's start until all are Settled and nothing more is written; for a pod that goes; for one that
comes. A fifth or more above what was counted: of 10.2 for a group four are annotations of its pods, and one is an event."""


async def test_a_group_and_a_pod_event_cost_no_more_requests_than_they_did() -> None:
    async with place(Report(GROUPS, 0, 1200), Extent(GROUPS, PODS, PARTITIONS, heartbeat=1200)) as here:
        begun = await here.requests.now()
        async with here.operator(options=KEEPS):
            cold = await _quiet(here, begun)
            keys = here.fleet.groups[:CHANGED]
            before = await here.requests.now()
            for key in keys:
                await here.fleet.leave(here.fleet.of(key)[0])
            gone = await _quiet(here, before)
            before = await here.requests.now()
            await asyncio.gather(*map(here.fleet.join, keys))
            come = await _quiet(here, before)
    assert here.fleet.epochs.broken == []
    found = {"cold": _by(cold, GROUPS), "gone": _by(gone, CHANGED), "come": _by(come, CHANGED)}
    above = [(what, name) for what, counts in found.items() for name in counts if counts[name] > LIMITS[what][name]]
    asked = {what: measured.shown(counts) for what, counts in {"cold": cold, "gone": gone, "come": come}.items()}
    assert above == [], "\n".join(f"{what}: {found[what]}: {asked[what]}" for what in found)


async def _quiet(here: Place, before: Counter[Kind]) -> Counter[Kind]:
    """What the operator has asked since then, when every group is right and nothing more is written."""
    last: Counter[Kind] = Counter()

    async def so() -> bool:
        nonlocal last
        await asyncio.sleep(1)  # between two looks
        earlier, last = last, measured.since(before, await here.requests.now())
        return _writes(earlier) == _writes(last) and not here.fleet.unsettled and not await here.fleet.wrong()

    await eventually(so, "every group is right, and nothing more is written", 180, here.fleet.wrong)
    return last


def _writes(requests: Mapping[Kind, int]) -> int:
    return sum(count for (verb, resource, _), count in requests.items() if verb not in ("GET", "LIST") and resource != "leases")


def _by(requests: Counter[Kind], number: int) -> dict[str, float]:
    """For one of so many; without the lead's Lease and its renewals, which depend on the time."""
    ledgers = sum(count for (verb, resource, _), count in requests.items() if resource == "configmaps" and verb != "LIST")
    statuses = sum(count for (_, _, part), count in requests.items() if part == "status")
    leases = requests["GET", "leases", ""] + requests["PUT", "leases", ""] + requests["POST", "leases", ""]
    found = {"requests": requests.total() - leases, "writes": _writes(requests), "ledgers": ledgers, "statuses": statuses}
    return {name: round(count / number, 2) for name, count in found.items()}
