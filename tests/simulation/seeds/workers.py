"""Many seeds on all cores, in processes with one hash seed, so that a seed gives the same life each time."""

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
    """Seeds that violated an invariant, and how."""
    turns: set[Turn]
    """Transitions that were seen."""


def play_all(first: int, seeds: int) -> Iterator[tuple[int, Found]]:
    """Yield the number of seeds played so far and the results of the last chunk, in a process per core."""
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
    """Restart this process with the workers' hash seed, unless it has it."""
    if os.environ.get(_VARIABLE) != _FIXED:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _VARIABLE: _FIXED})


def _begin() -> None:
    """Prepare a worker: Ctrl-C ends it at once, it yields to other processes, and each life collects garbage once, without the
    objects of imports."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    os.nice(10)
    gc.collect()
    gc.freeze()
    gc.disable()


def _end_with_parent() -> None:
    """End with the parent. An idle worker would wait for ever, because workers hold both ends of the queue."""
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
