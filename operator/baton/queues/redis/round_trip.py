"""Many runs of scripts in one round trip."""

from collections.abc import Sequence
from typing import Any

import redis.asyncio as aioredis
from redis.exceptions import NoScriptError

from baton.queues.redis.batch import Request


async def round_trip(
    client: "aioredis.Redis", requests: Sequence[Request], others: Sequence[tuple[Any, ...]] = (), *, loaded: bool = False
) -> list[Any]:
    """The answers of these requests, and of other commands behind them. What was refused is answered with the exception."""
    async with client.pipeline(transaction=False) as pipe:
        for script, keys, arguments, _ in requests:
            pipe.evalsha(script.sha, len(keys), *keys, *arguments)
        for other in others:
            pipe.execute_command(*other)
        answered: list[Any] = await pipe.execute(raise_on_error=False)
    if loaded or not any(isinstance(answer, NoScriptError) for answer in answered):
        return answered
    for text in {request.script.text for request in requests}:
        await client.script_load(text)
    return await round_trip(client, requests, others, loaded=True)  # those that were carried out may be asked twice
