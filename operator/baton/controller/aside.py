"""What is much work is done on another thread, so that Leases, health and other groups go on; what is little, at once."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MUCH = 1_000
"""Partitions, or things that happened to them."""


async def aside(much: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What `work` returns. It shares nothing with anybody who does not wait for it. `much`: how many things it looks at."""
    return await asyncio.to_thread(work, *arguments, **named) if much > MUCH else work(*arguments, **named)
