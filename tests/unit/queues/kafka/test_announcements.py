"""A pod goes on hearing announcements, whatever one of them says."""

from collections.abc import Iterable, Mapping

import pytest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import KafkaAnnouncements
from baton.queues.protocol import Heard, QueueUnreachable

FORGED, GRANTED = Partition(QueueName("forged"), 0), Partition(QueueName("orders"), 1)
HEARD = Heard(Uid("a"), Epoch(2))


class Announced(KafkaAnnouncements):
    """Without a broker: says once that partitions have changed, and cannot look at all of them."""

    def __init__(self, *news: set[Partition]) -> None:
        super().__init__(KafkaAddress(("127.0.0.1:1",)), "shop.orders", Uid("a"))
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
    announced._awaited, announced._lively_until = {FORGED}, float("inf")
    with pytest.raises(QueueUnreachable):
        announced.wait(1.0)
    announced._ask_at = 0.0
    assert announced.wait(1.0) == {GRANTED: HEARD}
    announced.close()
