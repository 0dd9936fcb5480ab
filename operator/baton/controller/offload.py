"""What is much work is done on another thread, so that Leases, health and other groups go on; what is little, at once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MUCH = 1_000
"""Partitions, or things that happened to them."""


_THREADS = ThreadPoolExecutor(2, thread_name_prefix="aside")
"""What is done here takes a second at most, whatever anybody asks for, and waits for nothing."""


async def aside(much: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What `work` returns. It shares nothing with anybody who does not wait for it. `much`: how many things it looks at."""
    if much <= MUCH:
        return work(*arguments, **named)
    return await on_thread(_THREADS, work, *arguments, **named)


def on_thread(threads: ThreadPoolExecutor, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> asyncio.Future[T]:
    """`work` on one of these, in the context of the task that asks. It goes on there also where nobody waits for it any more."""
    run = partial(copy_context().run, work, *arguments, **named)
    return asyncio.get_running_loop().run_in_executor(threads, run)
