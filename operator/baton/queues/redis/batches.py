"""Combines requests that are made at about the same time into one round trip.

A group may grant thousands of partitions at once. Sent one by one, each grant would wait for the server's disk; together they
take one round trip and one wait.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import redis.asyncio as aioredis
from redis.exceptions import (
    NoScriptError,
    TimeoutError,  # noqa: A004 - the library's name
)

from baton.model.ids import Uid
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.scripts import Script

MOST = 256
"""Total weight per round trip, so that the event loop and the server are blocked for only a few milliseconds."""


ANSWERED_AT_ONCE = 32
"""Callers that go on in one turn of the event loop. A thousand queues may be asked together, and each works on its answer."""


class Hint(NamedTuple):
    """A pod that should read a partition's owner record."""

    uid: Uid
    partition: int


class ScriptRun(NamedTuple):
    """One run of a script."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Any]
    hints: Sequence[Hint] = ()
    """Pods to announce the change to after the script has run."""
    later: bool = False
    """Whether it starts something new; requests that continue something go first."""
    weight: int = 1
    """Maximum KiB of its answer, which is also its cost to the server and the event loop in small requests."""


class Batches:
    """Sends requests in batches. `send` takes requests and returns their answers in order; an answer that is an exception is
    raised to the caller of its request. At most `at_once` round trips run concurrently. Requests made meanwhile go with the next
    one, unless their task has been cancelled."""

    def __init__(self, send: Callable[[Sequence[ScriptRun]], Awaitable[Sequence[Any]]], at_once: int = 8) -> None:
        self._send = send
        self._at_once = at_once
        self._waiting: deque[tuple[ScriptRun, asyncio.Future[Any]]] = deque()
        self._later: deque[tuple[ScriptRun, asyncio.Future[Any]]] = deque()
        self._carriers: set[asyncio.Task[None]] = set()
        self._beginning = False
        """Whether a carrier was started that has not taken requests yet."""
        self._handing_out = 0
        """Carriers that give callers their answers. Callers that ask again go together in the next round trips of these."""
        self._closed = False

    async def ask(self, request: ScriptRun) -> Any:
        """Return the answer. Requests of one turn of the event loop share a round trip."""
        return await self._put(request)

    async def ask_all(self, requests: Iterable[ScriptRun]) -> list[Any]:
        """Return the answers in order, or raise the first error."""
        return await asyncio.gather(*map(self._put, requests))

    def _put(self, request: ScriptRun) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        (self._later if request.later else self._waiting).append((request, answer))
        if self._closed:
            self._end_waiting(QueueUnreachable("the connection was closed"))
        else:
            self._begin()
        return answer

    async def close(self) -> None:
        """Cancel requests in progress, and fail those that wait and those made later."""
        self._closed = True
        carriers = list(self._carriers)
        for carrier in carriers:
            carrier.cancel()
        await asyncio.gather(*carriers, return_exceptions=True)
        self._end_waiting(QueueUnreachable("the connection was closed"))

    def _end_waiting(self, error: Exception) -> None:
        for waiting in (self._waiting, self._later):
            _end(waiting, error)
            waiting.clear()

    def _begin(self) -> None:
        wait = self._beginning or self._handing_out > 0 or len(self._carriers) >= self._at_once
        if (self._waiting or self._later) and not wait:
            self._beginning = True
            self._carriers.add(asyncio.create_task(self._carry_all()))

    async def _carry_all(self) -> None:
        """Run round trips until no request waits. The first one starts after all tasks that are ready in this turn of the event
        loop have made their requests."""
        self._beginning = False
        try:
            while those := self._next():
                self._begin()
                await self._carry(those)
        finally:
            self._carriers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next(self) -> list[tuple[ScriptRun, asyncio.Future[Any]]]:
        """Take requests that fit into one round trip, or a single one that exceeds the limit."""
        those: list[tuple[ScriptRun, asyncio.Future[Any]]] = []
        weight = 0
        while (waiting := self._waiting or self._later) and (not those or weight + waiting[0][0].weight <= MOST):
            request, answer = waiting.popleft()
            if not answer.done():
                those.append((request, answer))
                weight += request.weight
        return those

    async def _carry(self, those: Sequence[tuple[ScriptRun, asyncio.Future[object]]]) -> None:
        try:
            answers = await self._send([request for request, _ in those])
            # Refusals last: a caller may then cancel others, which have their answers by now.
            answered = sorted(zip(those, answers, strict=True), key=lambda one: isinstance(one[1], Exception))
        except asyncio.CancelledError:
            _end(those, QueueUnreachable("the connection was closed"))
            raise
        except TimeoutError as error:
            _end(those, error)
            self._end_waiting(error)  # the server hangs, so they would only time out later
        except Exception as error:
            _end(those, error)
        else:
            await self._hand_out((future, answer) for (_, future), answer in answered)

    async def _hand_out(self, answers: Iterable[tuple[asyncio.Future[Any], object]]) -> None:
        """Give these callers their answers, a few at a time; if that is cancelled, the rest at once."""
        rest = iter(answers)
        self._handing_out += 1
        try:
            while some := list(islice(rest, ANSWERED_AT_ONCE)):
                _give(some)
                await asyncio.sleep(0)
        finally:
            self._handing_out -= 1
            _give(rest)


def _end(those: Iterable[tuple[ScriptRun, asyncio.Future[Any]]], error: Exception) -> None:
    _give((future, error) for _, future in those)


def _give(answers: Iterable[tuple[asyncio.Future[Any], object]]) -> None:
    for future, answer in answers:
        if future.done():
            continue  # its caller was cancelled
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


async def round_trip(
    client: "aioredis.Redis",
    requests: Sequence[ScriptRun],
    others: Sequence[tuple[object, ...]] = (),
    *,
    load: Collection[str] = (),
) -> list[object]:
    """Return the answers of these requests, and of other commands after them. The answer of a refused one is the exception.

    `load`: scripts that the server does not know. They are sent together with the requests that run them, as the next round trip
    may go to another server.
    """
    async with client.pipeline(transaction=False) as pipe:
        for text in load:
            pipe.execute_command("SCRIPT LOAD", text)
        for script, keys, arguments, *_ in requests:
            pipe.evalsha(script.sha, len(keys), *keys, *arguments)
        for other in others:
            pipe.execute_command(*other)
        answers: list[object] = await pipe.execute(raise_on_error=False)
    loaded, answered = answers[: len(load)], answers[len(load) :]
    for refusal in loaded:
        if isinstance(refusal, Exception):
            raise refusal
    if load or not any(isinstance(answer, NoScriptError) for answer in answered):
        return answered
    texts = {request.script.text for request in requests}
    return await round_trip(client, requests, others, load=texts)  # repeats all: requests are idempotent
