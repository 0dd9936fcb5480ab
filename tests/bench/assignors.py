"""`make bench-assignors`: our assignors beside Kafka's and RocketMQ's classes, on the same requests in one run.

Timed is what a caller pays: from a request, whose claims are tuples (lists) of partitions, to an answer that names the queue and
number of every partition of every member: ours in two columns per member, theirs in a list of objects. Both sides are warmed
up and the median counts. The last line is JSON. With --chart the figures are also drawn.
"""

import gc
import json
import sys
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import click

from baton.assignors import get
from tests.bench.cases import Case, cases
from tests.bench.chart import draw
from tests.peers import ask

LONG = 2.0
"""Seconds: what takes longer is timed three times, not ten."""


@dataclass(frozen=True)
class Measured:
    name: str
    ours_ms: float
    peer: str
    peer_ms: float
    ratio: float
    """Ours / the peer's: below 1 ours is faster."""
    ours_mb: float
    """The most that one answer holds at a time, beyond the request."""
    peer_mb: float
    """What one answer allocates, garbage included."""


def measure(case: Case) -> Measured:
    """Times the peer and then ours, one at a time."""
    [answer] = ask([(case.peer_assignor, case.request)], case.repeats)
    if isinstance(answer, str):
        raise RuntimeError(f"{case.name}: {answer}")
    ours, peer = _ours(case), median(answer.milliseconds[len(answer.milliseconds) // 2 :])
    figures = (ours, peer, ours / peer, _memory(case), answer.allocated / 1e6)
    ours_ms, peer_ms, ratio, ours_mb, peer_mb = (float(f"{figure:.3g}") for figure in figures)
    return Measured(case.name, ours_ms, case.peer, peer_ms, ratio, ours_mb, peer_mb)


def _ours(case: Case) -> float:
    assignor, times = get(case.assignor), list[float]()
    gc.collect()
    while len(times) < (3 if times and times[0] > LONG else 11):
        start = time.perf_counter()
        assignor(case.request)
        times.append(time.perf_counter() - start)
    return 1000 * median(times[1:])


def _memory(case: Case) -> float:
    tracemalloc.start()
    get(case.assignor)(case.request)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


@click.command()
@click.option("--chart", type=click.Path(path_type=Path), help="Draw the figures into this SVG.")
@click.option("--only", default="", help="Only cases whose name has this in it.")
def main(chart: Path | None, only: str) -> None:
    """Print a table, then one line of JSON."""
    print(f"{'':62}{'ours':>10}{'peer':>10}{'ratio':>8}{'ours':>10}{'peer':>12}", flush=True)
    results: list[Measured] = []
    for case in cases():
        if only in case.name:
            one = measure(case)
            results.append(one)
            row = f"{one.name:62}{one.ours_ms:>7g} ms{one.peer_ms:>7g} ms{one.ratio:>8g}{one.ours_mb:>7g} MB{one.peer_mb:>9g} MB"
            print(f"{row}  {one.peer}", flush=True)
    slower = [one.name for one in results if one.ratio > 1]
    print(f"{len(results) - len(slower)} of {len(results)} are not slower; ratio is ours / the peer's", file=sys.stderr)
    if chart:
        chart.write_text(draw([(one.name, one.ours_ms, one.peer, one.peer_ms) for one in results]))
    print(json.dumps({"cases": [asdict(one) for one in results]}))


if __name__ == "__main__":
    main()
