"""Consume and commit, Baton's reader and consumer of Kafka beside confluent-kafka with its auto-commit.

All read the same messages from one broker that is started here, as processes of their own and by turns, round by round: what else
the machine does is felt by all. A table for people, and a last line of JSON.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

import click
from confluent_kafka import Producer

from baton.model.ledger import MemberEntry
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import Claimant
from tests.bench.comparison import Case, compared, report, tell
from tests.bench.throughput.consuming import EPOCH, PARTITIONS, POD, QUEUE, SIDES, UID
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.processes import ChildProcess
from tests.waiting import PATIENCE

_ROOT = Path(__file__).parents[3]
_TOPIC = "orders"
_VALUE = b"." * 100
_PEER = next(iter(SIDES))


class Extent(NamedTuple):
    """How much is measured."""

    rounds: int
    messages: int
    every: tuple[int, ...]
    """Messages in a batch."""


WHOLE = Extent(5, 400_000, (100, 1000))
QUICK = Extent(1, 2_000, (100,))


@click.command()
@click.option("--quick", is_flag=True, help="A few messages only, to see that it works: the figures say nothing.")
def main(quick: bool) -> None:
    """Print a table, then one line of JSON."""
    extent = QUICK if quick else WHOLE
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-bench-")))
        broker = stack.enter_context(KafkaBroker(measured=True))
        broker.make_topic(_TOPIC, PARTITIONS)
        _fill(broker, extent.messages)
        asyncio.run(_grant(broker, folder / "first"))  # the broker makes its own topics, for offsets and transactions
        report(_cases(broker, folder, extent), 76, "confluent")


def _cases(broker: KafkaBroker, folder: Path, extent: Extent) -> Iterator[Case]:
    groups = count(1)
    for every in extent.every:
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        for nth in range(extent.rounds):
            for side, results in found.items():
                tell(f"{side}, every {every}: round {nth + 1} of {extent.rounds}")
                results.append(_consumed(broker, side, folder / f"group-{next(groups)}", extent.messages, every))
        rates, worked = ({side: [one[place] for one in those] for side, those in found.items()} for place in (0, 1))
        for side in list(found)[1:]:
            yield compared(f"{side}, every {every:,}", "messages/s", rates[side], rates[_PEER])
            yield compared(f"processor time, {side}, every {every:,}", "µs/message", worked[side], worked[_PEER])


def _fill(broker: KafkaBroker, messages: int) -> None:
    producer = Producer(
        {**ORDERED, "bootstrap.servers": broker.servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    for nth in range(messages):
        producer.produce(_TOPIC, _VALUE, b"key", partition=nth % PARTITIONS)
        if not nth % 1000:
            producer.poll(0)
    if left := producer.flush(4 * PATIENCE):
        raise RuntimeError(f"{left} messages were not sent")


def _consumed(broker: KafkaBroker, side: str, ledger: Path, messages: int, every: int) -> tuple[float, float]:
    """Messages per second, and microseconds of processor time for each; in a group of its own."""
    ledger.mkdir()
    grants = {QUEUE: dict.fromkeys(range(PARTITIONS), EPOCH)}
    (ledger / POD).write_text(MemberEntry("bench/group", POD, UID, 1, True, grants, {}).to_json())
    if side != _PEER:
        asyncio.run(_grant(broker, ledger))
    arguments = (side, broker.servers, _TOPIC, str(ledger), str(messages), str(every))
    command = [sys.executable, "-m", "tests.bench.throughput.consuming", *arguments]
    with ChildProcess(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        print("go", file=process.stdin, flush=True)
        if not (answer := process.stdout.readline()):
            raise RuntimeError(f"{side}: the consumer's process ended with status {process.wait()}")
    took = json.loads(answer)
    asyncio.run(_all_committed(broker, side, ledger))
    return messages / took["seconds"], 1e6 * took["worked"] / messages


def _operator(broker: KafkaBroker, ledger: Path) -> KafkaQueue:
    spec = TopicToOpen(topic=_TOPIC, queue=QUEUE, latest=False, max_redeliveries=0, dead_letters="")
    return KafkaQueue(KafkaAddress((broker.servers,)), ledger.name, spec, Claimant("bench/group", "uid-of-the-group"))


async def _grant(broker: KafkaBroker, ledger: Path) -> None:
    """What the operator does."""
    operator = _operator(broker, ledger)
    await operator.ensure(None)
    for number in range(PARTITIONS):
        await operator.grant(number, UID, EPOCH)
    await operator.close()


async def _all_committed(broker: KafkaBroker, side: str, ledger: Path) -> None:
    operator = _operator(broker, ledger)
    left = sum((await operator.check()).lag.values())
    await operator.close()
    if left:
        raise RuntimeError(f"{side}: {left} messages were handled and not committed")


if __name__ == "__main__":
    main()
