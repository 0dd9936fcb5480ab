"""Many seeds on all cores, in processes that put strings into sets in the same order: so a seed is the same life each time."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import NamedTuple

from tests.simulation.seeds.checks import Turn
from tests.simulation.seeds.play import play

CHUNK = 50
_VARIABLE, _FIXED = "PYTHONHASHSEED", "0"


class Found(NamedTuple):
    wrong: list[tuple[int, str]]
    """Seeds that went wrong, and how."""
    turns: set[Turn]
    """Transitions that were seen."""


def play_all(first: int, seeds: int) -> Iterator[tuple[int, Found]]:
    """How many of them have been played, and what the last of those brought; in as many processes as there are cores."""
    firsts = range(first, first + seeds, CHUNK)
    counts = [min(CHUNK, first + seeds - one) for one in firsts]
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = _FIXED
    try:
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _begin) as pool:
            for one, count, found in zip(firsts, counts, pool.map(_chunk, firsts, counts), strict=True):
                yield one + count - first, found
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def as_a_worker() -> None:
    """Begin this process again, unless it is like the workers."""
    if os.environ.get(_VARIABLE) != _FIXED:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _VARIABLE: _FIXED})


def _begin() -> None:
    """Ctrl-C ends this process at once. Others who wait for something go first: these only compute. Every life collects its
    garbage, once; what the imports have made stays, and need not be looked through each time."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    os.nice(10)
    gc.collect()
    gc.freeze()
    gc.disable()


def _end_with_parent() -> None:
    """A worker without work would wait for ever: workers hold both ends of the queue that brings it."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _chunk(first: int, count: int) -> Found:
    found = Found([], set())
    for seed in range(first, first + count):
        played = play(seed)
        found.turns.update(played.turns)
        if played.problem is not None:
            found.wrong.append((seed, played.problem))
    return found
