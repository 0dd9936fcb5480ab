"""The elector over time: slow answers, requests that hang or are refused, and whose Lease it gives up."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from tests.simulation.api_server import ApiServer, Fault, Hang, MemoryApi, Refuse

from baton.kube.clock import Clock
from baton.kube.election import Terms
from baton.kube.elector import Elector
from baton.kube.leases import leases_path
from baton.simulation import virtual_time

PATH = leases_path("baton", "operator")


class Candidate:
    """One elector in virtual time. `fault` is what its requests meet."""

    def __init__(self, terms: Terms, latency: float) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.server = ApiServer(Random(1), loop.time)
        self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "baton"}})
        self.fault: Fault | None = None
        self.told: list[tuple[float, bool]] = []
        api = MemoryApi(self.server, lambda verb, path: self.fault, latency=lambda: latency)
        clock = Clock(loop.time, loop.time)
        self.elector = Elector(api, "baton", "operator", "one", terms, clock, self._changed)

    def _changed(self) -> None:
        self.told.append((self.now(), self.elector.leading))


def lives(story: Callable[[Candidate], Awaitable[None]], terms: Terms | None = None, latency: float = 0.005) -> None:
    async def main() -> None:
        await story(Candidate(terms or Terms(duration=10, renew_deadline=6, retry=1), latency))

    virtual_time.run(main())


def test_a_renewal_counts_from_when_it_was_begun() -> None:
    """Whoever sees it may see it as soon as it was sent."""

    async def story(one: Candidate) -> None:
        begun = one.now()
        await one.elector.attempt()
        assert one.now() - begun >= 2, "a look and a write, half a second each way"
        assert one.elector.leading
        await asyncio.sleep(begun + 6 - one.now())
        assert not one.elector.leading

    lives(story, latency=0.5)


@pytest.mark.parametrize("fault", [Hang(), Refuse(403, "Forbidden", "no"), Refuse(503, "ServiceUnavailable", "away")], ids=str)
@pytest.mark.parametrize("retry", [1.0, 5.0])
def test_who_cannot_renew_is_told_so_before_others_may_lead(fault: Fault, retry: float) -> None:
    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(0.5)
        ((since, leads),) = one.told
        assert leads
        one.fault = fault
        await asyncio.sleep(20)
        assert not running.done(), "it tries again"
        (when, leads) = one.told[-1]
        longest = 6 + (retry if type(fault) is Hang else 0)
        assert not leads and when <= since + longest
        assert len(one.told) == 2
        one.fault = None
        await asyncio.sleep(20)
        assert one.told[-1][1] and one.elector.outage_ended_at is not None
        running.cancel()

    lives(story, Terms(duration=15, renew_deadline=6, retry=retry))


def test_the_lease_of_another_is_not_given_up() -> None:
    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        one.server.request("patch", PATH, body={"spec": {"holderIdentity": "two"}})
        assert one.elector.leading, "it has not looked yet"
        await one.elector.resign()
        assert one.server.request("get", PATH)["spec"]["holderIdentity"] == "two"

    lives(story)
