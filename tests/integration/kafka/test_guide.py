"""The guide's program sends its outputs exactly once, although one of its processes is killed."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from tests.integration.kafka.conftest import Queue
from tests.integration.kafka.reading import committed_values
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, eventually, until

ROOT = Path(__file__).parents[3]
GUIDES = "".join((ROOT / "docs" / "guides" / page).read_text() for page in ("kafka.md", "consumer.md"))
PROGRAMS = re.findall(r"^```python\n(.*?)^```", GUIDES, re.DOTALL | re.MULTILINE)
PROGRAM, MODELS = (next(one for one in PROGRAMS if part in one) for part in (".transaction(", "BaseModel"))


async def start(queue: Queue, directory: Path, uid: str, epoch: int, program: str = PROGRAM) -> "subprocess.Popen[bytes]":
    """Start a pod's container that is granted all partitions."""
    ledger = directory / uid
    ledger.mkdir()
    for partition in range(4):
        await queue.operator.grant(partition, Uid(uid), Epoch(epoch))
    owned = {QueueName("orders"): {partition: Epoch(epoch) for partition in range(4)}}
    (ledger / "pod").write_text(MemberEntry("shop/orders", MemberId("pod"), Uid(uid), 1, True, owned, {}).to_json())
    arguments = (uid, str(ledger), f"kafka://{queue.broker.servers}", queue.group)
    with (directory / f"log-{uid}").open("w") as log:
        command = (sys.executable, str(Path(__file__).with_name("guide_program.py")), *arguments)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = ChildProcess(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=directory, env=environment)
    assert process.stdin is not None
    process.stdin.write(program.encode())
    process.stdin.close()
    return process


async def test_the_guides_program_sends_exactly_once_although_it_is_killed(queue: Queue, tmp_path: Path) -> None:
    for topic in ("payments", "audit"):
        queue.broker.make_topic(topic, 3)
    for partition in range(4):
        orders = [json.dumps({"id": f"{partition}-{number}", "amount": number}) for number in range(300)]
        queue.send(*orders, partition=partition, key=f"k{partition}")

    def sent() -> int:
        return sum(map(len, committed_values(queue.broker, "payments")))

    first = await start(queue, tmp_path, "first", 1)
    await asyncio.to_thread(until, sent, "some is sent")
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = await start(queue, tmp_path, "second", 2)
    try:
        await asyncio.to_thread(until, lambda: sent() >= 1200, "all is sent", 2 * PATIENCE)
    finally:
        second.kill()
        second.wait()
    paid = [json.loads(value or b"") for values in committed_values(queue.broker, "payments") for value in values]
    for partition in range(4):
        orders = [payment["order"] for payment in paid if payment["order"].startswith(f"{partition}-")]
        assert orders == [f"{partition}-{number}" for number in range(300)]
    assert sum(map(len, committed_values(queue.broker, "audit"))) == 1200


WITHOUT_KEYS = """
import threading
from baton.consumer import Consumer

together = threading.Barrier(8)

def handle(entry):
    if int(entry.value) < 8:
        together.wait()
    print("done", entry.key, entry.value, flush=True)

Consumer.from_environment().run(handle, concurrency=8, order="key")
"""


@pytest.mark.parametrize(("key", "beside"), [(None, True), ("", False)], ids=["none", "empty"])
async def test_entries_without_a_key_are_processed_in_parallel(
    queue: Queue, tmp_path: Path, key: str | None, beside: bool
) -> None:
    """An empty key is a key in Kafka."""
    queue.send(*map(str, range(0 if beside else 8, 20)), key=key)
    process = await start(queue, tmp_path, "pod", 1, WITHOUT_KEYS)

    async def all_committed() -> bool:
        return await queue.committed() == (20 if beside else 12)

    try:
        await eventually(all_committed, "all is committed")
    finally:
        process.kill()
        process.wait()
    done = re.findall("done .*'(.*)'", (tmp_path / "log-pod").read_text())
    assert beside or done == [str(number) for number in range(8, 20)]


async def test_a_tombstone_does_not_validate(queue: Queue, tmp_path: Path) -> None:
    queue.broker.make_topic(f"{queue.topic}.dead-letters", 1)
    queue.send('{"id": 1, "amount": 2.5}', None, '{"id": 3, "amount": 4}', key="k")
    process = await start(queue, tmp_path, "pod", 1, MODELS)

    async def all_committed() -> bool:
        return await queue.committed() == 3

    try:
        await eventually(all_committed, "all is committed")
    finally:
        process.kill()
        process.wait()
    log = (tmp_path / "log-pod").read_text()
    assert [line for line in log.splitlines() if line.startswith("b'k'")] == ["b'k' 1 2.5", "b'k' 3 4.0"]
    assert re.search("entry 1 moved to dead letters: .* 1 validation error for Order Input should be a valid dictionary", log)
