"""Many runs of scripts in one round trip."""

from collections.abc import Collection, Sequence

import redis.asyncio as aioredis
from redis.exceptions import NoScriptError

from baton.queues.redis.batch import ScriptRun


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
