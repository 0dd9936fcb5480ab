"""Requests that are made at about the same time travel together.

A group may have thousands of partitions to grant at once. One by one each would wait for the server's disk by itself; together
they take one round trip and one wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple

import redis.asyncio as aioredis
from redis.exceptions import NoScriptError

from baton.model.ids import Uid
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.scripts import Script

MOST = 256
"""Requests in one round trip: so few that the event loop and the server are free again in a few milliseconds."""


class Hint(NamedTuple):
    """A pod that is to look at a partition."""

    uid: Uid
    partition: int


class ScriptRun(NamedTuple):
    """One run of a script."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Any]
    hints: Sequence[Hint] = ()
    """To be announced when it has run."""


class Batches:
    """`send` gets requests and returns their answers in order; an answer that is an exception is raised to who asked."""

    def __init__(self, send: Callable[[Sequence[ScriptRun]], Awaitable[Sequence[Any]]]) -> None:
        self._send = send
        self._waiting: list[tuple[ScriptRun, asyncio.Future[Any]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, request: ScriptRun) -> Any:
        """The answer. Requests of one turn of the event loop share a round trip."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            task = asyncio.create_task(self._next())
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        self._waiting.append((request, answer))
        return await answer

    async def close(self) -> None:
        """What is under way is given up."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _next(self) -> None:
        """All that wait by now; it begins when everybody who is ready in this turn of the event loop has asked."""
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*(self._carry(waiting[start : start + MOST]) for start in range(0, len(waiting), MOST)))

    async def _carry(self, those: Sequence[tuple[ScriptRun, asyncio.Future[object]]]) -> None:
        try:
            answers = await self._send([request for request, _ in those])
        except asyncio.CancelledError:
            for _, answer in those:
                if not answer.done():
                    answer.set_exception(QueueUnreachable("the connection was closed"))
            raise
        except Exception as error:
            answers = [error] * len(those)
        for (_, future), answer in zip(those, answers, strict=True):
            if future.done():
                continue  # nobody waits for it any more
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
    """The answers of these requests, and of other commands behind them. What was refused is answered with the exception.

    `load`: scripts that the server does not know. They go with what runs them, for the next round trip may be to another server.
    """
    async with client.pipeline(transaction=False) as pipe:
        for text in load:
            pipe.execute_command("SCRIPT LOAD", text)
        for script, keys, arguments, _ in requests:
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
    return await round_trip(client, requests, others, load=texts)  # those that were carried out may be asked twice
