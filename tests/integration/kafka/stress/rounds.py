"""Rounds in which owners or brokers are stopped or killed, and their outcome."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from baton.model.ids import Epoch
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.record import Committed
from baton.queues.protocol import Claimant, QueueUnreachable
from tests.integration.kafka.reading import committed_values
from tests.integration.kafka.stress.fleet import Fleet
from tests.integration.kafka.stress.verdict import Line, OutputVerdict, Verdict, output_verdict, verdict
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.small_disk import SmallDisk
from tests.waiting import PATIENCE, eventually, until


class Outcome(NamedTuple):
    """The outcome of all rounds."""

    lines: list[Line]
    """Written by owners and operators."""
    sent: Mapping[int, int]
    """Number of entries sent, by partition."""
    said: str
    """The owners' errors."""
    handed_over: int
    """Number of direct hand-offs."""

    @property
    def handled(self) -> int:
        return sum(line.what == "handled" for line in self.lines)


async def rounds(
    broker: KafkaBroker, topic: str, folder: Path, count: int, seed: int, *, broker_dies_every: int = 0
) -> tuple[Verdict, int, str]:
    """Return the verdict, the number of entries handled, and the owners' errors. `broker_dies_every`: rounds; 0: never."""
    found = await _harmed(broker, topic, folder, count, seed, broker_dies_every)
    return verdict(found.lines, found.sent), found.handled, found.said


async def transaction_rounds(
    broker: KafkaBroker, topic: str, folder: Path, count: int, seed: int, *, broker_dies_every: int = 0
) -> tuple[OutputVerdict, Outcome]:
    """As `rounds`, with consumers that send an output for each entry to the existing topic `<topic>-out`, and with direct
    hand-offs."""
    out = f"{topic}-out"
    found = await _harmed(broker, topic, folder, count, seed, broker_dies_every, out)
    outputs = [(value or b"").decode() for values in await asyncio.to_thread(committed_values, broker, out) for value in values]
    return output_verdict(outputs, found.sent), found


async def coordinator_rounds(
    servers: Sequence[str], coordinator: KafkaBroker, topic: str, group: str, folder: Path, count: int, seed: int
) -> tuple[Verdict, int, str]:
    """Kill the group's coordinator while commits are under way. Grant about half of their partitions to others as soon as a
    broker answers. Return the verdict, how many commits were under way, and the owners' errors."""
    caught = 0
    async with _fleet(servers, topic, folder, seed, group=group) as fleet:
        for _ in range(count):
            for partition in fleet.owners:
                await fleet.works(partition)
            await asyncio.to_thread(until, fleet.under_way, "a commit is under way")
            coordinator.kill()
            under_way = fleet.under_way()
            caught += len(under_way)
            grants = [asyncio.create_task(fleet.grant(number)) for number in under_way if fleet.chance.random() < 0.5]
            await asyncio.to_thread(coordinator.start)
            await asyncio.gather(*grants)
        found = await _finished(fleet)
    return verdict(found.lines, found.sent), caught, found.said


async def full_disk_rounds(
    broker: KafkaBroker, disk: SmallDisk, topic: str, folder: Path, count: int, seed: int, out: str | None = None
) -> tuple[Outcome, float]:
    """Fill the disk until the broker ends itself; then free it and start the broker. Return the outcome, and the largest share of
    a processor that the owners took meanwhile. `out`: they are consumers that send outputs to this topic."""
    most = 0.0
    async with _fleet([broker.servers], topic, folder, seed, out=out) as fleet:
        for _ in range(count):
            for partition in fleet.owners:
                await fleet.works(partition)
            disk.fill()
            await asyncio.to_thread(until, lambda: broker.ended, "the broker ends itself")
            began, busy = time.monotonic(), fleet.busy()
            disk.free()
            await asyncio.to_thread(broker.start)
            most = max(most, (fleet.busy() - busy) / (time.monotonic() - began))
        return await _finished(fleet), most


async def place_rounds(
    broker: KafkaBroker, topic: str, folder: Path, count: int, seed: int
) -> tuple[list[Mapping[int, Committed]], list[Mapping[int, Committed]]]:
    """Set the offsets a little back while all owners are stopped; then wake them. Return for each round what was set, and what
    was committed after all owners were refused."""
    set_to: list[Mapping[int, Committed]] = []
    found: list[Mapping[int, Committed]] = []
    async with _fleet([broker.servers], topic, folder, seed) as fleet:
        (operator,) = fleet.operators
        for _ in range(count):
            await fleet.frozen()
            for number, one in (await operator.offsets()).items():
                place = max(0, (one.committed or 0) - fleet.chance.randrange(20))
                await operator.set_offset(number, Epoch(fleet.owners[number][1]), place)
            set_to.append(await operator._transactions.committed(tuple(fleet.owners)))
            await fleet.refused()
            found.append(await operator._transactions.committed(tuple(fleet.owners)))
            for partition in list(fleet.owners):
                await fleet.grant(partition)
    return set_to, found


async def _harmed(
    broker: KafkaBroker, topic: str, folder: Path, count: int, seed: int, broker_dies_every: int, out: str | None = None
) -> Outcome:
    async with _fleet([broker.servers], topic, folder, seed, operators=2, out=out) as fleet:
        for number in range(1, count + 1):
            if broker_dies_every and number % broker_dies_every == 0:
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
            match fleet.chance.randrange(6 if out is None else 12):
                case 0:
                    await fleet.killed()
                case 1:
                    await fleet.restarted()
                case 2:
                    await fleet.stopped(race=True)
                case 3 | 4 | 5:
                    await fleet.stopped(race=False)
                case _:
                    await fleet.hands_over()
        return await _finished(fleet)


@asynccontextmanager
async def _fleet(
    servers: Sequence[str],
    topic: str,
    folder: Path,
    seed: int,
    *,
    group: str = "",
    operators: int = 1,
    out: str | None = None,
) -> AsyncIterator[Fleet]:
    """Owners of a topic and so many operators, all ended after that. `group`: the default is `shop.<topic>`."""
    group = group or f"shop.{topic}"
    spec, claimant = TopicToOpen(topic=topic, queue="orders"), Claimant(group, "uid-of-the-group")
    made = [KafkaQueue(KafkaAddress(tuple(servers)), group, spec, claimant) for _ in range(operators)]
    try:
        await made[0].ensure(None)
        async with Fleet(",".join(servers), topic, group, made, folder, seed, out) as fleet:
            yield fleet
    finally:
        for operator in made:
            await operator.close()


async def _finished(fleet: Fleet) -> Outcome:
    """End the load, and wait until all entries are finished."""
    fleet.quiet()
    operator = fleet.operators[0]

    async def done() -> bool:
        try:
            return not sum((await operator.check()).lag.values())
        except QueueUnreachable:
            return False

    async def shown() -> str:
        left = dict((await operator.check()).lag)
        records = {number: one.record for number, one in (await operator._transactions.committed(tuple(fleet.owners))).items()}
        return f"{left} are left; owners are {fleet.owners}, the records {records}; {fleet.complaints()[-6000:]}"

    await eventually(done, "all is finished with", PATIENCE, shown)
    return Outcome(fleet.lines(), fleet.sent, fleet.complaints(), fleet.handed_over)
