"""A partition that is called back is let go of when its queue has taken what was finished of it: a slow one makes a hand-off
slow, and nothing is processed twice for that."""

import threading
import time

from baton.consumer import Session
from baton.consumer.entry import HeldEntry
from baton.consumer.partition import HeldPartition, Phase
from baton.consumer.queue_requests import QueueRequests
from baton.model.ids import Epoch, Partition, Uid
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Owner, QueueUnreachable
from tests.in_memory_lease import InMemoryLease
from tests.in_memory_queue import ORDERS, InMemoryLedger, InMemoryQueue, consumer_of
from tests.waiting import HOUR, PATIENCE, until

SLOW = QueueUnreachable("it does not take that")


class Served:
    """Partitions 0 and 1, of which the queue does not take that 0 is let go of."""

    def __init__(self) -> None:
        self.queue, self.lease = InMemoryQueue(1), InMemoryLease()
        self.queue.untaken = {0}
        self.ledger = InMemoryLedger({0: 1, 1: 1})
        session = Session(self.lease, holder="u", group="orders", every=HOUR)
        self.consumer = consumer_of(self.queue, self.ledger, session=session)
        self.handled: list[int] = []
        self.thread = threading.Thread(target=self.consumer.run, args=(self.handle,), daemon=True)
        self.thread.start()
        until(lambda: self.queue.acknowledged == ["0"])
        self.ledger.says({1: 1}, {0: 1})
        until(lambda: len(self.queue.told) >= 3, "it is told again and again")

    def handle(self, entry: HeldEntry) -> None:
        self.handled.append(entry.partition)

    def released(self) -> bool:
        return self.lease.lease is not None and len(self.lease.releases()) == 1


def test_it_is_not_released_before_its_queue_has_taken_that_and_the_others_are_read_meanwhile() -> None:
    served = Served()
    assert all(told == ({0: 1}, False) for told in served.queue.told)
    assert not served.released()
    served.queue.unread[1] = [("1", b"k")]
    served.consumer.interrupt()
    until(lambda: served.handled == [0, 1])
    served.queue.untaken = set()
    until(served.released)
    served.ledger.says({})
    served.consumer.stop()
    served.thread.join(PATIENCE)


def test_at_the_end_it_is_given_up_for_the_next_owner_need_not_wait() -> None:
    served = Served()
    served.consumer._loop.leave()
    served.thread.join(PATIENCE)
    assert served.queue.told[-1][0].keys() >= {0} and served.queue.told[-1][1]
    until(lambda: {release.partition for release in served.lease.releases()} >= {0})


def held(partition: int, sure_at: float = 1.0) -> HeldPartition:
    return HeldPartition(Partition(ORDERS, partition), Epoch(1), None, sure_at=sure_at)  # type: ignore[arg-type]


def test_a_queue_that_is_away_is_asked_once_for_all_and_one_that_answers_keeps_only_these() -> None:
    queue, requests, holdings = InMemoryQueue(), QueueRequests(), [held(number) for number in range(3)]
    queue.away = True
    requests.untaken(dict.fromkeys(holdings, SLOW), lambda holding: queue)
    assert (queue.refused, requests.away(ORDERS)) == (1, True)
    queue.away = False
    before = time.monotonic()
    requests.untaken(dict.fromkeys(holdings[:2], SLOW), lambda holding: queue)
    assert not requests.away(ORDERS)
    assert [requests.not_before(holding) > before for holding in holdings] == [True, True, False]


def test_what_is_somebody_elses_by_then_is_lost() -> None:
    class Taken(InMemoryQueue):
        def verify(self, partition: int, epoch: Epoch) -> None:
            raise StaleOwner(partition, Uid("a"), epoch, Owner(Uid("b"), Epoch(2)))

    queue, requests, holding = Taken(), QueueRequests(), held(0)
    requests.untaken({holding: SLOW}, lambda _: queue)
    assert (holding.phase, queue.told) == (Phase.FENCED, [({0: 1}, True)])


def test_of_what_may_still_be_taken_up_nothing_is_asked_for_that_would_be_waited_for() -> None:
    asked: list[int] = []

    class TakingUp(InMemoryQueue):
        def verify(self, partition: int, epoch: Epoch) -> None:
            asked.append(partition)

    requests, holdings = QueueRequests(), [held(0, sure_at=0.0), held(1)]
    requests.untaken(dict.fromkeys(holdings[:1], SLOW), lambda _: TakingUp())
    assert asked == []
    requests.untaken(dict.fromkeys(holdings, SLOW), lambda _: TakingUp())
    assert asked == [1]
    assert all(requests.not_before(holding) > time.monotonic() - PATIENCE for holding in holdings), "they are told again"
