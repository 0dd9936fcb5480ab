"""A topic under load, operators, and owners that are stopped or killed."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO, Self

from confluent_kafka import Producer

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.adapter import KafkaQueue
from baton.queues.protocol import IN_USE, Ownership, QueueUnreachable
from tests.integration.kafka.stress.verdict import Line, lines
from tests.kafka_broker import ORDERED, STARTS_WITHIN
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, eventually, until

ROOT = Path(__file__).parents[4]
_AHEAD = 200
"""Most entries of a partition that wait for its owner."""
_TAIL = 4096
"""Bytes at the end of the file that include a line of each partition while all are worked on."""
_LEDGER_COMES_WITHIN, _DEADLINE = 1.0, 2.0
"""Seconds from a pause on. An owner that has heard of the pause hands its partition over within the first."""
_NOBODYS = "belongs to no pod"
"""Part of an owner's error."""


class Fleet:
    """A context manager; values are sent to all partitions in turn until its end."""

    def __init__(
        self, servers: str, topic: str, group: str, operators: list[KafkaQueue], folder: Path, seed: int, out: str | None = None
    ) -> None:
        """`out`: the owners are consumers that send outputs to this topic."""
        self.operators = operators
        self.partitions = 4
        self.owners: dict[int, tuple[str, int]] = {}
        """UID and epoch by partition."""
        self.sent: Counter[int] = Counter()
        self.handed_over = 0
        """Number of direct hand-offs."""
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
        """Return the owners' errors."""
        return "".join(log.read_text() for log in sorted(self._folder.glob("*.log")))

    def _log(self, uid: str) -> str:
        return (self._folder / f"{uid}.log").read_text()

    def quiet(self) -> None:
        """End the load."""
        self._quiet.set()
        self._load.join(PATIENCE)

    async def grant(self, partition: int, *, without: str | None = None, race: bool = False) -> None:
        """Grant the partition to another owner. `race`: all operators grant it to that owner at the same time."""
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
        """Stop an owner, grant its partition to another, and let the first one go on after that has worked."""
        partition, uid = await self._owner_at_work()
        self._processes[uid].send_signal(signal.SIGSTOP)
        await self.grant(partition, without=uid, race=race)
        await self.works(partition)
        self._processes[uid].send_signal(signal.SIGCONT)

    async def hands_over(self) -> None:
        """Have an owner hand its partition to a receiver. Either may be stopped or killed meanwhile."""
        partition = self.chance.choice(list(self.owners))
        await self._marks_nothing(partition)
        giver, epoch = self.owners[partition][0], Epoch(self.owners[partition][1])
        receiver = self.chance.choice([uid for uid in self._processes if uid != giver])
        then = Ownership(Uid(receiver), Epoch(epoch + 1))
        left = await self.operators[0].pause(partition, epoch, PATIENCE, then)
        harmed = self.chance.choice((None, None, giver, receiver))
        harm = signal.SIGSTOP if self.chance.random() < 0.5 else signal.SIGKILL
        begun, told_after = time.monotonic(), self.chance.random() * _LEDGER_COMES_WITHIN

        async def waits_for(seconds: float) -> None:
            nonlocal left
            while left in (1, IN_USE) and time.monotonic() - begun < seconds:
                await asyncio.sleep(0.005)
                left = await self.operators[0].outstanding(partition)

        await waits_for(told_after)
        if harmed:
            self._processes[harmed].send_signal(harm)
        if harmed != giver:
            self._tell(giver, partition, "revoking")  # it need not have heard what was announced
            await waits_for(_DEADLINE)  # an owner that gives an entry up cannot report its release: it has no Lease here
        self.handed_over += left == then
        if left != then:
            assert (await self.operators[0].grant(partition, then.uid, then.epoch))[:2] == then[:2]
        self.owners[partition] = (receiver, then.epoch)
        if harmed == receiver:
            await self.grant(partition)
        else:
            self._tell(receiver, partition)
        await self.works(partition)
        if harmed and harm == signal.SIGKILL:
            await self._gone(harmed)
        elif harmed:
            self._processes[harmed].send_signal(signal.SIGCONT)

    async def _marks_nothing(self, partition: int) -> None:
        """Wait until no entry is to be marked as redelivered: otherwise only the operator can grant the partition."""

        async def so() -> bool:
            seen = await self.operators[0]._before(partition)
            here = seen.record.at(seen.offset) if seen.record is not None else None
            return here is not None and here.epoch == self.owners[partition][1] and not (here.marked or here.tries or here.ends)

        uid = self.owners[partition][0]
        await eventually(so, f"nothing of {partition} is to be marked any more", shown=lambda: self._shown(uid))

    async def killed(self) -> None:
        """Kill an owner, grant its partitions to the others, and start another process."""
        _, uid = await self._owner_at_work()
        self._processes[uid].kill()
        await self._gone(uid)

    async def _gone(self, uid: str) -> None:
        """Replace a killed process, and grant its partitions."""
        self._processes.pop(uid).wait()
        for partition, (owner, _) in list(self.owners.items()):
            if owner == uid:
                await self.grant(partition)
                await self.works(partition)
        self._start()

    async def restarted(self) -> None:
        """Kill a process, and start another of the same pod, which owns the same partitions."""
        partition, uid = await self._owner_at_work()
        process = self._processes.pop(uid)
        process.kill()
        process.wait()
        self._start(uid)
        for number, (owner, _) in self.owners.items():
            if owner == uid:
                self._tell(uid, number)
        await self.works(partition)

    def busy(self) -> float:
        """Return the owners' processor time in seconds."""
        ticks = 0
        for process in self._processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def under_way(self) -> list[int]:
        """Return the partitions whose owner waits for a commit."""
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - _TAIL))
            text = file.read().decode()
        all_of_them = lines(text.partition("\n")[2].rpartition("\n")[0])
        latest = {line.partition: line for line in all_of_them if line.what != "granting"}
        return [number for number, line in latest.items() if line.what == "handled"]

    async def frozen(self) -> None:
        """Stop all owners at random moments."""
        for partition in self.owners:
            await self.works(partition)
        for process in self._processes.values():
            await asyncio.sleep(self.chance.random() * 0.01)
            process.send_signal(signal.SIGSTOP)

    async def refused(self) -> None:
        """Let all owners go on; returns when each has been refused."""
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

    async def _owner_at_work(self) -> tuple[int, str]:
        """Choose a partition, and return it with its owner at a random moment of its work."""
        partition = self.chance.choice(list(self.owners))
        await self.works(partition)
        await asyncio.sleep(self.chance.random() * 0.03)
        return partition, self.owners[partition][0]

    async def works(self, partition: int) -> None:
        """Wait until the partition's owner has finished an entry."""
        _, epoch = self.owners[partition]
        begun = self._output.stat().st_size

        async def so() -> bool:
            with self._output.open() as file:
                file.seek(begun)
                text = file.read()
            done = "handled" if self._out else "taken"
            return any(line[:3] == (done, partition, epoch) for line in lines(text.rpartition("\n")[0]))

        uid = self.owners[partition][0]
        await eventually(so, f"partition {partition} is worked on at epoch {epoch} by {uid}", shown=lambda: self._shown(uid))

    async def _shown(self, uid: str) -> str:
        """Return this owner's log, with the stacks of its threads."""
        process = self._processes[uid]
        if process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            await asyncio.to_thread(until, lambda: "Current thread" in self._log(uid))
        return f"ended with {process.returncode}: {self._log(uid)[-6000:]}"

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

    def _tell(self, uid: str, partition: int, what: str = "owned") -> None:
        stdin: IO[bytes] | None = self._processes[uid].stdin
        assert stdin is not None
        stdin.write(f"{partition} {self.owners[partition][1]} {what}\n".encode())
        stdin.flush()

    def _send(self) -> None:
        """Send values, never many more than owners have handled: a slow machine would take long to work them off."""
        producer = Producer({**ORDERED, "bootstrap.servers": self._servers, "linger.ms": 2, "message.timeout.ms": 300_000})
        reached, rest = Counter[int](), ""
        with self._output.open() as file:
            while not self._quiet.wait(0.01):
                whole, _, rest = (rest + file.read()).rpartition("\n")
                for line in lines(whole):
                    reached[line.partition] = max(reached[line.partition], line.offset + 1)
                for partition in range(self.partitions):
                    if self.sent[partition] - reached[partition] < _AHEAD:
                        producer.produce(self._topic, b"", partition=partition)
                        self.sent[partition] += 1
                producer.poll(0)
        producer.flush(PATIENCE)
