"""What the operator does where its API server is slow or away, and where its leader is killed."""

import asyncio
import time
from contextlib import AsyncExitStack
from statistics import quantiles

from tests.bench.scale.checker import Epochs
from tests.bench.scale.client import LEASES, within
from tests.bench.scale.fleet import Extent
from tests.bench.scale.least import clean
from tests.bench.scale.place import Report, place, progress, tell, waits
from tests.bench.scale.slow_server import slow_server

_SLOW, _SLOWEST, _ONE_IN = 0.5, 5.0, 50
_AWAY = 60.0
_LOOK = 20.0
"""Seconds after which all is to be right."""


async def slow(report: Report) -> None:
    """Each request takes 0.5 s, and one in fifty 5 s: a cold start, and a pod event each second."""
    async with (
        place(report, Extent(report.groups, heartbeat=report.heartbeat)) as here,
        slow_server(here.cluster, _SLOW, _SLOWEST, _ONE_IN) as kubeconfig,
    ):
        tell("slow: the fewest requests")
        async with here.least("cold", kubeconfig) as cold:
            pass
        async with here.least("events", kubeconfig):
            here.fleet.joined.clear()
            await here.fleet.churn(2, _LOOK)
            await here.named()
        least = quantiles(waits(here.fleet), n=100)
        await clean(here.client)
        here.fleet.epochs, here.fleet.settled = Epochs(), set()
        async with here.operator(kubeconfig=kubeconfig) as operator:
            tell("slow: the operator starts")
            report.case("slow: until all are Settled", await here.converged(operator), "s", cold.seconds)
            report.case("slow: not Settled then", here.fleet.unsettled, "groups")
            here.fleet.joined.clear()
            await progress(here.fleet.churn(2, 60), lambda: f"{here.fleet.unnamed} wait for their ledger")
            report.case("slow: all right after the last event", await here.right(), "s")
            ours = quantiles(waits(here.fleet), n=100)
            for cut in (50, 99):
                report.case(f"slow: Ready to ledger, p{cut}", ours[cut - 1], "s", least[cut - 1])
            await here.health(operator, "slow")
            await here.judge("slow")


async def killed(report: Report) -> None:
    """`kill -9` of the leader beside another replica, and a pod that comes to each tenth group just then."""
    async with (
        place(report, Extent(max(2, report.groups // 5), heartbeat=report.heartbeat)) as here,
        here.operator("one") as one,
    ):
        await here.converged(one)
        async with here.operator("two") as two:
            await two.operator.running()
            spec = (await here.client.ask("GET", within(LEASES, "default", "operator")))["spec"]
            leader, other = (one, two) if spec["holderIdentity"] == "one" else (two, one)
            tell(f"killed: {spec['holderIdentity']} leads, and is killed")
            await leader.kill()
            at, here.fleet.joined = time.monotonic(), []
            await asyncio.gather(*map(here.fleet.join, here.fleet.groups[::10]))
            await progress(here.named(120), lambda: f"{here.fleet.unnamed} wait for their ledger")
            named = [pod.named_at - at for pod in here.fleet.joined if pod.named_at is not None]
            duration = spec["leaseDurationSeconds"]
            report.case("killed: until the first group is served", min(named, default=-1), "s", duration)
            report.case("killed: until all are served", -1 if here.fleet.unnamed else max(named), "s", duration)
            report.case("killed: all right after that", await here.right(), "s")
            await here.health(other, "killed")
            await here.judge("killed")


async def away(report: Report) -> None:
    """Pod events go on while the API server is away, and etcd forgets what there was; they are heard of when it answers."""
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(place(report, Extent(report.groups, heartbeat=report.heartbeat)))
        operator = await stack.enter_async_context(here.operator())
        await here.converged(operator)
        churn = asyncio.create_task(here.fleet.churn(min(20, report.groups / 50), 20 + _AWAY))
        await asyncio.sleep(20)
        tell(f"away: the API server is stopped for {_AWAY:.0f} s")
        here.cluster.stop_process("kube-apiserver")
        await asyncio.sleep(_AWAY)
        here.cluster.compact()
        await asyncio.to_thread(here.cluster.start_process, "kube-apiserver")
        answered = time.monotonic()
        tell("away: it answers")
        count = await progress(asyncio.wait_for(churn, None), lambda: f"{here.fleet.unnamed} wait for their ledger")
        events = time.monotonic() - answered
        await asyncio.sleep(max(0.0, _LOOK - events))
        report.case("away: pod events", count, "events")
        report.case("away: until the pods have told what happened", events, "s")
        report.case(f"away: groups that are wrong {_LOOK:.0f} s after it answers", len(await here.fleet.wrong()), "groups")
        took = time.monotonic() - answered
        right = await here.right()
        report.case("away: all right after it answers", right if right < 0 else took + right, "s")
        await here.health(operator, "away")
        await here.judge("away")
