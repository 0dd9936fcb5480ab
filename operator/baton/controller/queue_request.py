"""A question to a queue: it is answered in time, or the queue is unreachable."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from baton.queues.protocol import QueueUnreachable

ANSWER_WITHIN = 5.0
"""Seconds."""

T = TypeVar("T")


async def answer(queue: str, question: Awaitable[T]) -> T:
    """What the adapter answers. Raises what it raises, and QueueUnreachable where nothing comes."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            return await question
    except TimeoutError:
        raise QueueUnreachable(f"queue {queue} does not answer within {ANSWER_WITHIN:.0f} s") from None
