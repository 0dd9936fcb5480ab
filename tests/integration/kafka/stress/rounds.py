"""Rounds of harm, and what came of them."""

import asyncio
from pathlib import Path

from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import Claimant, QueueUnreachable
from tests.integration.kafka.stress.fleet import Fleet
from tests.integration.kafka.stress.verdict import Verdict, verdict
from tests.kafka_broker import KafkaBroker
from tests.waiting import PATIENCE, eventually


async def rounds(
    broker: KafkaBroker, topic: str, folder: Path, count: int, seed: int, *, broker_dies_every: int = 0
) -> tuple[Verdict, int, str]:
    """The verdict, how many entries were handled, and what owners complained of. 0: the broker comes to no harm."""
    servers = broker.servers
    group = f"shop.{topic}"
    spec = TopicToOpen(topic=topic, queue="orders")
    operators = [KafkaQueue(KafkaAddress((servers,)), group, spec, Claimant(group, "uid-of-the-group")) for _ in range(2)]
    await operators[0].ensure(None)
    async with Fleet(servers, topic, group, operators, folder, seed) as fleet:
        for number in range(1, count + 1):
            if broker_dies_every and number % broker_dies_every == 0:
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
            match fleet.chance.randrange(6):
                case 0:
                    await fleet.killed()
                case 1:
                    await fleet.restarted()
                case 2:
                    await fleet.stopped(race=True)
                case _:
                    await fleet.stopped(race=False)
        fleet.quiet()

        async def done() -> bool:
            try:
                return not sum((await operators[0].check()).lag.values())
            except QueueUnreachable:
                return False

        await eventually(done, "all is finished with", PATIENCE)
        found = fleet.lines()
        answer = verdict(found, fleet.sent), len(found), fleet.complaints()
    for operator in operators:
        await operator.close()
    return answer
