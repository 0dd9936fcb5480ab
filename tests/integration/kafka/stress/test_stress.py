"""A few rounds; `python -m tests.integration.kafka.stress` makes more of them."""

from pathlib import Path

from tests.integration.kafka.stress.rounds import rounds
from tests.kafka_broker import KafkaBroker


async def test_owners_that_are_stopped_and_killed_under_load_lose_nothing_and_commit_nothing_stale(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    broker.make_topic("stress", 4)
    found, handled, said = await rounds(broker, "stress", tmp_path, 20, seed=1)
    assert handled and not any(found), (found, said[-2000:])
