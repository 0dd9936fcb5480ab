"""A broker whose disk is full: nothing is lost, its clients say so and wait, and go on when there is room."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kafka.reading import committed_values
from tests.integration.kafka.stress.rounds import full_disk_rounds
from tests.integration.kafka.stress.verdict import output_verdict, verdict
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.small_disk import SmallDisk

pytestmark = pytest.mark.promise

_SPINS = 1.0
"""Largest share of a processor that three processes may take while they wait for the broker."""


@pytest.fixture
def small() -> Iterator[tuple[KafkaBroker, SmallDisk]]:
    broker = KafkaBroker()
    with SmallDisk(broker) as disk, broker:
        broker.make_topic("orders", 4)
        broker.make_topic("out", 4)
        yield broker, disk


@pytest.mark.long
async def test_commits_to_a_full_broker_wait_and_none_is_lost(small: tuple[KafkaBroker, SmallDisk], tmp_path: Path) -> None:
    found, busy = await full_disk_rounds(*small, "orders", tmp_path, 1, seed=7)
    of_commits = verdict(found.lines, found.sent)
    assert found.handled and not any(of_commits), (of_commits, found.said[-2000:])
    assert "and whether their disks have room" in found.said
    assert busy < _SPINS


@pytest.mark.long
async def test_outputs_to_a_full_broker_wait_and_each_is_sent_once(small: tuple[KafkaBroker, SmallDisk], tmp_path: Path) -> None:
    broker, disk = small
    found, busy = await full_disk_rounds(broker, disk, "orders", tmp_path, 1, seed=8, out="out")
    sent = [(value or b"").decode() for values in await asyncio.to_thread(committed_values, broker, "out") for value in values]
    of_outputs = output_verdict(sent, found.sent)
    assert sent and not any(of_outputs), (of_outputs, found.said[-2000:])
    assert busy < _SPINS
