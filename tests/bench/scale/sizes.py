"""One group that is very large, and groups that share one Redis."""

import asyncio
import time
import urllib.request
from contextlib import suppress

from baton.model.names import ledger_name
from tests.bench.scale.client import LEDGERS, within
from tests.bench.scale.fleet import Extent
from tests.bench.scale.place import Place, Report, place, progress, tell
from tests.redis_server import RedisServer

_PODS, _PARTITIONS, _JOIN = 1000, 10_000, 100


async def large(report: Report) -> None:
    """A tenth more pods join a group of 1,000 with 10,000 partitions, all at once."""
    scale = report.groups / 1000
    pods, partitions, joining = (max(10, round(number * scale)) for number in (_PODS, _PARTITIONS, _JOIN))
    async with place(report, Extent(1, pods, partitions, 1, report.heartbeat)) as here, here.operator() as operator:
        await here.converged(operator)
        await here.right()
        key = here.fleet.groups[0]
        ready = [await here.fleet.start(key) for _ in range(joining)]
        tell(f"large: {joining} of {pods + joining} pods become Ready")
        await asyncio.gather(*map(here.fleet.ready, ready))
        right = await progress(here.right(), lambda: f"{here.fleet.unnamed} wait for their ledger")
        report.case("large: right after the last pod", right, "s", await _least(here, partitions * joining // (pods + joining)))
        report.case("large: memory", operator.most_memory, "MiB")
        await here.health(operator, "large")
        await here.judge("large")


async def _least(here: Place, moves: int) -> float:
    """Seconds for a ledger with moves, a release of each, and the ledger with the grants."""
    namespace, group = here.fleet.groups[0]
    found = await here.client.ask("GET", within(LEDGERS, namespace, ledger_name(group)))
    ledger = {"metadata": {"name": "least"}, "data": found["data"]}
    begun = time.monotonic()
    await here.client.ask("POST", within(LEDGERS, namespace), ledger)
    await here.fleet.renew(here.fleet.of((namespace, group))[:moves])
    await here.client.ask("PUT", within(LEDGERS, namespace, "least"), ledger)
    return time.monotonic() - begun


async def redis(report: Report) -> None:
    """Groups of two pods, and their queues on one Redis."""
    with RedisServer() as server:
        source = {"type": "Redis", "redis": {"url": server.url}}
        async with (
            place(report, Extent(report.groups, pods=2, heartbeat=report.heartbeat), source) as here,
            here.operator() as operator,
        ):
            client, most = server.client(), 0

            async def connections() -> None:
                nonlocal most
                while True:
                    most = max(most, len(await asyncio.to_thread(client.client_list)) - 1)
                    await asyncio.sleep(0.5)

            sampled = asyncio.create_task(connections())
            took = await here.converged(operator)
            sampled.cancel()
            with suppress(asyncio.CancelledError):
                await sampled
            client.close()
            report.case("redis: until all are Settled", took, "s")
            report.case("redis: not Settled then", here.fleet.unsettled, "groups")
            report.case("redis: most connections", most, "connections")
            report.case("redis: processor time", operator.cpu, "s")
            report.case("redis: memory", operator.most_memory, "MiB")
            await here.health(operator, "redis")
            seconds, size = await asyncio.to_thread(_scraped, operator.operator.port)
            report.case("redis: time of a scrape", seconds, "s")
            report.case("redis: size of /metrics", size / 2**20, "MiB")
            await here.judge("redis")


def _scraped(port: int | None) -> tuple[float, int]:
    begun = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        size = len(answer.read())
    return time.monotonic() - begun, size
