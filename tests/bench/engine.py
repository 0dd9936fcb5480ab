"""`make bench-engine`: what a step of the engine costs, at rest and in the middle of a rebalance, and how that grows.

First in process, from the facts that the operator's cache keeps to the texts of the ledger; then on a cluster, where one can be
started (as root, with its programs built). A table for people, and a last line of JSON.
"""

import gc
import json
import os
import sys
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import click

from baton.engine import dump, load, step
from tests.bench.fleet import Fleet

SIZES = ((10, 100), (1_000, 10_000), (10_000, 100_000))
"""Members and partitions."""
WIDE = ((1_000, 1_000), (1_000, 10_000), (1_000, 100_000))
"""As many members with more and more partitions: a step at rest must not notice."""
ENOUGH = 0.4
"""Seconds of timing at least; and three times."""


@dataclass(frozen=True)
class Figure:
    """One case of the last line."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Row:
    what: str
    unit: str
    values: tuple[float, ...]
    """Per size."""

    def figures(self, sizes: Sequence[tuple[int, int]]) -> Iterator[Figure]:
        for (members, partitions), value in zip(sizes, self.values, strict=True):
            yield Figure(f"{self.what}, {members}x{partitions}", float(f"{value:.4g}"), self.unit)


def at_rest(members: int, partitions: int) -> dict[str, float]:
    """Everybody has what is theirs, and what is seen is what was seen before, in new objects."""
    fleet = Fleet(members, partitions)
    fleet.settle()
    facts, again = fleet.facts(), fleet.observe(fleet.facts())
    state, now = fleet.state, fleet.now
    return {
        "read the observation": _milliseconds(lambda: fleet.observe(facts)),
        "step at rest": _milliseconds(lambda: step(state, again, now)),
        "ledger at rest": _milliseconds(lambda: dump(state)),
        "restart from the ledger": _milliseconds(lambda: load(dump(state))),
        "ledger's size": sum(len(key) + len(text.encode()) for key, text in dump(state).items()) / 1024,
    }


def in_a_rebalance(members: int, partitions: int) -> dict[str, float]:
    """A tenth more members joined: the plan, a step with nothing new, one with some releases, one with their grants."""
    fleet = Fleet(members, partitions)
    fleet.settle()
    fleet.members += members // 10
    fleet.trigger()
    before, seen, now = fleet.state, fleet.observe(fleet.facts()), fleet.now
    plan = _milliseconds(lambda: step(before, seen, now))
    fleet.step()
    moving = fleet.state.moving
    begun, seen, now = fleet.state, fleet.observe(fleet.facts()), fleet.now
    fleet.release(max(moving // 10, 1))
    some = fleet.observe(fleet.facts())
    return {
        "plan for a tenth more members": plan,
        "hand-offs in it": moving,
        "step while they wait": _milliseconds(lambda: step(begun, seen, now)),
        "step in which a tenth is released": _milliseconds(lambda: step(begun, some, now)),
        "ledger in mid-rebalance": _milliseconds(lambda: dump(begun)),
    }


def memory(members: int, partitions: int) -> dict[str, float]:
    """Of the state that is kept, and the most that a plan needs beside it."""
    gc.collect()
    tracemalloc.start()
    try:
        fleet = Fleet(members, partitions)
        fleet.settle()
        gc.collect()
        rest = tracemalloc.get_traced_memory()[0]
        fleet.members += members // 10
        fleet.trigger()
        gc.collect()
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        fleet.step()
        peak = tracemalloc.get_traced_memory()[1] - start
        gc.collect()
        busy = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return {"state at rest": rest / 1e6, "state in mid-rebalance": busy / 1e6, "a plan needs beside it": peak / 1e6}


def _milliseconds(work: Callable[[], object]) -> float:
    """Of processor time, so that a busy machine matters less. The median; the first time warms up."""
    times: list[float] = []
    gc.collect()
    while len(times) < 4 or (sum(times) < ENOUGH and len(times) < 2000):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * median(times[1:])


def table(title: str, sizes: Sequence[tuple[int, int]], rows: Sequence[Row]) -> Iterator[str]:
    """A column per size, and by what the figure grew from the one before."""
    yield ""
    yield f"{title:34}" + "".join(f"{f'{m:,} x {p:,}':>20}{'' if not n else '  grew':8}" for n, (m, p) in enumerate(sizes))
    for row in rows:
        cells = ""
        for n, value in enumerate(row.values):
            before = row.values[n - 1] if n else 0.0
            grew = f"  x{value / before:,.3g}" if before else ""
            cells += f"{f'{value:,.4g}' if value < 1000 else f'{value:,.0f}':>16} {row.unit:3}{grew:8}"
        yield f"{row.what:34}{cells}".rstrip()


Work = Callable[[int, int], dict[str, float]]
"""What is measured, of so many members and partitions: figures by name."""

Tabled = tuple[str, Sequence[tuple[int, int]], list[Row]]
"""A title, the sizes, and a row per figure."""


def measured(title: str, work: Work, sizes: Sequence[tuple[int, int]], units: Callable[[str], str]) -> Tabled:
    """`work` at each size."""
    found = []
    for members, partitions in sizes:
        print(f"{members:,} members with {partitions:,} partitions: {title}", file=sys.stderr)
        found.append(work(members, partitions))
    return title, sizes, [Row(what, units(what), tuple(one[what] for one in found)) for what in found[0]]


def _unit(what: str) -> str:
    return {"ledger's size": "KiB", "hand-offs in it": ""}.get(what, "ms")


def in_process() -> Iterator[Tabled]:
    """The tables, one by one as they are ready."""
    yield measured("at rest", at_rest, SIZES, _unit)
    yield measured("at rest, partitions alone", at_rest, WIDE, _unit)
    yield measured("in a rebalance", in_a_rebalance, SIZES, _unit)
    yield measured("memory", memory, SIZES, lambda _: "MB")


def on_a_cluster() -> list[Figure]:
    """Nothing, and a word why, where no cluster can be started."""
    if os.geteuid() != 0:
        print("the figures on a cluster need root and the programs of `make machine`; left out", file=sys.stderr)
        return []
    from tests.bench.cluster import measure  # what it needs is not there for who has only `make setup`

    print("on a cluster: some minutes", file=sys.stderr)
    return [Figure(*case) for case in measure()]


@click.command()
@click.option("--no-cluster", is_flag=True, help="Only what is measured in process.")
def main(no_cluster: bool) -> None:
    """Print tables, then one line of JSON."""
    figures: list[Figure] = []
    for title, sizes, rows in in_process():
        print("\n".join(table(title, sizes, rows)), flush=True)
        tagged = title if title in ("memory", "at rest, partitions alone") else ""
        figures += [
            Figure(f"{tagged}: {one.name}" if tagged else one.name, one.value, one.unit)
            for row in rows
            for one in row.figures(sizes)
        ]
    cluster: list[Figure] = []
    failed = False
    try:
        cluster = [] if no_cluster else on_a_cluster()
    except Exception:  # whatever went wrong there, what was measured in process is told
        traceback.print_exc()
        failed = True
    if cluster:
        print("\non a cluster")
        for one in cluster:
            print(f"{one.name:60}{one.value:>16,.4g} {one.unit}")
    print(json.dumps({"cases": [asdict(one) for one in [*figures, *cluster]]}))
    sys.exit(failed)


if __name__ == "__main__":
    main()
