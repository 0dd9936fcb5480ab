"""`make simulate-long`: any number of seeds on all cores, or one seed with its timeline."""

import argparse
import sys

from tests.simulation.seeds.play import play, shrink
from tests.simulation.seeds.workers import as_a_worker, play_all
from tests.simulation.spark.life import live
from tests.simulation.spark.world import Step


def show(seed: int, *, smallest: bool) -> int:
    """The timeline of one seed, or of the shortest part of its life that still goes wrong."""
    trace: list[tuple[float, str]] = []
    played = play(seed, shrink(seed) if smallest and play(seed).problem else None, trace)
    for when, what in trace:
        print(f"{when:10.3f}  {what}")
    print(f"seed {seed}: {played.problem or 'nothing went wrong'}")
    return played.problem is not None


def show_spark(seed: int) -> int:
    """The steps of one Spark fleet's life."""
    trace: list[Step] = []
    problem = live(seed, trace=trace)
    for step in trace:
        print(*step)
    print(f"seed {seed}: {problem or 'nothing went wrong'}")
    return problem is not None


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate-long")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="FROM")
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--shrink", action="store_true", help="with one seed: leave out what does not matter")
    parser.add_argument("--spark", type=int, metavar="SEED", help="the life of one Spark fleet, step by step")
    wanted = parser.parse_args()
    if wanted.spark is not None:
        return show_spark(wanted.spark)
    if wanted.seeds == 1:
        as_a_worker()
        return show(wanted.first, smallest=wanted.shrink)
    bad = 0
    for played, found in play_all(wanted.first, wanted.seeds):
        for seed, problem in found.wrong:
            bad += 1
            print(f"\rseed {seed}: {problem}\n    make simulate-long FROM={seed} SEEDS=1", flush=True)
        print(f"\r{played:,} of {wanted.seeds:,} seeds, {bad} went wrong", end="", flush=True)
    print()
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
