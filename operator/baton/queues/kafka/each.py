"""Work on many partitions, some of them at a time.

A broker answers the requests of a connection one after the other: of what is begun all at once, nothing is done before the end.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 64


async def each(
    what: Callable[[int], Awaitable[T]], partitions: Iterable[int], within: float = inf, *, at_once: int = AT_ONCE
) -> dict[int, T]:
    """What comes of each partition, without those that are not begun in so many seconds. All are tried, also where one fails;
    then what the first raised is raised."""
    until, left = time.monotonic() + within, iter(partitions)
    found: dict[int, T] = {}
    problems: list[Exception] = []

    async def some() -> None:
        for number in left:
            if time.monotonic() >= until:
                return
            try:
                found[number] = await what(number)
            except Exception as problem:
                problems.append(problem)

    await asyncio.gather(*(some() for _ in range(at_once)))
    if problems:
        raise problems[0]
    return found
