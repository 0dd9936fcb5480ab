"""Which candidate leads, over time: slow answers, requests that hang or are refused, and giving up the Lease."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from math import inf, nan
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from baton.cli.operator import operator
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector, ElectorThread, Terms, still_leads
from baton.kube.leases import leases_path
from baton.kube.releases import PATIENCE as READABLE_FOR
from baton.kube.releases import OperatorReleases
from baton.simulation import virtual_time
from tests.simulation.api_server import ApiServer, Delay, Fault, Hang, MemoryApi, Refuse
from tests.unit.kube.virtual_tests import told_by
from tests.waiting import PATIENCE

PATH = leases_path("baton", "operator")
TERMS = Terms(duration=10, renew_deadline=6, retry=1)
SHORT = Terms(duration=2, renew_deadline=1, retry=0.1)


class Candidate:
    """One elector in virtual time, whose requests meet `fault`."""

    def __init__(self, terms: Terms, latency: float = 0.005, server: ApiServer | None = None, identity: str = "one") -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.terms = terms
        self.server = server or api_server(loop.time)
        self.fault: Fault | None = None
        self.told: list[tuple[float, bool]] = []
        self.leads = asyncio.Event()
        api = MemoryApi(self.server, lambda verb, path: self.fault, latency=lambda: latency)
        clock = ApiServerClock(loop.time, loop.time)
        self.elector = Elector(api, "baton", "operator", identity, terms, clock, self._changed)
        self.releases = OperatorReleases(api, clock)

    def beside(self, identity: str = "two") -> "Candidate":
        """Another candidate for the same Lease."""
        return Candidate(self.terms, server=self.server, identity=identity)

    @property
    def holder(self) -> object:
        return self.server.request("get", PATH)["spec"]["holderIdentity"]

    def _changed(self) -> None:
        self.told.append((self.now(), self.elector.leading))
        self.leads.set()


def api_server(now: Callable[[], float]) -> ApiServer:
    server = ApiServer(Random(1), now)
    server.request("create", "/api/v1/namespaces", body={"metadata": {"name": "baton"}})
    return server


def lives(terms: Terms = TERMS, latency: float = 0.005) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """A candidate's life, on a loop whose time is virtual."""

    def play(story: Callable[[Candidate], Awaitable[None]]) -> None:
        async def main() -> None:
            await story(Candidate(terms, latency))

        virtual_time.run(main())

    return told_by(play)


@pytest.mark.parametrize(("renewed", "now", "leads"), [(None, 0, False), (0, 5.9, True), (0, 6, False)])
def test_a_leader_stops_before_others_may_start(renewed: float | None, now: float, leads: bool) -> None:
    assert still_leads(renewed, now, TERMS) is leads


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ((5, 5, 1), "they are 5, 5 and 1 s"),
        ((5, 6, 1), "they are 5, 6 and 1 s"),
        ((5, 3, 3), "they are 5, 3 and 3 s"),
        ((5, nan, 1), "they are 5, nan and 1 s"),
        ((5, 3, 0), r"retry period must be 0\.1 s or more: it is 0"),
        ((5, 3, nan), r"retry period must be 0\.1 s or more: it is nan"),
        ((2.4, 1.5, 0.3), r"must be whole seconds from 1 to 300, .* it is 2\.4"),
        ((301, 3, 1), "it is 301"),
        ((inf, 3, 1), "it is inf"),
        ((nan, 3, 1), "it is nan"),
        ((-inf, 3, 1), "it is -inf"),
    ],
)
def test_terms_that_allow_two_leaders_or_do_not_fit_a_lease_are_refused(terms: tuple[float, float, float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Terms(*terms)


def test_the_command_names_the_refused_duration() -> None:
    said = CliRunner().invoke(operator, ["--lease-duration", "2.4", "--renew-deadline", "1.5", "--retry-period", "0.3"])
    assert said.exit_code == 2
    assert "the lease duration must be whole seconds" in said.output
    assert "Traceback" not in said.output


@lives()
async def test_a_second_candidate_waits_until_the_lease_is_given_up(one: Candidate) -> None:
    two = one.beside()
    await one.elector.attempt()
    await two.elector.attempt()
    assert (one.elector.leading, two.elector.leading, one.holder) == (True, False, "one")
    await one.elector.resign()
    await two.elector.attempt()
    assert (one.elector.leading, two.elector.leading) == (False, True)
    assert (one.elector.term, two.elector.term) == (0, 1)


@lives()
async def test_a_container_restarted_in_its_pod_takes_its_lease_back_at_once(one: Candidate) -> None:
    await one.elector.attempt()
    successor = one.beside("one")
    await successor.elector.attempt()
    assert successor.elector.leading


@lives(latency=0.5)
async def test_a_renewal_counts_from_its_start(one: Candidate) -> None:
    """Others may see a renewal as soon as it was sent."""
    begun = one.now()
    await one.elector.attempt()
    assert one.now() - begun >= 2, "a look and a write, half a second each way"
    assert one.elector.leading
    await asyncio.sleep(begun + 6 - one.now())
    assert not one.elector.leading


@pytest.mark.parametrize("rounds", range(8))
@lives(latency=0.5)
async def test_an_elector_can_be_cancelled_at_the_moment_of_an_answer(one: Candidate, rounds: int) -> None:
    """Python 3.11's `asyncio.wait_for` forgets that it was cancelled where what it waits for has just ended."""
    running = asyncio.create_task(one.elector.run())
    await asyncio.sleep(2)
    for _ in range(rounds):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running}, timeout=1)
    assert running.cancelled()


@pytest.mark.parametrize("fault", [Hang(), Refuse(403, "Forbidden", "no"), Refuse(503, "ServiceUnavailable", "away")], ids=str)
@pytest.mark.parametrize("retry", [1.0, 5.0])
def test_a_leader_that_cannot_renew_stops_before_others_may_lead(fault: Fault, retry: float) -> None:
    virtual_time.run(cannot_renew(fault, retry))


async def cannot_renew(fault: Fault, retry: float) -> None:
    one = Candidate(Terms(duration=15, renew_deadline=6, retry=retry))
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


@lives(Terms(duration=10, renew_deadline=8, retry=4))
async def test_the_lead_of_a_killed_replica_is_taken_as_soon_as_it_lapses(one: Candidate) -> None:
    running = asyncio.create_task(one.elector.run())
    await asyncio.sleep(0.5)
    other = one.beside()
    following = asyncio.create_task(other.elector.run())
    await asyncio.sleep(8.5 - one.now())
    running.cancel()
    await other.leads.wait()
    assert other.now() < 19, "it saw the last renewal at 8.5, and would look the next time at 20.5"
    following.cancel()


@lives(latency=0.1)
async def test_a_dead_connection_does_not_cost_the_lead(one: Candidate) -> None:
    """Requests on one connection are never answered; another connection works."""
    running = asyncio.create_task(one.elector.run())
    await asyncio.sleep(1.9)
    one.fault = Hang()
    await asyncio.sleep(0.3)
    one.fault = None
    await asyncio.sleep(20)
    assert [leads for _, leads in one.told] == [True]
    assert one.elector.outage_ended_at is not None, "a request was lost"
    running.cancel()


@lives(Terms(), latency=0.25)
async def test_one_late_answer_in_fifty_does_not_cost_the_lead(one: Candidate) -> None:
    """Requests of 0.5 s, one in fifty of 5 s, with the default terms, for an hour."""
    chance = Random(31)
    running = asyncio.create_task(one.elector.run())
    await asyncio.sleep(3)
    for _ in range(7200):
        one.fault = Delay(there=4.5) if chance.randrange(50) == 0 else None
        await asyncio.sleep(0.5)
    assert [leads for _, leads in one.told] == [True]
    running.cancel()


@pytest.mark.parametrize("verb", ["patch", "delete"])
@lives(latency=0.5)
async def test_a_leader_renews_with_one_request_and_looks_after_other_writes(one: Candidate, verb: str) -> None:
    await one.elector.attempt()
    begun = one.now()
    await one.elector.attempt()
    assert one.now() - begun == pytest.approx(1.0), "half a second each way"
    labels = {"team": "shop"} if verb == "patch" else None
    one.server.request(verb, PATH, body=labels and {"metadata": {"labels": labels}})
    await one.elector.attempt()
    assert one.elector.leading and one.now() - begun == pytest.approx(4.0), "a refusal, a look and a write"
    assert one.server.request("get", PATH)["metadata"].get("labels") == labels


@lives()
async def test_another_replicas_lease_is_not_given_up(one: Candidate) -> None:
    await one.elector.attempt()
    one.server.request("patch", PATH, body={"spec": {"holderIdentity": "two"}})
    assert one.elector.leading, "it has not looked yet"
    await one.elector.resign()
    assert one.holder == "two"


@pytest.mark.parametrize("there", [0.0, 2.4, 4.8])
@pytest.mark.parametrize("back", [0.0, 2.4, 4.8])
@lives(Terms(duration=8, renew_deadline=7, retry=1))
async def test_a_slow_look_at_a_lease_does_not_let_two_lead(one: Candidate, there: float, back: float) -> None:
    """The answer may show a renewal that was made long after the look was begun."""
    await one.elector.attempt()
    two = one.beside()
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


@lives()
async def test_another_release_counts_as_alive_from_its_latest_possible_renewal(one: Candidate) -> None:
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


def written(one: Candidate) -> int:
    """Number of requests for the Lease."""
    return int(one.server.request("get", PATH)["metadata"]["resourceVersion"])


@lives(latency=0.01)
async def test_hundreds_of_confirmations_share_an_attempt_and_delay_no_renewal(one: Candidate) -> None:
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


@lives(latency=0.5)
async def test_a_confirmation_is_about_the_time_after_it_was_requested(one: Candidate) -> None:
    """An attempt under way may have read the Lease before."""
    await one.elector.attempt()
    under_way = asyncio.create_task(one.elector.attempt())
    await asyncio.sleep(1.5)  # the Lease was looked at
    one.server.request("patch", PATH, body={"spec": {"holderIdentity": "two"}})
    assert not await one.elector.confirm()
    await under_way


@lives()
async def test_an_unanswered_confirmation_does_not_delay_a_renewal(one: Candidate) -> None:
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


@lives()
async def test_a_confirmation_waits_no_longer_than_a_renewal_though_another_is_under_way(one: Candidate) -> None:
    await one.elector.attempt()
    one.fault = Delay(there=2.9)
    first = asyncio.create_task(one.elector.confirm())
    await asyncio.sleep(0.1)
    begun = one.now()
    await one.elector.confirm()
    assert one.now() - begun <= 6.1
    await first


@pytest.mark.parametrize("taken", [True, False], ids=["renews", "takes"])
@pytest.mark.parametrize("moment", [0.25, 0.75, 1.25, 1.75, 2.25])
@lives(latency=0.5)
async def test_a_replica_that_resigned_does_not_hold_the_lease_whatever_was_under_way(
    one: Candidate, moment: float, taken: bool
) -> None:
    """One confirmation reads and writes, half a second each way; others wait for their turn."""
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


@lives()
async def test_resigning_waits_only_a_while_for_requests_under_way(one: Candidate) -> None:
    await one.elector.attempt()
    one.fault = Hang()
    asking = asyncio.create_task(one.elector.confirm())
    await asyncio.sleep(0.1)
    begun = one.now()
    await one.elector.resign()
    assert one.now() - begun <= 6.1
    await asking


async def test_the_lead_is_renewed_while_the_operators_event_loop_is_blocked() -> None:
    renewed = threading.Semaphore(0)

    class Renewing(MemoryApi):
        async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            renewed.release()
            return await super().replace(path, body)

    server = api_server(time.time)
    api, thread = Renewing(server), ElectorThread()
    async with thread.within(nullcontext(api)) as there:
        elector = Elector(there, "baton", "operator", "one", SHORT, ApiServerClock(), lambda: None, there=thread.do)
        running = asyncio.create_task(elector.run())
        while not await elector.confirm():
            pass
        for _ in range(2 * round(SHORT.renew_deadline / SHORT.retry)):
            assert renewed.acquire(timeout=PATIENCE), "waited for on this event loop's thread"
        assert elector.leading
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await elector.resign()
    assert (server.request("get", PATH))["spec"]["holderIdentity"] == ""


async def test_a_blocked_event_loop_does_not_keep_the_process_from_ending() -> None:
    server = api_server(time.time)
    thread, goes_on = ElectorThread(left_within=0.1), threading.Event()
    try:
        async with asyncio.timeout(PATIENCE), thread.within(nullcontext(MemoryApi(server))) as there:
            elector = Elector(there, "baton", "operator", "one", SHORT, ApiServerClock(), lambda: None, there=thread.do)
            await elector.confirm()
            thread._loop.call_soon_threadsafe(goes_on.wait)
            await elector.resign()
            assert elector.deposed
    finally:
        goes_on.set()
