"""Builders for the tests of the Spark fleet's decisions."""

from collections.abc import Mapping

from baton.model import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.spark.executors import Executor
from baton.spark.ledger import PartitionGrant
from tests.ids import by_queue, epochs

Numbers = Mapping[int, int]


def entry(
    member: str, owned: Numbers | None = None, revoking: Numbers | None = None, generation: int = 1, uid: str = ""
) -> MemberEntry:
    return MemberEntry(
        group="shop/orders",
        member=MemberId(member),
        uid=Uid(uid or f"uid-{member}"),
        generation=generation,
        active=True,
        owned=by_queue({"orders": epochs(owned)} if owned else {}),
        revoking=by_queue({"orders": epochs(revoking)} if revoking else {}),
    )


def grant(member: str, partition: int, epoch: int = 1, queue: str = "orders") -> PartitionGrant:
    return PartitionGrant(Partition(QueueName(queue), partition), Epoch(epoch), MemberId(member), Uid(f"uid-{member}"))


def executor(number: int, *tasks: int) -> Executor:
    return Executor(str(number), f"10.0.0.{number}", MemberId(f"exec-{number}"), frozenset(tasks))
