"""Cold, at rest, and events: one after the other, on one operator and the same groups."""

import asyncio
import time
from collections.abc import Sequence
from statistics import quantiles

from tests.bench.scale import measured
from tests.bench.scale.checker import Epochs
from tests.bench.scale.fleet import Extent
from tests.bench.scale.least import clean
from tests.bench.scale.measured import Watched
from tests.bench.scale.place import Least, Place, Report, place, progress, tell, waits

CASES = ("cold", "rest", "events", "burst")
_BURST = 60.0
_REST = 60.0
_LEAST_EVENTS = 20.0
"""Seconds."""


async def run(report: Report, cases: Sequence[str]) -> None:
    """Those of `cases`; a cold start always comes first, told or not."""
    async with place(report, Extent(report.groups, heartbeat=report.heartbeat)) as here:
        tell("the fewest requests of a cold start")
        async with here.least("cold") as cold:
            pass
        events, latency = await _least_events(here) if {"events", "burst"} & {*cases} else (Least(), ())
        await clean(here.client)
        here.fleet.epochs, here.fleet.settled = Epochs(), set()
        before, served = await here.requests.now(), measured.of_cluster(here.cluster)
        tell("cold: the operator starts")
        async with here.operator() as operator:
            took = await here.converged(operator)
            asked = measured.since(before, await here.requests.now())
            tell(f"cold: the operator's requests: {measured.shown(asked)}")
            if "cold" in cases:
                report.case("cold: until all are Settled", took, "s", cold.seconds)
                report.case("cold: not Settled then", here.fleet.unsettled, "groups")
                report.case("cold: requests", asked.total() / report.groups, "a group", cold.count / report.groups)
                report.case("cold: processor time", operator.cpu, "s", cold.cpu)
                report.case("cold: memory", operator.most_memory, "MiB")
                report.case("cold: API server and etcd", measured.of_cluster(here.cluster) - served, "s of processor time")
                await here.health(operator, "cold")
                await here.judge("cold")
            if "rest" in cases:
                await _rest(here, operator)
            if "events" in cases:
                await _events(here, operator, 20, 60 * report.minutes, events, latency)
            if "burst" in cases:
                await _events(here, operator, 100, _BURST, events, latency)


async def _least_events(here: Place) -> tuple[Least, Sequence[float]]:
    """What it needs for an event, and seconds from Ready to ledger."""
    tell("the fewest requests of pod events")
    async with here.least("events") as least:
        here.fleet.joined.clear()
        count = await here.fleet.churn(20, _LEAST_EVENTS)
        await here.named()
    writes = {kind: number / count for kind, number in least.requests.items() if not kind.startswith("LIST")}
    return Least(least.seconds, least.cpu / count, writes), waits(here.fleet)


async def _rest(here: Place, operator: Watched) -> None:
    tell("rest: until the operator has caught up")
    for _ in range(24):
        used = operator.cpu
        await asyncio.sleep(5)
        if operator.cpu - used < 0.5:
            break
    tell(f"rest: {_REST:.0f} s")
    minute = 60 / _REST
    async with here.least("rest") as least:
        before, used, own = await here.requests.now(), operator.cpu, time.process_time()
        await asyncio.sleep(_REST)
        used, asked = operator.cpu - used, measured.since(before, await here.requests.now())
        tell(f"rest: the operator's requests: {measured.shown(asked)}; the pods: {time.process_time() - own:.1f} s")
    asks = ("GET", "LIST")
    writes = sum(count for (verb, resource, _), count in asked.items() if verb not in asks and resource != "leases")
    report = here.report
    report.case("rest: processor time", used * minute, "s/min", least.cpu * minute)
    report.case("rest: writes but Leases", writes * minute, "a minute")
    report.case("rest: requests", asked.total() * minute, "a minute", 2 * least.requests["PUT/leases"] * minute)
    report.case("rest: memory", operator.memory, "MiB")
    report.case("rest: heartbeats of pods", len(here.fleet.pods) / here.fleet.extent.heartbeat, "a second")
    await here.health(operator, "rest")


async def _events(here: Place, operator: Watched, rate: float, seconds: float, least: Least, latency: Sequence[float]) -> None:
    name, fleet, report = f"{rate:g} events/s", here.fleet, here.report
    tell(f"{name}: for {seconds:.0f} s")
    fleet.joined.clear()
    before, used, memory = await here.requests.now(), operator.cpu, operator.memory
    count = await progress(
        fleet.churn(rate, seconds),
        lambda: f"{len(fleet.joined):,} came, {fleet.unnamed} wait for their ledger; {operator.cpu - used:.0f} s",
    )
    right = await progress(here.right(), lambda: f"{fleet.unnamed} wait for their ledger")
    asked = measured.since(before, await here.requests.now())
    tell(f"{name}: the operator's requests: {measured.shown(asked)}")
    ours, theirs = quantiles(waits(fleet), n=100), quantiles(latency, n=100)
    for cut in (50, 99):
        report.case(f"{name}: Ready to ledger, p{cut}", ours[cut - 1], "s", theirs[cut - 1])
    report.case(f"{name}: pods that no ledger names", fleet.unnamed, "pods")
    report.case(f"{name}: processor time", 1000 * (operator.cpu - used) / count, "ms an event", 1000 * least.cpu)
    report.case(f"{name}: requests", asked.total() / count, "an event", least.count)
    report.case(f"{name}: all right after the last event", right, "s")
    report.case(f"{name}: memory at the end, beside that at the start", operator.memory, "MiB", memory)
    await here.health(operator, name)
    await here.judge(name)
