"""`baton offsets` of a group on a topic: Kafka's own offsets, which Kafka's own tool sets."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.integration.operator.conftest import namespace
from tests.integration.operator.kafka.test_kafka import queue_of, send
from tests.integration.operator.world import Cluster, Operator
from tests.kafka_broker import KafkaBroker
from tests.waiting import eventually

BATON = Path(sys.executable).parent / "baton"


async def test_offsets_of_a_topic_are_shown_and_set_by_kafkas_own_tool(
    api: Cluster, start: Callable[..., Operator], kubeconfig: Path, broker: KafkaBroker
) -> None:
    world = await namespace(api, "kafka-offsets")
    await start(world, "one").leads()
    broker.make_topic("told", 2)
    await queue_of(world, broker, "told", "told")
    await world.group("told")
    await world.pod("told-a", "told")
    await world.spread("told", 2, seconds=30)
    send(broker, "told", 1, "a", "b", "c")

    async def baton(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(BATON), "offsets", *arguments, "--kubeconfig", str(kubeconfig), "-n", "kafka-offsets"]
        return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)

    async def rows() -> object:
        done = await baton("told", "-o", "json")
        found = json.loads(done.stdout or "[]")
        wanted = ("partition", "offset", "earliest", "end", "lag", "pending", "owner")
        return [tuple(row[name] for name in wanted) for row in found], done.stderr

    async def told() -> bool:
        return await rows() == ([(0, 0, 0, 0, 0, None, "told-a"), (1, 0, 0, 3, 3, None, "told-a")], "")

    await eventually(told, "the group has its offsets", shown=rows)
    table = (await baton("told")).stdout.splitlines()
    assert table[2].split() == ["told", "1", "0", "3", "3", "?", "told-a"]
    reset = await baton("reset", "told", "--to", "latest", "--yes")
    by = "kafka-consumer-groups.sh --reset-offsets, on a paused group without pods: docs/guides/kafka.md says how"
    assert reset.stderr == f"baton offsets reset: the offsets of told, of type Kafka, are set by {by}\n"
    assert reset.returncode == 1
