"""Builders for the tests of the Spark fleet's decisions."""

from collections.abc import Callable, Mapping

import pytest

from baton.model import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.spark.locality import Executor
from baton.spark.ownership import Grant

Numbers = Mapping[int, int]


@pytest.fixture
def entry() -> Callable[..., MemberEntry]:
    def make(
        member: str, owned: Numbers | None = None, revoking: Numbers | None = None, generation: int = 1, uid: str = ""
    ) -> MemberEntry:
        def queues(numbers: Numbers | None):
            return {QueueName("orders"): {number: Epoch(epoch) for number, epoch in numbers.items()}} if numbers else {}

        return MemberEntry(
            group="shop/orders",
            member=MemberId(member),
            uid=Uid(uid or f"uid-{member}"),
            generation=generation,
            active=True,
            owned=queues(owned),
            revoking=queues(revoking),
        )

    return make


@pytest.fixture
def grant() -> Callable[..., Grant]:
    def make(member: str, partition: int, epoch: int = 1, queue: str = "orders") -> Grant:
        return Grant(QueueName(queue), partition, Epoch(epoch), MemberId(member), Uid(f"uid-{member}"))

    return make


@pytest.fixture
def executor() -> Callable[..., Executor]:
    def make(number: int, active: int = 0, finished: int = 0) -> Executor:
        return Executor(str(number), f"10.0.0.{number}", MemberId(f"exec-{number}"), active, finished)

    return make
