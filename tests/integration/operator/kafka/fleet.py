"""A group on topics: load, consumers as processes, and what they have handled, in the order in which they did."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Producer

from baton.model.ids import Partition, QueueName
from tests.integration.operator.world import ROOT, World
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.load.ledger_watch import LedgerWatch
from tests.processes import ChildProcess
from tests.promises import promised
from tests.waiting import PATIENCE, eventually

UNHURRIED = 600
"""Seconds for a hand-off, where a test says that all are graceful: a slow machine is no reason to cut anybody off."""


class Handled(NamedTuple):
    """A line of the shared file."""

    partition: Partition
    offset: int
    epoch: int
    redelivered: bool
    pod: str


class KafkaFleet:
    """A context manager. Values are sent round and round the partitions until `quiet`."""

    def __init__(
        self,
        world: World,
        kubeconfig: Path,
        broker: KafkaBroker,
        topics: Mapping[str, int],
        group: str,
        folder: Path,
        group_id: str = "",
        pods_url: str | None = None,
        every: float = 0.02,
    ) -> None:
        """`topics`: how many partitions each has. Their queues have the same names. `pods_url`: by which pods come to the
        broker. `every`: seconds after which eight more are sent."""
        self._world, self._kubeconfig, self._broker = world, kubeconfig, broker
        self.topics, self.group = dict(topics), group
        self._url = (pods_url or f"kafka://{broker.servers}") + (f"/?group={group_id}" if group_id else "")
        self._folder, self._every = folder, every
        self._mount = folder / "assignments"
        self._mount.mkdir()
        self.output = folder / "handled"
        self.output.touch()
        self.takes = 0.002
        """Seconds for an entry, of the pods that join."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.sent: Counter[Partition] = Counter()
        self._quiet = threading.Event()
        self._load = threading.Thread(target=self._send, daemon=True)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(LedgerWatch(self._kubeconfig, self._world.namespace, self.group, self._mount))
        self._load.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.quiet()
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._stack.close()

    async def join(self, *pods: str, **metadata: Any) -> None:
        for pod in pods:
            self._start(pod, await self._world.pod(pod, self.group, **metadata))

    async def leave(self, pod: str) -> None:
        """As a pod that is deleted: it is told, and is gone when its process is."""
        await self._world.terminate(pod, grace=UNHURRIED)
        self.processes[pod].send_signal(signal.SIGTERM)
        await asyncio.to_thread(self.processes[pod].wait, PATIENCE)
        await self._world.delete_pod(pod)

    async def die(self, pod: str) -> None:
        """As a pod whose process was killed, and that is removed."""
        self.processes.pop(pod).kill()
        await self._world.delete_pod(pod)

    def freeze(self, pod: str) -> None:
        self.processes[pod].send_signal(signal.SIGSTOP)

    def thaw(self, pod: str) -> None:
        self.processes[pod].send_signal(signal.SIGCONT)

    def quiet(self) -> None:
        """End the load."""
        self._quiet.set()
        self._load.join(PATIENCE)

    async def handles(self, more: int = 300, *, of: Collection[Partition] = ()) -> None:
        """Wait until `more` entries have been handled, some of each partition, or of each of these."""
        before = len(self.handled())
        every = {*of} or {Partition(QueueName(topic), number) for topic, count in self.topics.items() for number in range(count)}

        async def so() -> bool:
            found = self.handled()[before:]
            return len(found) > more and every <= {one.partition for one in found}

        await eventually(so, "entries are handled")

    async def done(self) -> "Verdict":
        """Wait until all that was sent is handled. It is a broken promise if some of it was lost or out of order, or repeated
        without a mark."""
        self.quiet()

        async def found() -> Verdict:
            return verdict(self.handled(), self.sent)

        async def so() -> bool:
            return (await found()).missing == 0

        await eventually(so, "all is handled", shown=found)
        whole = await found()
        with promised():
            assert (whole.missing, whole.out_of_order, whole.unmarked) == (0, [], []), whole
        return whole

    def handled(self) -> list[Handled]:
        lines = (line.split() for line in self.output.read_text().splitlines())
        return [
            Handled(Partition(QueueName(queue), int(number)), int(offset), int(epoch), again == "1", pod)
            for queue, number, offset, epoch, again, pod in lines
        ]

    def log(self, pod: str) -> str:
        return (self._folder / f"{pod}.log").read_text()

    def _start(self, pod: str, uid: str) -> None:
        environment = {
            "KUBECONFIG": str(self._kubeconfig),
            "BATON_KAFKA_URL": self._url,
            "BATON_LEDGER": str(self._mount),
            "BATON_GROUP": self.group,
            "POD_NAME": pod,
            "POD_NAMESPACE": self._world.namespace,
            "POD_UID": uid,
            "OUTPUT": str(self.output),
            "TAKES": str(self.takes),
            "TMPDIR": str(self._folder),
        }
        with (self._folder / f"{pod}.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.integration.operator.kafka.consumer_program"]
            self.processes[pod] = ChildProcess(command, cwd=ROOT, env={**os.environ, **environment}, stderr=log)

    def _send(self) -> None:
        producer = Producer(
            {**ORDERED, "bootstrap.servers": self._broker.servers, "linger.ms": 5, "topic.metadata.refresh.interval.ms": 500}
        )
        number = 0
        while not self._quiet.wait(self._every):
            all_of_them = [Partition(QueueName(topic), n) for topic, count in self.topics.items() for n in range(count)]
            for _ in range(8):
                partition = all_of_them[number % len(all_of_them)]
                producer.produce(partition.queue, str(number), partition=partition.number)
                self.sent[partition] += 1
                number += 1
            producer.poll(0)
        producer.flush(PATIENCE)


class Verdict(NamedTuple):
    """What became of all that was sent."""

    missing: int
    """Entries that no pod handled."""
    out_of_order: list[Handled]
    """Handled for the first time although an earlier one of its partition had not been."""
    repeated: list[tuple[Handled, Handled]]
    """Handlings of what had been handled, each behind the one before it in its partition."""
    unmarked: list[Handled]
    """Of these, by the owner and not marked redelivered."""


def verdict(handled: list[Handled], sent: Counter[Partition]) -> Verdict:
    """From all lines, in their order."""
    reached: defaultdict[Partition, int] = defaultdict(int)
    epochs: defaultdict[Partition, int] = defaultdict(int)
    out_of_order, unmarked, repeated = [], [], []
    last: dict[Partition, Handled] = {}
    for one in handled:
        if one.offset < reached[one.partition]:
            repeated.append((last[one.partition], one))
            if one.epoch >= epochs[one.partition] and not one.redelivered:
                unmarked.append(one)
        elif one.offset > reached[one.partition]:
            out_of_order.append(one)
        last[one.partition] = one
        reached[one.partition] = max(reached[one.partition], one.offset + 1)
        epochs[one.partition] = max(epochs[one.partition], one.epoch)
    missing = sum(count - reached[partition] for partition, count in sent.items())
    return Verdict(missing, out_of_order, repeated, unmarked)
