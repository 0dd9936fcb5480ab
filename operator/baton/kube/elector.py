"""Leader election over a Lease: `baton.model.lease` decides who may take it, and this asks and writes."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import structlog

from baton.kube.api import Api, Json
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.leases import LEASES, leases_path
from baton.model.lease import Vacancy, held, holder_of, spec_of

T = TypeVar("T")

LONGEST_DURATION = 300
"""Seconds. Nothing is moved for so long after a leader has died."""

SHORTEST_RETRY = 0.1
"""Seconds. Every replica asks the API server so often."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds. A leader that could not renew for `renew_deadline` stops before others may start."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not (1 <= self.duration <= LONGEST_DURATION and self.duration == int(self.duration)):
            raise ValueError(
                f"leader election: the lease duration must be whole seconds from 1 to {LONGEST_DURATION}, for the Lease tells it "
                f"to others as such: it is {self.duration:g}"
            )
        if not self.retry >= SHORTEST_RETRY:
            raise ValueError(f"leader election: the retry period must be {SHORTEST_RETRY:g} s or more: it is {self.retry:g}")
        if not self.duration > self.renew_deadline > self.retry:
            raise ValueError(
                "leader election: the lease duration must be above the renew deadline, and that above the retry period: they are "
                f"{self.duration:g}, {self.renew_deadline:g} and {self.retry:g} s"
            )


def still_leads(renewed_at: float | None, now: float, terms: Terms) -> bool:
    """A leader trusts its Lease only for the renew deadline."""
    return renewed_at is not None and now < renewed_at + terms.renew_deadline


class Do(Protocol):
    """Does `work` somewhere, and returns what it returns."""

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


NAMESPACES_ANNOTATION = "baton.dev/namespaces"
"""On the leader's Lease: the namespaces that it serves, for other releases of the operator; empty: all."""

ADDRESS_ANNOTATION = "baton.dev/address"
"""On the leader's Lease: where its pages are."""

WRONG = 5.0
"""Seconds by which a clock that is set moves no more than clocks that are kept."""

LEFT_WITHIN = 5.0
"""Seconds that leaving what was entered on the elector's thread may take."""

log = structlog.get_logger("baton.elector")


class ElectorThread:
    """An event loop on a separate thread: however busy that of the operator is, the lead is renewed."""

    def __init__(self, left_within: float = LEFT_WITHIN) -> None:
        self._left_within = left_within
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="elector", daemon=True).start()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work`, which is done there, returns."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    @asynccontextmanager
    async def within(self, made: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter and leave this there; then its event loop stops."""
        try:
            entered = await self.do(made.__aenter__())
            try:
                yield entered
            finally:
                with suppress(TimeoutError):  # where its event loop hangs, the process is to end all the same
                    async with asyncio.timeout(self._left_within):
                        await self.do(made.__aexit__(None, None, None))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)


async def here(work: Coroutine[Any, Any, T]) -> T:
    """Does `work` on the event loop that asks."""
    return await work


class Elector:
    """One candidate. `run` renews for ever; `leading` and `term` say how it stands."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms,
        clock: ApiServerClock,
        changed: Callable[[], None],
        serves: Collection[str] = (),
        *,
        there: Do = here,
        fit: Callable[[], bool] = lambda: True,
    ) -> None:
        """`changed` is called whenever leadership was won or lost. `serves`: namespaces, which the Lease tells; empty: all.
        `there`: where `api` is, and requests are made (`ElectorThread.do`); `changed` is called there. `fit`: a candidate that is
        not neither takes nor renews the Lease."""
        self._there = there
        self._fit = fit
        self._api = api
        self._clock = clock
        self._path = leases_path(namespace, name)
        self._collection = leases_path(namespace)
        self._name = name
        self.release = f"{namespace}/{name}"
        """The installation that this candidate belongs to, by its Lease."""
        self.identity = identity
        self._terms = terms
        self._changed = changed
        self._serves = ",".join(sorted(serves))
        self.address = ""
        """HOST:PORT of this candidate's pages, which the Lease tells; empty: they cannot be reached."""
        self.leader_address = ""
        """HOST:PORT of the pages of the other candidate that led at the last look; empty: none did, or it did not say."""
        self._vacancy = Vacancy()
        self._renewed_at: float | None = None
        self._written: Json | None = None
        """The Lease as this candidate last wrote it, while no request since has failed."""
        self._sent: dict[str | None, float] = {}
        """The `renewTime`s sent since then, and when each attempt was begun: a look may show that one arrived after all."""
        self._led = False
        self._another_leads = False
        self.term = 0
        self._acquired = ""
        self.beat = self._clock.ticks()
        """When the last attempt ended, whatever its outcome (monotonic)."""
        self.outage_ended_at: float | None = None
        """When renewals last worked again after they had failed (monotonic)."""
        self._failing = False
        self._resigned = False
        self._looking = asyncio.Lock()
        self._begun = 0
        """Attempts so far."""
        self._ended = 0
        """Which of them was the last that came to its end."""

    @property
    def leading(self) -> bool:
        return not self._resigned and still_leads(self._renewed_at, self._clock.ticks(), self._terms)

    @property
    def deposed(self) -> bool:
        """Another candidate led at the last look, or this one has given the lead up."""
        return self._another_leads or self._resigned

    @property
    def reign(self) -> tuple[int, str] | None:
        """The same for as long as no other candidate has led, also where this one did not in between. None: it does not lead."""
        return (self.term, self._acquired) if self.leading else None

    async def run(self) -> None:
        """Try, sleep, try again. A leader that cannot renew loses the lead at its renew deadline, also while a request hangs."""
        await self._there(self._run())

    async def _run(self) -> None:
        while True:
            began = self._clock.ticks()
            try:
                if self._fit():
                    async with asyncio.timeout(self._lasts(began)):
                        await self.attempt()
            except TimeoutError:
                self._failed("no answer in time")
            self.beat = self._clock.ticks()
            self._tell()
            await self._sleep(began + self._terms.retry)

    async def attempt(self) -> None:
        """One look at the Lease, and what follows from it; a leader writes it as it knows it, and looks only where that is
        refused, as client-go does. Those who ask while one is under way share the next."""
        begun = self._begun
        async with self._looking:
            if self._ended <= begun and not self._resigned:
                self._begun += 1
                await self._attempt()
                self._ended = self._begun

    async def _attempt(self) -> None:
        asked, known = self._clock.ticks(), self._written if self.leading else None
        self._written = None
        try:
            while True:
                try:
                    await (self._look(asked) if known is None else self._write(known, asked))
                    break
                except ConflictError:  # another candidate wrote first, or this one with a request that it gave up
                    if not self.leading:
                        break
                except NotFoundError:
                    if known is None:
                        raise
                known = None
            self._worked()
        except (ApiError, UnavailableError) as error:
            self._failed(str(error))

    async def _look(self, asked: float) -> None:
        lease = await self._answered(self._api.find(self._path))
        answered = self._clock.ticks()
        told = ((lease or {}).get("metadata") or {}).get("annotations") or {}
        self._another_leads = holder_of(lease) not in ("", self.identity)
        self.leader_address = told.get(ADDRESS_ANNOTATION, "") if self._another_leads else ""
        if not self.leading:
            self._set_clock()
            self._sent.clear()
        elif not self._another_leads:
            self._renewed_at = self._sent.get(spec_of(lease).get("renewTime"), self._renewed_at)
        if self._vacancy.free(lease, self.identity, answered):
            await self._write(lease, asked)
        else:
            self._renewed_at = None

    async def _answered(self, request: Coroutine[Any, Any, T]) -> T:
        """In half the time that is left: where its connection has died without a word, or one answer in many is late, there is
        time for another. Raises TimeoutError."""
        async with asyncio.timeout(max(self._lasts(self._clock.ticks()) / 2, self._terms.retry)):
            return await request

    async def confirm(self) -> bool:
        """Ask the API server now whether this candidate leads. For a writer that was surprised by another's write. An
        answer that comes too late for a renewal is not waited for: the next attempt may be told in time."""
        return await self._there(self._confirm())

    async def _confirm(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._terms.renew_deadline):
                await self.attempt()
        self._tell()
        return self.leading

    async def resign(self) -> None:
        """Give the Lease up, so that another may take it at its next look. From then on this candidate neither renews nor
        takes it: a renewal that is under way comes to its end before."""
        self._resigned = True
        try:
            async with asyncio.timeout(self._terms.renew_deadline + 1.0):
                await self._there(self._resign())
        except TimeoutError:  # its event loop hangs
            log.warning("could not give up the leader Lease; others wait until it expires", error="the elector's thread hangs")

    async def _resign(self) -> None:
        try:
            async with asyncio.timeout(self._terms.renew_deadline), self._looking:
                if still_leads(self._renewed_at, self._clock.ticks(), self._terms):
                    await self._give_up()
        except (ApiError, UnavailableError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            log.warning("could not give up the leader Lease; others wait until it expires", error=why)

    async def _give_up(self) -> None:
        lease = await self._api.find(self._path)
        if lease is not None and holder_of(lease) == self.identity:
            await self._api.replace(self._path, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})

    async def _write(self, lease: Json | None, asked: float) -> None:
        """What is written counts from when this attempt was begun: others may see it as soon as it is sent."""
        tells = {NAMESPACES_ANNOTATION: self._serves, ADDRESS_ANNOTATION: self.address}
        spec = held(lease, self.identity, self._terms.duration, datetime.fromtimestamp(self._clock.now(), UTC))
        self._sent[spec["renewTime"]] = asked
        if lease is None:
            metadata = {"name": self._name, "annotations": tells}
            body = {"apiVersion": LEASES, "kind": "Lease", "metadata": metadata, "spec": spec}
            written = await self._answered(self._api.create(self._collection, body))
        else:
            metadata = lease["metadata"]
            told = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **tells}}
            body = {**lease, "metadata": told, "spec": spec}
            written = await self._answered(self._api.replace(self._path, body))
        self.term, self._acquired = spec["leaseTransitions"], spec["acquireTime"]
        self._renewed_at, self._another_leads, self._written = asked, False, written
        self._sent.clear()

    def _set_clock(self) -> None:
        """Before this candidate leads, that is: a step of the API server's clock does not move what runs."""
        told = self._api.told
        if told is not None and abs(forward := self._clock.follow(told)) >= WRONG:
            log.warning(
                "this machine's clock differs from the API server's, which is followed",
                seconds=round(-forward, 1),
                cure="set the clocks of both by NTP",
            )

    def _tell(self) -> None:
        if self.leading != self._led:
            self._led = self.leading
            log.info("leading" if self._led else "not leading", identity=self.identity, term=self.term)
            self._changed()

    def _worked(self) -> None:
        if self._failing:
            self._failing = False
            self.outage_ended_at = self._clock.ticks()

    def _failed(self, why: str) -> None:
        if not self._failing:
            log.warning("cannot renew the leader Lease", error=why)
        self._failing = True

    def _lasts(self, now: float) -> float:
        """Seconds that an attempt may take, which is no longer than the lead lasts: its end must be told in time."""
        left = 0.0 if self._renewed_at is None else self._renewed_at + self._terms.renew_deadline - now
        return left if left > 0 else self._terms.renew_deadline

    async def _sleep(self, until: float) -> None:
        """Until the next attempt, but no longer than a lead lasts: its own, whose end must be told in time, or another's, which
        it may then take."""
        now, ends = self._clock.ticks(), [self._vacancy.free_at]
        if self._renewed_at is not None:
            ends.append(self._renewed_at + self._terms.renew_deadline)
        until = min(until, *(end for end in ends if end is not None and end > now), until)
        await asyncio.sleep(max(0.05, until - self._clock.ticks()))
