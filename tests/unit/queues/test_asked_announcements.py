"""A pod's announcements, asked by several threads at a time."""

import threading
from collections.abc import Sequence
from typing import Any

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.protocol import Heard
from baton.queues.redis import RedisAnnouncements
from tests.waiting import PATIENCE


class OneByOne(RedisAnnouncements):
    """Without a server."""

    def __init__(self) -> None:
        super().__init__("redis+cluster://127.0.0.1:1", "shop/orders", Uid("u"))
        self.inside, self.most = 0, 0
        self.entered, self.go_on = threading.Event(), threading.Event()

    def _look(self, client: Any, asked: Sequence[Partition]) -> dict[Partition, Heard]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.entered.set()
        assert self.go_on.wait(PATIENCE)
        self.inside -= 1
        return {one: Heard(Uid("u"), Epoch(1), False) for one in asked}


def test_in_a_cluster_one_thread_at_a_time_uses_the_connections_to_its_nodes() -> None:
    asked = OneByOne()
    found: list[Partition] = []

    def look(number: int) -> None:
        found.extend(asked.look([Partition(QueueName(f"orders-{number}"), 0)]))

    threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    assert asked.entered.wait(PATIENCE)
    threads[-1].join(0.2)
    asked.go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert asked.most == 1 and len(found) == 4
    asked.close()
