"""`make bench-handoff`: a table for people, and a last line of JSON."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from baton.kube.api import connect
from cluster import Cluster as Kubernetes
from tests.bench.comparison import tell
from tests.bench.handoff.chart import draw
from tests.bench.handoff.events import QUICK, Extent, Fleet
from tests.bench.handoff.members import Members
from tests.bench.handoff.records import effect, spread
from tests.bench.handoff.systems import BROKER_SETTINGS, SYSTEMS, Compared, Place
from tests.integration.operator.conftest import apply_crds
from tests.integration.operator.world import Cluster
from tests.kafka_broker import KafkaBroker
from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.waiting import until

Row = dict[str, Any]
_ROOT = Path(__file__).parents[3]
_COLUMNS = (
    ("paused_partitions", "paused"),
    ("pause_ms_p50", "p50 ms"),
    ("pause_ms_p99", "p99 ms"),
    ("pause_ms_max", "max ms"),
    ("all_ms_p50", "all p50"),
    ("all_ms_max", "all max"),
    ("moves", "moves"),
    ("duplicates", "dupl."),
    ("order_violations", "disorder"),
    ("balanced_ms", "balanced"),
)


@click.command()
@click.option("--quick", is_flag=True, help="A few members and systems, to see that it works: the figures say nothing.")
@click.option("--only", multiple=True, help="Systems, by name. Default: all.")
@click.option("--partitions", type=click.IntRange(1), help="How many there are. Default: 64.")
@click.option("--rate", type=click.IntRange(1), help="Messages in a second. Default: 2,000.")
@click.option("--chart", type=click.Path(path_type=Path), help="Draw the pauses into this SVG.")
@click.option("--keep", type=click.Path(path_type=Path), help="A directory for logs and records.")
def main(
    quick: bool, only: Sequence[str], partitions: int | None, rate: int | None, chart: Path | None, keep: Path | None
) -> None:
    """Print a table, then one line of JSON."""
    extent = QUICK if quick else Extent()
    extent = replace(extent, partitions=partitions or extent.partitions, rate=rate or extent.rate)
    chosen = [one for one in SYSTEMS if (one.quick or not quick) and (not only or one.name in only)]
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-bench-")))
        folder.mkdir(parents=True, exist_ok=True)
        redis = stack.enter_context(RedisServer())
        broker = stack.enter_context(KafkaBroker(BROKER_SETTINGS, measured=not quick))
        cluster = stack.enter_context(Kubernetes(node=False))
        print(f"{'':26}{'':18}{''.join(f'{title:>10}' for _, title in _COLUMNS)}", flush=True)
        warming = [] if quick else [replace(one, name=f"warming-{one.name}") for one in chosen if one.warms]
        rows, totals = asyncio.run(_measured(warming, chosen, cluster.kubeconfig, redis, broker, folder, extent))
    if chart is not None:
        chart.write_text(draw(rows))
    print(json.dumps({"rows": rows, "systems": totals}))


async def _measured(
    warming: Sequence[Compared],
    chosen: Sequence[Compared],
    kubeconfig: Path,
    redis: RedisServer,
    broker: KafkaBroker,
    folder: Path,
    extent: Extent,
) -> tuple[list[Row], list[Row]]:
    rows: list[Row] = []
    totals: list[Row] = []
    async with connect(kubeconfig) as (plain, _):
        api = Cluster(plain._client)
        await apply_crds(api)
        place = Place(api, kubeconfig, redis, broker, folder)
        for compared in warming:
            await _lived(compared, place, extent)
        for compared in chosen:
            began = time.monotonic()
            fleet, sent = await _lived(compared, place, extent)
            for row in _rows(compared.name, fleet):
                rows.append(row)
                print(f"{row['system']:26}{row['event']:18}{''.join(f'{row[key]:>10,g}' for key, _ in _COLUMNS)}", flush=True)
            missing = fleet.record.missing(sent)
            totals.append({"system": compared.name, "sent": sum(sent), "missing": missing, "seconds": time.monotonic() - began})
            tell(f"{compared.name}: {sum(sent):,} sent, {missing} of them not handled, {time.monotonic() - began:.0f} s")
    return rows, totals


async def _lived(compared: Compared, place: Place, extent: Extent) -> tuple[Fleet, list[int]]:
    output = place.folder / f"{compared.name}.handled"
    with Members(place.folder / f"{compared.name}.log") as members:
        async with compared.open(place, members, output, compared.name, extent.partitions) as system:
            arguments = (*system.load, str(extent.partitions), str(extent.rate))
            command = [sys.executable, "-m", "tests.bench.handoff.load", *arguments]
            with ChildProcess(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
                fleet = Fleet(system, output, extent, lambda event: tell(f"{compared.name}: {event}"))
                await fleet.live()
                answer, _ = await asyncio.to_thread(load.communicate)
            sent: list[int] = json.loads(answer)

            def drained() -> bool:
                fleet.look()
                return not fleet.record.missing(sent)

            try:
                await asyncio.to_thread(until, drained, "all is handled", 20)
            except AssertionError:
                tell(f"{compared.name}: not all was handled")
    return fleet, sent


def _rows(name: str, fleet: Fleet) -> Iterator[Row]:
    for window in fleet.windows:
        found = effect(fleet.record, window.begun, window.ended, window.acted)
        pauses, everybody = spread(found.pauses), spread(found.all_pauses)
        yield {
            "system": name,
            "event": window.event,
            "paused_partitions": found.paused_partitions,
            "pause_ms_p50": round(pauses[0]),
            "pause_ms_p99": round(pauses[1]),
            "pause_ms_max": round(pauses[2]),
            "all_ms_p50": round(everybody[0]),
            "all_ms_max": round(everybody[2]),
            "moves": found.moves,
            "duplicates": found.duplicates,
            "order_violations": found.order_violations,
            "balanced_ms": round(1e3 * found.balanced_after) if window.settled else -1,
        }


if __name__ == "__main__":
    main()
