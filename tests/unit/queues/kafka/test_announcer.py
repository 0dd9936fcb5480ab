"""What the operator announces to the pods of a group."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetCommitRequest

from baton.model.ids import Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import KafkaAnnouncer
from baton.queues.kafka.client import KafkaClient
from tests.waiting import eventually


@pytest.fixture
async def announcer() -> AsyncIterator[KafkaAnnouncer]:
    """That is closed after the test."""
    made = KafkaAnnouncer(KafkaAddress(("127.0.0.1:1",)), "shop.orders", "baton-operator", "orders", "orders")
    yield made
    await made.close()


async def test_an_error_that_nobody_expected_is_told_and_what_comes_later_is_announced(
    announcer: KafkaAnnouncer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = [ValueError("an answer that nobody can decode")]

    async def to_group(_: KafkaClient, request: Any) -> Any:
        if answers:
            raise answers.pop()
        return SimpleNamespace(error_code=0, topics=[("orders", [(0, 0)])] if isinstance(request, OffsetCommitRequest) else [])

    monkeypatch.setattr(KafkaClient, "to_group", to_group)

    async def failed() -> bool:
        return "cannot be announced" in caplog.text and "an answer that nobody can decode" in caplog.text

    async def said() -> bool:
        return announcer._number == 1

    announcer.granted(0, 1, Uid("a"))
    await eventually(failed)
    announcer.granted(0, 2, Uid("b"))
    await eventually(said)
