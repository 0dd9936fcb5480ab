"""A pod goes on hearing announcements, whatever one of them says."""

from collections.abc import Iterable, Mapping
from functools import partial

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import Announcement, KafkaAnnouncements, Said, mark
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.fetcher import Fetcher, PodFetchers
from baton.queues.kafka.record import Committed
from baton.queues.protocol import Heard, Owner, QueueUnreachable

ADDRESS, GROUP = KafkaAddress(("127.0.0.1:1",)), "shop.orders"
FORGED, GRANTED = Partition(QueueName("forged"), 0), Partition(QueueName("orders"), 1)
HEARD = Heard(Uid("a"), Epoch(2))


class NotFetching(PodFetchers):
    """Knows what it is to fetch."""

    def __init__(self) -> None:
        super().__init__(partial(Fetcher, ADDRESS, GROUP))
        self.expected: list[tuple[str, int, int]] = []

    def expect(self, topic: str, partition: int, offset: int) -> None:
        self.expected.append((topic, partition, offset))


class Announced(KafkaAnnouncements):
    """Without a broker: says once that partitions have changed, and cannot look at all of them."""

    def __init__(self, *news: set[Partition]) -> None:
        self.handoffs, self.fetchers = DirectHandoffs(), NotFetching()
        super().__init__(ADDRESS, GROUP, Uid("a"), EventLoopThread(), self.handoffs, self.fetchers)
        self.news = list(news)

    def _news(self) -> set[Partition]:
        return self.news.pop(0) if self.news else set()

    def _look(self, partitions: Iterable[Partition], *, beside_pending: bool) -> Mapping[Partition, Heard]:
        if FORGED in partitions:
            raise QueueUnreachable("the user may not READ its topic")
        return dict.fromkeys(partitions, HEARD)


def test_what_cannot_be_looked_at_keeps_nobody_from_what_is_announced_next() -> None:
    announced = Announced({FORGED}, {GRANTED})
    with pytest.raises(QueueUnreachable):
        announced.wait(1.0)
    announced._ask_at = 0.0
    assert announced.wait(1.0) == {GRANTED: HEARD}
    announced.close()


def test_nor_does_one_that_is_awaited() -> None:
    announced = Announced(set(), {GRANTED})
    announced._awaited, announced._awaited_until = {FORGED}, float("inf")
    with pytest.raises(QueueUnreachable):
        announced.wait(1.0)
    announced._ask_at = 0.0
    assert announced.wait(1.0) == {GRANTED: HEARD}
    announced.close()


A, B = Uid("a"), Uid("b")
ONE, TWO = Epoch(1), Epoch(2)


class Listening(Announced):
    """The pod a, which is told one thing."""

    def hears(self, owner: Uid, receiver: Uid, *, then: int = TWO, within: int = 10_000, number: int = 1) -> set[Partition]:
        said = Said(number, 1, ONE, within, mark(owner), mark(receiver), then)
        return self._take_in("orders-topic", number, Announcement("orders", (said,), {mark(receiver): receiver}))


def test_an_owner_hears_who_is_next_at_once_and_that_it_is_to_let_go_when_that_one_has_heard() -> None:
    pod = Listening()
    assert (pod.hears(A, B), pod.handoffs.next_owner(GRANTED, ONE)) == (set(), Owner(B, TWO))
    assert pod.wait(60.0) == {GRANTED: HEARD}, "a moment later"
    pod.close()


@pytest.mark.parametrize(("then", "within"), [(0, 10_000), (TWO, 500)])
def test_where_the_operator_grants_or_there_is_no_time_an_owner_lets_go_at_once(then: int, within: int) -> None:
    pod = Listening()
    assert pod.hears(A, B, then=then, within=within) == {GRANTED}
    assert pod.handoffs.next_owner(GRANTED, ONE) is None
    pod.close()


def test_the_last_plan_counts_and_of_its_epoch_only() -> None:
    pod = Listening()
    pod.hears(A, B)
    assert pod.handoffs.next_owner(GRANTED, TWO) is None
    pod.hears(A, Uid("c"), then=3, number=2)
    assert pod.handoffs.next_owner(GRANTED, ONE) == Owner(Uid("c"), Epoch(3))
    pod.hears(A, B, then=0, number=3)
    assert pod.handoffs.next_owner(GRANTED, ONE) is None, "the operator grants it"
    pod.close()


def test_what_is_to_come_is_looked_out_for_and_fetched_once_until_it_is_for_another() -> None:
    pod, seen = Listening(), Committed(7, None)
    pod._expect(GRANTED, "orders-topic", seen)
    pod.hears(B, A)
    for _ in range(2):
        pod._expect(GRANTED, "orders-topic", seen)
    assert (pod._awaited, pod.fetchers.expected) == ({GRANTED}, [("orders-topic", 1, 7)])
    pod.hears(B, Uid("c"), number=2)
    pod._expect(GRANTED, "orders-topic", seen)
    assert (pod._awaited, len(pod.fetchers.expected)) == (set(), 1)
    pod.hears(B, A, number=3)
    pod._expect(GRANTED, "orders-topic", Committed(-1, None))
    assert len(pod.fetchers.expected) == 1, "nothing was committed yet"
    pod._expect(GRANTED, "orders-topic", Committed(9, None))
    assert pod.fetchers.expected[1:] == [("orders-topic", 1, 9)]
    pod.close()


def test_nobody_hands_a_partition_to_itself() -> None:
    pod = Listening()
    assert (pod.hears(A, A), pod.handoffs.next_owner(GRANTED, ONE)) == ({GRANTED}, None)
    pod.close()
