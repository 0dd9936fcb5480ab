"""`make bench-scale`: progress on standard error, a table, and a last line of JSON."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict

import click

from tests.bench.scale import measured, population, sizes, troubles
from tests.bench.scale.place import Report

OTHERS: dict[str, Callable[[Report], Coroutine[None, None, None]]] = {
    "slow": troubles.slow,
    "killed": troubles.killed,
    "away": troubles.away,
    "large": sizes.large,
    "redis": sizes.redis,
}


@click.command()
@click.option("--case", "cases", multiple=True, type=click.Choice([*population.CASES, *OTHERS]), help="Default: all.")
@click.option("--groups", type=click.IntRange(2), default=1000, show_default=True)
@click.option("--minutes", type=float, default=10.0, show_default=True, help="Of 20 events/s.")
@click.option("--heartbeat", type=float, default=300.0, show_default=True, help="Seconds between two renewals of a pod's Lease.")
def main(cases: Sequence[str], groups: int, minutes: float, heartbeat: float) -> None:
    """Print a table, then one line of JSON."""
    report, before = Report(groups, minutes, heartbeat), measured.load()
    cases = cases or (*population.CASES, *OTHERS)
    print(f"{'':58}{'ours':>9}{'bound':>9}{'ratio':>8}", flush=True)
    if {*cases} & {*population.CASES}:
        asyncio.run(population.run(report, cases))
    for name, measure in OTHERS.items():
        if name in cases:
            asyncio.run(measure(report))
    ended = {"groups": groups, "minutes": minutes, "heartbeat": heartbeat, "load": [before, measured.load()]}
    print(json.dumps({**ended, "cases": [asdict(one) for one in report.cases]}))


if __name__ == "__main__":
    main()
