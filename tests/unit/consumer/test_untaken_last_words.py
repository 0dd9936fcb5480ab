"""A revoked partition is released when its queue has its acknowledgements: a slow queue makes a hand-off slow, but no entry is
processed twice."""

import time
from collections.abc import Mapping
from typing import Any

from baton.consumer import Session
from baton.consumer.entry import HeldEntry
from baton.consumer.partition import HeldPartition, Phase
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Ownership, QueueUnreachable
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.readers import GoesAway, consumer_of, queue_of
from tests.waiting import HOUR, PATIENCE, until

ORDERS = QueueName("orders")
SLOW = QueueUnreachable("it does not take that")


class TakesNotAll(GoesAway):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.untaken = {0}
        """Partitions whose release is rejected."""
        self.told: list[tuple[Mapping[int, Epoch], bool]] = []
        """Released partitions, and whether they were given up."""

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        self.told.append((dict(partitions), give_up))
        return dict.fromkeys(partitions.keys() & self.untaken, SLOW)


class Served:
    """Partitions 0 and 1; the queue rejects the release of 0."""

    def __init__(self) -> None:
        self.lease = InMemoryLease()
        self.queue, self.reader = queue_of(TakesNotAll, 2)
        consumer = consumer_of(self.queue, session=Session(self.lease, holder="u", group="orders", every=HOUR))
        self.handled: list[int] = []
        self.queue.start(self.handle, consumer=consumer)
        self.queue.send("k", "v", partition=0)
        self.queue.settled()
        self.queue._ledger.call_back(0)
        until(lambda: len(self.reader.told) >= 3, "it is told again and again")

    def handle(self, entry: HeldEntry) -> None:
        self.handled.append(entry.partition)

    def released(self) -> bool:
        return self.lease.lease is not None and len(self.lease.releases()) == 1


def test_it_is_not_released_before_its_queue_has_taken_that_and_the_others_are_read_meanwhile() -> None:
    served = Served()
    with served.queue as queue:
        assert all(told == ({0: 1}, False) for told in served.reader.told)
        assert not served.released()
        queue.send("k", "v", partition=1)
        queue.settled()
        assert served.handled == [0, 1]
        served.reader.untaken = set()
        until(served.released)


def test_at_the_end_it_is_given_up_for_the_next_owner_need_not_wait() -> None:
    served = Served()
    assert served.queue._consumer is not None
    with served.queue:
        served.queue._consumer._loop.leave()
        until(lambda: {release.partition for release in served.lease.releases()} >= {0})
    assert served.reader.told[-1][0].keys() >= {0} and served.reader.told[-1][1]


def held(partition: int, sure_at: float = 1.0) -> HeldPartition:
    return HeldPartition(Partition(ORDERS, partition), Epoch(1), None, sure_at=sure_at)  # type: ignore[arg-type]


def test_a_queue_that_is_away_is_asked_once_for_all_and_one_that_answers_keeps_only_these() -> None:
    (_, queue), requests, holdings = queue_of(GoesAway, 3), QueueRequests(), [held(number) for number in range(3)]
    queue.away = True
    requests.release_again(dict.fromkeys(holdings, SLOW), lambda holding: queue)
    assert (queue.refused, requests.away(ORDERS)) == (1, True)
    queue.away = False
    before = time.monotonic()
    requests.release_again(dict.fromkeys(holdings[:2], SLOW), lambda holding: queue)
    assert not requests.away(ORDERS)
    assert [requests.not_before(holding) > before for holding in holdings] == [True, True, False]


def test_what_is_somebody_elses_by_then_is_lost() -> None:
    class Taken(TakesNotAll):
        def verify(self, partition: int, epoch: Epoch) -> None:
            raise StaleOwner(partition, Uid("a"), epoch, Ownership(Uid("b"), Epoch(2)))

    (_, reader), requests, holding = queue_of(Taken), QueueRequests(), held(0)
    requests.release_again({holding: SLOW}, lambda _: reader)
    assert (holding.phase, reader.told) == (Phase.FENCED, [({0: 1}, True)])


def test_of_what_may_still_be_taken_up_nothing_is_asked_for_that_would_be_waited_for() -> None:
    asked: list[int] = []

    class TakingUp(GoesAway):
        def verify(self, partition: int, epoch: Epoch) -> None:
            asked.append(partition)

    (_, reader), requests, holdings = queue_of(TakingUp), QueueRequests(), [held(0, sure_at=0.0), held(1)]
    requests.release_again(dict.fromkeys(holdings[:1], SLOW), lambda _: reader)
    assert asked == []
    requests.release_again(dict.fromkeys(holdings, SLOW), lambda _: reader)
    assert asked == [1]
    assert all(requests.not_before(holding) > time.monotonic() - PATIENCE for holding in holdings), "they are told again"
