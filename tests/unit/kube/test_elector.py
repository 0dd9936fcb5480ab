"""The elector over time: slow answers, requests that hang or are refused, and giving up the Lease."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from random import Random
from typing import Any

import pytest

from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector, ElectorThread, Terms
from baton.kube.leases import leases_path
from baton.kube.releases import PATIENCE as READABLE_FOR
from baton.kube.releases import OperatorReleases
from baton.simulation import virtual_time
from tests.simulation.api_server import ApiServer, Delay, Fault, Hang, MemoryApi, Refuse
from tests.waiting import PATIENCE

PATH = leases_path("baton", "operator")


class Candidate:
    """One elector in virtual time, whose requests meet `fault`."""

    def __init__(self, terms: Terms, latency: float, rival: "Candidate | None" = None) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.server: ApiServer = ApiServer(Random(1), loop.time) if rival is None else rival.server
        if rival is None:
            self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "baton"}})
        self.fault: Fault | None = None
        self.told: list[tuple[float, bool]] = []
        self.leads = asyncio.Event()
        api = MemoryApi(self.server, lambda verb, path: self.fault, latency=lambda: latency)
        clock = ApiServerClock(loop.time, loop.time)
        identity = "one" if rival is None else "two"
        self.elector = Elector(api, "baton", "operator", identity, terms, clock, self._changed)
        self.releases = OperatorReleases(api, clock)

    def _changed(self) -> None:
        self.told.append((self.now(), self.elector.leading))
        self.leads.set()


def lives(story: Callable[[Candidate], Awaitable[None]], terms: Terms | None = None, latency: float = 0.005) -> None:
    async def main() -> None:
        await story(Candidate(terms or Terms(duration=10, renew_deadline=6, retry=1), latency))

    virtual_time.run(main())


def test_a_renewal_counts_from_when_it_was_begun() -> None:
    """Others may see a renewal as soon as it was sent."""

    async def story(one: Candidate) -> None:
        begun = one.now()
        await one.elector.attempt()
        assert one.now() - begun >= 2, "a look and a write, half a second each way"
        assert one.elector.leading
        await asyncio.sleep(begun + 6 - one.now())
        assert not one.elector.leading

    lives(story, latency=0.5)


@pytest.mark.parametrize("rounds", range(8))
def test_who_is_to_end_does_also_in_the_moment_of_an_answer(rounds: int) -> None:
    """Python 3.11's `asyncio.wait_for` forgets that it was cancelled where what it waits for has just ended."""

    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(2)
        for _ in range(rounds):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running}, timeout=1)
        assert running.cancelled()

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


def test_the_lead_of_one_that_died_is_taken_as_soon_as_it_lapses() -> None:
    terms = Terms(duration=10, renew_deadline=8, retry=4)

    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(0.5)
        other = Candidate(terms, 0.005, one)
        following = asyncio.create_task(other.elector.run())
        await asyncio.sleep(8.5 - one.now())
        running.cancel()
        await other.leads.wait()
        assert other.now() < 19, "it saw the last renewal at 8.5, and would look the next time at 20.5"
        following.cancel()

    lives(story, terms)


def test_a_connection_that_died_without_a_word_does_not_cost_the_lead() -> None:
    """Requests on one connection are never answered; another connection works."""

    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(1.9)
        one.fault = Hang()
        await asyncio.sleep(0.3)
        one.fault = None
        await asyncio.sleep(20)
        assert [leads for _, leads in one.told] == [True]
        assert one.elector.outage_ended_at is not None, "a request was lost"
        running.cancel()

    lives(story, latency=0.1)


def test_a_slow_server_whose_answers_are_late_one_in_fifty_does_not_cost_the_lead() -> None:
    """Requests of 0.5 s, one in fifty of 5 s, with the default terms, for an hour."""
    chance = Random(31)

    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(3)
        for _ in range(7200):
            one.fault = Delay(there=4.5) if chance.randrange(50) == 0 else None
            await asyncio.sleep(0.5)
        assert [leads for _, leads in one.told] == [True]
        running.cancel()

    lives(story, Terms(), latency=0.25)


@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_a_leader_renews_with_one_request_and_looks_where_others_wrote(verb: str) -> None:
    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        begun = one.now()
        await one.elector.attempt()
        assert one.now() - begun == pytest.approx(1.0), "half a second each way"
        labels = {"team": "shop"} if verb == "patch" else None
        one.server.request(verb, PATH, body=labels and {"metadata": {"labels": labels}})
        await one.elector.attempt()
        assert one.elector.leading and one.now() - begun == pytest.approx(4.0), "a refusal, a look and a write"
        assert one.server.request("get", PATH)["metadata"].get("labels") == labels

    lives(story, latency=0.5)


def test_the_lease_of_another_is_not_given_up() -> None:
    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        one.server.request("patch", PATH, body={"spec": {"holderIdentity": "two"}})
        assert one.elector.leading, "it has not looked yet"
        await one.elector.resign()
        assert one.server.request("get", PATH)["spec"]["holderIdentity"] == "two"

    lives(story)


@pytest.mark.parametrize("there", [0.0, 2.4, 4.8])
@pytest.mark.parametrize("back", [0.0, 2.4, 4.8])
def test_a_slow_look_at_a_lease_does_not_let_two_lead(there: float, back: float) -> None:
    """The answer may show a renewal that was made long after the look was begun."""

    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        two = Candidate(terms, 0.005, one)
        running = [asyncio.create_task(candidate.elector.run()) for candidate in (one, two)]
        await asyncio.sleep(1.5)
        two.fault = Delay(there=there, back=max(0.0, min(back, 4.9 - there)))
        await asyncio.sleep(0.7)
        two.fault = None  # what is on its way stays slow
        await asyncio.sleep(there - 0.1)
        one.fault = Hang()
        await two.leads.wait()
        assert two.elector.leading and not one.elector.leading
        for task in running:
            task.cancel()

    terms = Terms(duration=8, renew_deadline=7, retry=1)
    lives(story, terms)


def test_another_release_counts_as_alive_from_when_its_renewal_may_have_been_made() -> None:
    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        one.fault = Delay(there=4.0)
        looking = asyncio.create_task(one.releases.serves("baton/operator", "shop"))
        await asyncio.sleep(3.5)
        one.fault = None
        await one.elector.attempt()
        renewed = one.now()
        assert await looking
        one.fault = Hang()
        await asyncio.sleep(renewed + READABLE_FOR * 10 - 0.1 - one.now())
        one.fault = None
        assert await one.releases.serves("baton/operator", "shop")

    lives(story)


def written(one: Candidate) -> int:
    """Number of requests for the Lease."""
    return int(one.server.request("get", PATH)["metadata"]["resourceVersion"])


def test_hundreds_that_ask_at_once_share_an_attempt_and_hold_up_no_renewal() -> None:
    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(0.5)
        begun, before = one.now(), written(one)
        asked = [asyncio.create_task(one.elector.confirm()) for _ in range(200)]
        await asyncio.sleep(0.03)  # in the midst of an attempt
        asked += [asyncio.create_task(one.elector.confirm()) for _ in range(200)]
        assert all(await asyncio.gather(*asked))
        assert one.now() - begun < 0.5 and written(one) - before <= 3
        await asyncio.sleep(10)
        assert one.elector.leading and one.elector.outage_ended_at is None
        running.cancel()

    lives(story, latency=0.01)


def test_who_asks_is_told_what_is_so_from_then_on() -> None:
    """An attempt under way may have read the Lease before."""

    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        under_way = asyncio.create_task(one.elector.attempt())
        await asyncio.sleep(1.5)  # the Lease was looked at
        one.server.request("patch", PATH, body={"spec": {"holderIdentity": "two"}})
        assert not await one.elector.confirm()
        await under_way

    lives(story, latency=0.5)


def test_a_confirmation_that_is_not_answered_does_not_hold_up_a_renewal() -> None:
    async def story(one: Candidate) -> None:
        running = asyncio.create_task(one.elector.run())
        await asyncio.sleep(0.5)
        one.fault = Hang()
        asking = asyncio.create_task(one.elector.confirm())
        await asyncio.sleep(0.1)
        one.fault = None
        begun = one.now()
        await asyncio.sleep(6.5)
        assert asking.done() and one.elector.leading, f"{one.now() - begun} s"
        running.cancel()

    lives(story)


def test_who_asks_waits_no_longer_than_a_renewal_may_take_though_another_look_is_under_way() -> None:
    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        one.fault = Delay(there=2.9)
        first = asyncio.create_task(one.elector.confirm())
        await asyncio.sleep(0.1)
        begun = one.now()
        await one.elector.confirm()
        assert one.now() - begun <= 6.1
        await first

    lives(story)


@pytest.mark.parametrize("taken", [True, False], ids=["renews", "takes"])
@pytest.mark.parametrize("moment", [0.25, 0.75, 1.25, 1.75, 2.25])
def test_who_resigned_holds_the_lease_no_more_whatever_was_under_way(moment: float, taken: bool) -> None:
    """A look and a write, half a second each way, of somebody who asks who leads; and others who wait for their turn."""

    async def story(one: Candidate) -> None:
        if taken:
            await one.elector.attempt()
        asking = [asyncio.create_task(one.elector.confirm()) for _ in range(2)]
        await asyncio.sleep(moment)
        asking.append(asyncio.create_task(one.elector.confirm()))
        resigning = asyncio.create_task(one.elector.resign())
        await asyncio.sleep(0)
        assert not one.elector.leading
        await resigning
        await asyncio.gather(*asking)
        assert not await one.elector.confirm()
        found = one.server.request("list", PATH.rpartition("/")[0])["items"]
        assert [lease["spec"]["holderIdentity"] for lease in found if lease["spec"]["holderIdentity"]] == []

    lives(story, latency=0.5)


def test_who_resigns_does_not_wait_for_ever_for_what_is_under_way() -> None:
    async def story(one: Candidate) -> None:
        await one.elector.attempt()
        one.fault = Hang()
        asking = asyncio.create_task(one.elector.confirm())
        await asyncio.sleep(0.1)
        begun = one.now()
        await one.elector.resign()
        assert one.now() - begun <= 6.1
        await asking

    lives(story)


async def test_the_lead_is_renewed_while_the_operators_own_event_loop_does_nothing() -> None:
    renewed = threading.Semaphore(0)

    class Renewing(MemoryApi):
        async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            renewed.release()
            return await super().replace(path, body)

    server = ApiServer(Random(1), time.time)
    server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "baton"}})
    api, thread = Renewing(server), ElectorThread()
    terms = Terms(duration=2, renew_deadline=1, retry=0.1)
    async with thread.within(nullcontext(api)) as there:
        elector = Elector(there, "baton", "operator", "one", terms, ApiServerClock(), lambda: None, there=thread.do)
        running = asyncio.create_task(elector.run())
        while not await elector.confirm():
            pass
        for _ in range(2 * round(terms.renew_deadline / terms.retry)):
            assert renewed.acquire(timeout=PATIENCE), "waited for on this event loop's thread"
        assert elector.leading
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await elector.resign()
    assert (server.request("get", PATH))["spec"]["holderIdentity"] == ""


async def test_an_event_loop_that_hangs_keeps_nobody_from_ending() -> None:
    server = ApiServer(Random(1), time.time)
    server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "baton"}})
    thread, goes_on = ElectorThread(left_within=0.1), threading.Event()
    terms = Terms(duration=2, renew_deadline=1, retry=0.1)
    try:
        async with asyncio.timeout(PATIENCE), thread.within(nullcontext(MemoryApi(server))) as there:
            elector = Elector(there, "baton", "operator", "one", terms, ApiServerClock(), lambda: None, there=thread.do)
            await elector.confirm()
            thread._loop.call_soon_threadsafe(goes_on.wait)
            await elector.resign()
            assert elector.deposed
    finally:
        goes_on.set()
