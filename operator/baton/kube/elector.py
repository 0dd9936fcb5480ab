"""Leader election over a Lease. `baton.model.lease` decides who may take it; this module reads and writes it."""

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
"""Most seconds of a Lease's term, during which nothing moves after a leader died."""

SHORTEST_RETRY = 0.1
"""Fewest seconds between two requests of a replica."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Times of the election in seconds. A leader that could not renew for `renew_deadline` stops before others may start."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not (1 <= self.duration <= LONGEST_DURATION and self.duration == int(self.duration)):
            raise ValueError(
                f"leader election: the lease duration must be whole seconds from 1 to {LONGEST_DURATION}, as a Lease stores it: "
                f"it is {self.duration:g}"
            )
        if not self.retry >= SHORTEST_RETRY:
            raise ValueError(f"leader election: the retry period must be {SHORTEST_RETRY:g} s or more: it is {self.retry:g}")
        if not self.duration > self.renew_deadline > self.retry:
            raise ValueError(
                "leader election: the lease duration must be above the renew deadline, and that above the retry period: they are "
                f"{self.duration:g}, {self.renew_deadline:g} and {self.retry:g} s"
            )


def still_leads(renewed_at: float | None, now: float, terms: Terms) -> bool:
    """Whether a leader that renewed its Lease at `renewed_at` still leads. It trusts the Lease only for the renew deadline."""
    return renewed_at is not None and now < renewed_at + terms.renew_deadline


class Do(Protocol):
    """Runs `work` on some event loop, and returns its result."""

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


NAMESPACES_ANNOTATION = "baton.dev/namespaces"
"""Annotation of the leader's Lease: the namespaces that the leader serves, for other releases; empty: all."""

ADDRESS_ANNOTATION = "baton.dev/address"
"""Annotation of the leader's Lease: address of the leader's pages."""

WRONG = 5.0
"""Seconds of clock difference from which a warning is logged."""

LEFT_WITHIN = 5.0
"""Seconds that leaving a context on the elector's thread may take."""

log = structlog.get_logger("baton.elector")


class ElectorThread:
    """An event loop on a separate thread, so that the Lease is renewed even if the operator's event loop is busy."""

    def __init__(self, left_within: float = LEFT_WITHIN) -> None:
        self._left_within = left_within
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="elector", daemon=True).start()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the thread, and return its result."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    @asynccontextmanager
    async def within(self, made: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter and leave a context on the thread. The thread's event loop then stops."""
        try:
            entered = await self.do(made.__aenter__())
            try:
                yield entered
            finally:
                with suppress(TimeoutError):  # if its event loop hangs, the process must still end
                    async with asyncio.timeout(self._left_within):
                        await self.do(made.__aexit__(None, None, None))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)


async def here(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on the caller's event loop."""
    return await work


class Elector:
    """One candidate. `run` renews the Lease until cancelled; `leading` and `term` are the current state."""

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
        """`changed` is called when leadership was won or lost. `serves`: the namespaces to write into the Lease; empty: all.
        `there`: runs requests on the event loop of `api` (`ElectorThread.do`); `changed` is called there. `fit`: the Lease is
        taken and renewed only while this returns True."""
        self._there = there
        self._fit = fit
        self._api = api
        self._clock = clock
        self._path = leases_path(namespace, name)
        self._collection = leases_path(namespace)
        self._name = name
        self.release = f"{namespace}/{name}"
        """The release (installation) of this candidate: namespace/name of its Lease."""
        self.identity = identity
        self._terms = terms
        self._changed = changed
        self._serves = ",".join(sorted(serves))
        self.address = ""
        """HOST:PORT of this candidate's pages, to write into the Lease; empty: unreachable."""
        self.leader_address = ""
        """HOST:PORT of the pages of the other candidate that led at the last look; empty: none led, or it is unknown."""
        self._vacancy = Vacancy()
        self._renewed_at: float | None = None
        self._written: Json | None = None
        """The Lease as this candidate last wrote it; None after a failed request."""
        self._sent: dict[str | None, float] = {}
        """The `renewTime` of each write since the last answered one, and when its attempt began: a later look may show that one
        of them arrived."""
        self._led = False
        self._another_leads = False
        self.term = 0
        self._acquired = ""
        self.beat = self._clock.ticks()
        """When the last attempt ended, successful or not (monotonic)."""
        self.outage_ended_at: float | None = None
        """When renewals last recovered from failures (monotonic)."""
        self._failing = False
        self._resigned = False
        self._looking = asyncio.Lock()
        self._begun = 0
        """Number of attempts begun."""
        self._ended = 0
        """Number of the last attempt that ended."""

    @property
    def leading(self) -> bool:
        return not self._resigned and still_leads(self._renewed_at, self._clock.ticks(), self._terms)

    @property
    def deposed(self) -> bool:
        """Whether another candidate led at the last look, or this one gave the lead up."""
        return self._another_leads or self._resigned

    @property
    def reign(self) -> tuple[int, str] | None:
        """Identifies this candidate's lead, and stays the same if no other candidate led in between. None: not leading."""
        return (self.term, self._acquired) if self.leading else None

    async def run(self) -> None:
        """Take or renew the Lease periodically. A leader that cannot renew loses the lead at its renew deadline, even while a
        request hangs."""
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
        """Read the Lease, and take it if possible. A leader renews it without reading, and reads only after a conflict, as
        client-go does. Callers that come while an attempt is under way share the next one."""
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
        """Wait for an answer for half the time that is left, so that there is time for another request if a connection died
        silently or an answer is late. Raises TimeoutError."""
        async with asyncio.timeout(max(self._lasts(self._clock.ticks()) / 2, self._terms.retry)):
            return await request

    async def confirm(self) -> bool:
        """Ask the API server now whether this candidate leads, for a writer that met another's write. Waits for the renew
        deadline at most."""
        return await self._there(self._confirm())

    async def _confirm(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._terms.renew_deadline):
                await self.attempt()
        self._tell()
        return self.leading

    async def resign(self) -> None:
        """Give the Lease up, so that another candidate can take it at its next look. A renewal under way ends first; this
        candidate then neither renews nor takes the Lease."""
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
        """Write the Lease. Its term counts from the start of the attempt: others may see it as soon as it is sent."""
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
        """Follow the API server's clock. Only while not leading: a step of that clock must not move running deadlines."""
        told = self._api.server_time
        if told is not None and abs(forward := self._clock.follow(told)) >= WRONG:
            log.warning(
                "this machine's clock differs from the API server's; following the API server's",
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
        """Seconds that an attempt may take: no longer than the lead lasts, so that its end is noticed in time."""
        left = 0.0 if self._renewed_at is None else self._renewed_at + self._terms.renew_deadline - now
        return left if left > 0 else self._terms.renew_deadline

    async def _sleep(self, until: float) -> None:
        """Sleep until the next attempt, or until a lead ends: this candidate's, whose end must be noticed in time, or another's,
        which it may then take over."""
        now, ends = self._clock.ticks(), [self._vacancy.free_at]
        if self._renewed_at is not None:
            ends.append(self._renewed_at + self._terms.renew_deadline)
        until = min([until, *(end for end in ends if end is not None and end > now)])
        await asyncio.sleep(max(0.05, until - self._clock.ticks()))
