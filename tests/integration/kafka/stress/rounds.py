"""Rounds of harm, and what came of them."""

from pathlib import Path

from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import Claimant
from tests.integration.kafka.stress.fleet import Fleet
from tests.integration.kafka.stress.verdict import Verdict, verdict
from tests.waiting import PATIENCE, eventually


async def rounds(servers: str, topic: str, folder: Path, count: int, seed: int) -> tuple[Verdict, int, str]:
    """The verdict, how many entries were handled, and what owners complained of."""
    group = f"shop.{topic}"
    spec = TopicToOpen(topic=topic, queue="orders")
    operators = [KafkaQueue(KafkaAddress((servers,)), group, spec, Claimant(group, "uid-of-the-group")) for _ in range(2)]
    await operators[0].ensure(None)
    async with Fleet(servers, topic, group, operators, folder, seed) as fleet:
        for _ in range(count):
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
            return not sum((await operators[0].check()).lag.values())

        await eventually(done, "all is finished with", PATIENCE, operators[0].check)
        found = fleet.lines()
        answer = verdict(found, fleet.sent), len(found), fleet.complaints()
    for operator in operators:
        await operator.close()
    return answer
