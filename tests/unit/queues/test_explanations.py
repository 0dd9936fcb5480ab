"""Messages to consumers and producers lead to the cause, even if only the operator knows it."""

import threading
from collections.abc import Sequence
from socket import gaierror
from typing import Any

import pytest
from redis.exceptions import AuthenticationError, ConnectionError  # noqa: A004 - the library's name

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.model.names import DEV_QUEUE_VARIABLE
from baton.queues.protocol import Heard, QueueUnreachable
from baton.queues.redis import RedisAnnouncements
from baton.queues.redis.explanations import absent, explained
from baton.queues.redis.url import read
from tests.waiting import PATIENCE


def test_an_absent_queue_is_explained_by_its_name_and_the_groups_conditions() -> None:
    told = absent(read("redis://redis.shop"), "queue", "shop/orders")
    assert told.startswith("Redis at redis.shop:6379, database 0, has no queue shop/orders.")
    assert "Either the name is wrong: kubectl get partitionedqueues -n shop lists the queues." in told
    assert told.endswith("The conditions of that group say what it waits for: kubectl describe consumergroups -n shop.")


def said(url: str, error: Exception) -> str:
    with pytest.raises(QueueUnreachable) as told, explained(read(url), "dev/order"):
        raise error
    return str(told.value)


def test_messages_under_baton_dev_mention_nothing_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEV_QUEUE_VARIABLE, "dev/orders")
    nowhere = ConnectionError("no")
    nowhere.__cause__ = gaierror()
    slip = absent(read("redis://127.0.0.1"), "queue", "dev/order")
    texts = [
        slip,
        absent(read("redis://127.0.0.1"), "queue", "dev/orders"),
        said("redis://127.0.0.1", AuthenticationError("WRONGPASS")),
        said("redis://redis", nowhere),
    ]
    for url in ("redis://127.0.0.1?password=secret", "redis://127.0.0.1?password_file=/secret"):
        with pytest.raises(QueueUnreachable) as refused:
            read(url)
        texts.append(str(refused.value))
    assert "has no queue dev/order. Did you mean dev/orders?" in slip
    for word in ("kubectl", "Secret", "namespace", "operator", "Service", "spec."):
        assert not [text for text in texts if word in text]


@pytest.mark.parametrize(
    "error", [ConnectionError("Error 111 connecting to redis.shop:6380."), TimeoutError(), OSError("no route")]
)
def test_an_unreachable_server_is_reported_with_the_source_of_its_url(error: Exception) -> None:
    url = read("redis://redis.shop:6380", stands_in="the Secret shop/redis under the key url")
    with pytest.raises(QueueUnreachable) as told, explained(url, "shop/orders"):
        raise error
    cure = "start it, or correct its address in the Secret shop/redis under the key url."
    assert str(told.value).endswith(f"Work on shop/orders resumes when it is back: {cure}")
    hint = " If it does not speak TLS, begin its URL with redis://."
    assert said("rediss://redis.shop:6380", error).endswith(f"start it, or correct its address in the URL.{hint}")


# -- Several threads ask for a pod's announcements.


class OneByOne(RedisAnnouncements):
    """Announcements without a server."""

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


def test_threads_take_turns_on_the_connections_to_a_cluster() -> None:
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
