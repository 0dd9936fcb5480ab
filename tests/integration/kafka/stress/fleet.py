"""A topic under load, its operator's side, and owners that come to harm."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import IO, Self

from confluent_kafka import Producer

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.adapter import KafkaQueue
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.stress.verdict import Line, lines
from tests.kafka_broker import ORDERED, STARTS_WITHIN
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, eventually, until

ROOT = Path(__file__).parents[4]
_TAIL = 4096
"""Bytes at the end of the file in which each partition has a line, where all are worked on."""
_NOBODYS = "belongs to nobody"
"""In what an owner says."""


class Fleet:
    """Use it in `async with`. Values are sent round and round the partitions until its end."""

    def __init__(
        self, servers: str, topic: str, group: str, operators: list[KafkaQueue], folder: Path, seed: int, out: str | None = None
    ) -> None:
        """`out`: owners are consumers that send outputs to this topic."""
        self.operators = operators
        self.partitions = 4
        self.owners: dict[int, tuple[str, int]] = {}
        """Of each partition: UID and epoch."""
        self.sent: Counter[int] = Counter()
        self.chance = random.Random(seed)
        self._servers, self._topic, self._group, self._out = servers, topic, group, out
        self._folder = folder
        self._output = folder / "lines"
        self._output.touch()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names = 0
        self._quiet = threading.Event()
        self._load = threading.Thread(target=self._send, daemon=True)

    async def __aenter__(self) -> Self:
        self._load.start()
        for _ in range(3):
            self._start()
        for partition in range(self.partitions):
            await self.grant(partition)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.quiet()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def lines(self) -> list[Line]:
        return lines(self._output.read_text())

    def complaints(self) -> str:
        """What owners said of their queue."""
        return "".join(log.read_text() for log in sorted(self._folder.glob("*.log")))

    def _log(self, uid: str) -> str:
        return (self._folder / f"{uid}.log").read_text()

    def quiet(self) -> None:
        """No more load."""
        self._quiet.set()
        self._load.join(PATIENCE)

    async def grant(self, partition: int, *, without: str | None = None, race: bool = False) -> None:
        """To one of the others; `race`: by all operators at once, each to the same."""
        before, epoch = self.owners.get(partition, ("", 0))
        uid = self.chance.choice([uid for uid in self._processes if uid not in (before, without)])
        operators = self.operators if race else self.operators[:1]
        until = asyncio.get_running_loop().time() + STARTS_WITHIN + PATIENCE  # a broker that was killed starts meanwhile
        with self._output.open("a") as file:
            file.write(f"granting {partition} {epoch + 1} 0 0\n")

        async def granted(operator: KafkaQueue) -> None:
            while True:
                try:
                    assert await operator.grant(partition, Uid(uid), Epoch(epoch + 1)) == (uid, epoch + 1, False)
                    return
                except QueueUnreachable:  # the broker is away
                    assert asyncio.get_running_loop().time() < until
                    await asyncio.sleep(0.05)

        await asyncio.gather(*map(granted, operators))
        self.owners[partition] = (uid, epoch + 1)
        self._tell(uid, partition)

    async def stopped(self, *, race: bool) -> None:
        """An owner sleeps while its partition is granted to another, which works on it; then it goes on."""
        partition, uid = await self._somebody_at_work()
        self._processes[uid].send_signal(signal.SIGSTOP)
        await self.grant(partition, without=uid, race=race)
        await self.works(partition)
        self._processes[uid].send_signal(signal.SIGCONT)

    async def killed(self) -> None:
        """An owner ends; its partitions are granted to the others, and there is a new process."""
        _, uid = await self._somebody_at_work()
        process = self._processes.pop(uid)
        process.kill()
        process.wait()
        for partition, (owner, _) in list(self.owners.items()):
            if owner == uid:
                await self.grant(partition)
                await self.works(partition)
        self._start()

    async def restarted(self) -> None:
        """A process ends, and its pod starts another, which owns what the first one did."""
        partition, uid = await self._somebody_at_work()
        process = self._processes.pop(uid)
        process.kill()
        process.wait()
        self._start(uid)
        for number, (owner, _) in self.owners.items():
            if owner == uid:
                self._tell(uid, number)
        await self.works(partition)

    def busy(self) -> float:
        """Seconds of a processor that the owners have had."""
        ticks = 0
        for process in self._processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def under_way(self) -> list[int]:
        """Partitions whose owner has handled something and waits for its commit."""
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - _TAIL))
            text = file.read().decode()
        all_of_them = lines(text.partition("\n")[2].rpartition("\n")[0])
        latest = {line.partition: line for line in all_of_them if line.what != "granting"}
        return [number for number, line in latest.items() if line.what == "handled"]

    async def frozen(self) -> None:
        """All owners sleep, each at any moment of its work."""
        for partition in self.owners:
            await self.works(partition)
        for process in self._processes.values():
            await asyncio.sleep(self.chance.random() * 0.01)
            process.send_signal(signal.SIGSTOP)

    async def refused(self) -> None:
        """They go on, and each is told that its partitions are nobody's."""
        said = {uid: len(self._log(uid)) for uid in self._processes}
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)

        async def so() -> bool:
            return all(
                f"partition {partition} {_NOBODYS}" in self._log(uid)[said[uid] :] for partition, (uid, _) in self.owners.items()
            )

        async def shown() -> str:
            return self.complaints()[-3000:]

        await eventually(so, "each owner is refused", PATIENCE, shown)

    async def _somebody_at_work(self) -> tuple[int, str]:
        """At any moment of its work."""
        partition = self.chance.choice(list(self.owners))
        await self.works(partition)
        await asyncio.sleep(self.chance.random() * 0.03)
        return partition, self.owners[partition][0]

    async def works(self, partition: int) -> None:
        """Until its owner has finished something."""
        _, epoch = self.owners[partition]
        begun = self._output.stat().st_size

        async def so() -> bool:
            with self._output.open() as file:
                file.seek(begun)
                text = file.read()
            done = "handled" if self._out else "taken"
            return any(line[:3] == (done, partition, epoch) for line in lines(text.rpartition("\n")[0]))

        async def shown() -> str:
            uid = self.owners[partition][0]
            process = self._processes[uid]
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)  # it writes down where its threads are
                await asyncio.to_thread(until, lambda: "Current thread" in self._log(uid))
            return f"ended with {process.returncode}: {self._log(uid)[-6000:]}"

        await eventually(so, f"partition {partition} is worked on at epoch {epoch} by {self.owners[partition][0]}", shown=shown)

    def _start(self, uid: str | None = None) -> None:
        if uid is None:
            self._names += 1
            uid = f"pod-{self._names}"
        environment = {"URL": f"kafka://{self._servers}", "GROUP": self._group, "POD_UID": uid, "OUTPUT": str(self._output)}
        program = "owner_program" if self._out is None else "transaction_program"
        environment["OUT"] = self._out or ""
        with (self._folder / f"{uid}.log").open("ab") as log:
            command = [sys.executable, "-m", f"tests.integration.kafka.stress.{program}"]
            options = {"cwd": ROOT, "env": {**os.environ, **environment}, "stdin": subprocess.PIPE, "stderr": log}
            self._processes[uid] = ChildProcess(command, **options)  # type: ignore[call-overload] # a Popen's options

    def _tell(self, uid: str, partition: int) -> None:
        stdin: IO[bytes] | None = self._processes[uid].stdin
        assert stdin is not None
        stdin.write(f"{partition} {self.owners[partition][1]}\n".encode())
        stdin.flush()

    def _send(self) -> None:
        producer = Producer({**ORDERED, "bootstrap.servers": self._servers, "linger.ms": 2, "message.timeout.ms": 300_000})
        while not self._quiet.wait(0.01):
            for partition in range(self.partitions):
                producer.produce(self._topic, b"", partition=partition)
                self.sent[partition] += 1
            producer.poll(0)
        producer.flush(PATIENCE)
