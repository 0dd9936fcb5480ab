"""A question to a queue: it is answered in time, or the queue is unreachable."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from baton.queues.protocol import QueueUnreachable

T = TypeVar("T")


async def answer(queue: str, question: Awaitable[T], within: float) -> T:
    """What the adapter answers. Raises what it raises, and QueueUnreachable where nothing comes in so many seconds."""
    try:
        async with asyncio.timeout(within):
            return await question
    except TimeoutError:
        raise QueueUnreachable(f"queue {queue} does not answer within {within:.0f} s") from None
