"""`make simulate-long`: any number of seeds on all cores, or one seed with its timeline."""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tests.simulation.seeds.checks import Turn
from tests.simulation.seeds.play import play, shrink

CHUNK = 250


class Found(NamedTuple):
    wrong: list[tuple[int, str]]
    """Seeds that went wrong, and how."""
    turns: set[Turn]
    """Transitions that were seen."""


def run(first: int, count: int) -> Found:
    """These seeds, one after the other."""
    found = Found([], set())
    for seed in range(first, first + count):
        played = play(seed)
        found.turns.update(played.world.checks.turns)
        if played.problem is not None:
            found.wrong.append((seed, played.problem))
    return found


def show(seed: int, *, smallest: bool) -> int:
    """The timeline of one seed, or of the shortest part of its life that still goes wrong."""
    trace: list[tuple[float, str]] = []
    played = play(seed, shrink(seed) if smallest and play(seed).problem else None, trace)
    for when, what in trace:
        print(f"{when:10.3f}  {what}")
    print(f"seed {seed}: {played.problem or 'nothing went wrong'}")
    return played.problem is not None


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate-long")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="FROM")
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--shrink", action="store_true", help="with one seed: leave out what does not matter")
    wanted = parser.parse_args()
    if wanted.seeds == 1:
        return show(wanted.first, smallest=wanted.shrink)
    firsts = range(wanted.first, wanted.first + wanted.seeds, CHUNK)
    counts = [min(CHUNK, wanted.first + wanted.seeds - first) for first in firsts]
    bad = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for first, count, found in zip(firsts, counts, pool.map(run, firsts, counts), strict=True):
            for seed, problem in found.wrong:
                bad += 1
                print(f"\rseed {seed}: {problem}\n    make simulate-long FROM={seed} SEEDS=1", flush=True)
            print(f"\r{first + count - wanted.first:,} of {wanted.seeds:,} seeds, {bad} went wrong", end="", flush=True)
    print()
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
