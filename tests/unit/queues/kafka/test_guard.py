"""The guard member follows the group's coordinator, and reports why it was kept out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError as Code

from baton.queues.kafka import guard
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.guard import GuardMember
from tests.waiting import until


class Brokers:
    """Two brokers. The group's coordinator knows one member; the other answers that it is not the coordinator."""

    def __init__(self) -> None:
        self.coordinator = 1
        self.refuses: int = Code.NO_ERROR
        """The answer to joining members."""
        self.raises: Exception | None = None
        self.left = 0
        """How many members have left the group."""

    async def to_any(self, _: object) -> Any:
        return SimpleNamespace(error_code=0, coordinator_id=self.coordinator)

    async def send(self, node: int, request: Any, lane: int = 0) -> Any:
        if self.raises is not None:
            raise self.raises
        if node != self.coordinator:
            return SimpleNamespace(error_code=Code.NOT_COORDINATOR)
        joins = "Join" in type(request).__name__
        self.left += "Leave" in type(request).__name__
        return SimpleNamespace(
            error_code=self.refuses if joins else 0, member_id="member", members=[], leader_id="member", generation_id=1
        )


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(KafkaClient, "to_any", lambda _, request: made.to_any(request))
    monkeypatch.setattr(KafkaClient, "to_broker", lambda _, node, request, lane=0: made.send(node, request, lane))
    monkeypatch.setattr(guard, "_PAUSE", 0.01)
    monkeypatch.setattr(guard, "_BEAT", 0.01)
    return made


@pytest.fixture
async def member(brokers: Brokers) -> AsyncIterator[GuardMember]:
    """Closed after the test."""
    made = GuardMember(KafkaAddress(("127.0.0.1:1",)), "shop.orders", "orders")
    yield made
    await made.close()


async def soon(look: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(until, look, what)


async def in_the_group(member: GuardMember) -> None:
    await soon(lambda: member.joined, "it is in the group")


def asks(member: GuardMember, node: int) -> bool:
    return member._client._coordinators.get((0, "shop.orders")) == node


async def test_the_guard_follows_the_coordinator_between_live_brokers(brokers: Brokers, member: GuardMember) -> None:
    member.start()
    await in_the_group(member)
    for node in (2, 1):
        brokers.coordinator = node
        await soon(partial(asks, member, node), f"it asks broker {node}")
        await in_the_group(member)


async def test_a_refused_guard_reports_the_reason(brokers: Brokers, member: GuardMember, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.refuses = Code.INVALID_SESSION_TIMEOUT
    member.start()
    await soon(lambda: bool(member._why), "it was refused")
    assert member.warnings() == (), "that may be over in a moment"
    monkeypatch.setattr(guard, "_MISSED_AFTER", 0.0)
    assert "JoinGroup was answered by INVALID_SESSION_TIMEOUT" in member.warnings()[0]
    brokers.refuses = Code.NO_ERROR
    await in_the_group(member)
    assert member.warnings() == ()
    await member.close()
    assert member.warnings() == (), "it does not want to be in it"


async def test_the_guard_reports_an_unexpected_error_and_recovers(
    brokers: Brokers, member: GuardMember, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(guard, "_MISSED_AFTER", 0.0)
    member.start()
    await in_the_group(member)
    brokers.raises = ValueError("an undecodable answer")
    await soon(lambda: any("undecodable" in one for one in member.warnings()), "it says that it is not in the group")
    brokers.raises = None
    await in_the_group(member)
    assert [record.levelname for record in caplog.records] == ["ERROR"], "once"


async def test_the_guard_stays_in_the_group_on_close(brokers: Brokers, member: GuardMember) -> None:
    member.start()
    await in_the_group(member)
    await member.close()
    assert (member.joined, brokers.left) == (False, 0), "a plain commit is refused until the next guard is there"
    member.start()
    await in_the_group(member)
    await member.leave()
    assert (member.joined, brokers.left) == (False, 1)
