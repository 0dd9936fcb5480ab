"""A signal's handler raises in the midst of a producer's calls, wherever that is: each entry has an outcome in the end, and what
is said to be in the queue is there, once and in order."""

import threading
from collections import Counter, defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

from baton.queues.producer_side import Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisProducer
from baton.queues.redis.keys import entry_id
from baton.queues.redis.producer import PendingSend
from baton.queues.redis.routing import RoutingTable
from tests.unit.queues.interrupting import Interrupted, Steps
from tests.unit.queues.unread_answers import UnreadAnswers
from tests.waiting import PATIENCE

INTERRUPTED = (
    *(f"baton/queues/redis/{name}.py" for name in ("add_script", "connection", "outbox", "producer", "sending")),
    "tests/unit/queues/unread_answers.py",
)
PARTITIONS = 2


class Server:
    """As the script add has it. It knows no script at first."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, str, bytes, bytes]] = []
        """Partition, offset, key and value."""
        self.loaded = False
        self._known: dict[tuple[bytes, bytes], int] = defaultdict(int)
        self._table = RoutingTable.even(1, PARTITIONS)

    def answer(self, words: list[bytes]) -> Any:
        if words[0] == b"HMGET":
            return [b"1", self._table.to_text().encode()]
        if words[0] == b"EVAL":
            self.loaded = True
        elif not self.loaded:
            return NoScriptError("NOSCRIPT")
        entries = words[3 + int(words[2]) :]
        producer, codes, numbers = entries.pop(0), "", []
        while entries:
            slot, sequence, key, value, _ = entries[:5]
            del entries[:5]
            if int(sequence) <= self._known[producer, slot]:
                codes += "d"
            else:
                self._known[producer, slot] = int(sequence)
                numbers.append(1000 + len(self.entries))
                codes += "a"
                self.entries.append((self._table.partitions[int(slot)], entry_id(int(numbers[-1])), key, value))
        if len(numbers) == len(codes) and "d" not in codes:
            return numbers[0]
        return [codes.encode(), " ".join(map(str, numbers)).encode()]


class Run:
    """A producer, what it was given, and what it said of it."""

    def __init__(self) -> None:
        self.server = Server()
        self.producer = RedisProducer("redis://127.0.0.1:1/0", "shop/orders", linger=3600, patience=PATIENCE)
        self.producer._client = redis.Redis.from_pool(
            redis.ConnectionPool(connection_class=UnreadAnswers, server=self.server, retry=Retry(NoBackoff(), 0))
        )
        self.given = 0
        self.produced: list[tuple[bytes, PendingSend]] = []
        self.sent: list[tuple[bytes, Sent]] = []
        self.called: Counter[bytes] = Counter()

    def value(self) -> str:
        self.given += 1
        return f"{self.given:02}"

    def produce(self, key: str | None) -> None:
        value = self.value()
        made = self.producer.produce(key, value, on_delivery=lambda _: self.called.update([value.encode()]))
        self.produced.append((value.encode(), made))

    def send(self, key: str | None) -> None:
        value = self.value()
        self.sent.append((value.encode(), self.producer.send(key, value)))

    def send_many(self, *keys: str) -> None:
        values = [self.value() for _ in keys]
        sent = self.producer.send_many(list(zip(keys, values, strict=True)))
        self.sent += [(value.encode(), one) for value, one in zip(values, sent, strict=True)]

    def whole(self) -> None:
        """What is interrupted."""
        self.produce("a")
        self.send("b")
        self.send("b")
        self.produce("a")
        self.produce("b")
        self.produced[0][1].result()
        self.produce(None)
        self.send_many("a", "b", "a")
        self.produce("b")
        self.producer.flush()
        self.produce("a")
        self.producer.close()

    def close(self) -> None:
        with suppress(QueueUnreachable):  # some were given up
            self.producer.close()

    def check(self, interrupted: list[str]) -> None:
        """After close: `interrupted` says where, for who reads of a failure."""
        found: dict[bytes, tuple[int, str]] = {}
        order: dict[bytes, list[bytes]] = defaultdict(list)
        for partition, offset, key, value in self.server.entries:
            assert value not in found, ("twice in the queue", value, interrupted)
            found[value] = partition, offset
            order[key].append(value)
        assert all(values == sorted(values) for key, values in order.items() if key), ("out of order", order, interrupted)
        said = list(self.sent)
        for value, delivery in self.produced:
            assert delivery.done(), ("no outcome", value, interrupted)
            with suppress(QueueUnreachable):
                said.append((value, delivery.result()))
        for value, one in said:
            assert value in found, ("not in the queue", value, one, interrupted)
            assert one.offset is None or (one.partition, one.offset) == found[value], (value, one, found[value], interrupted)
        assert self.producer._outbox.bytes == 0, ("the buffer's bound leaks", interrupted)
        silent = [value for value, _ in self.produced if self.called[value] != 1]
        assert len(silent) <= len(interrupted), ("callbacks", silent, self.called, interrupted)


def interrupted_at(*steps: int) -> Steps:
    """A run that is interrupted before these; then it is closed by the same thread, and by another one."""
    run, watched = Run(), Steps(INTERRUPTED, set(steps))

    def whole_and_close() -> None:
        for each in (run.whole, *[run.close] * len(steps)):
            with suppress(Interrupted):
                watched.run(each)

    for do in (whole_and_close, run.close):
        thread = threading.Thread(target=do, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive(), ("it waits for ever", watched.interrupted)
    run.check(watched.interrupted)
    return watched


def places() -> list[int]:
    """The first step at each place in the code."""
    first: dict[object, int] = {}
    for number, where in enumerate(interrupted_at().where):
        first.setdefault(where, number)
    return list(first.values())


def test_an_interrupted_producer_settles_every_entry() -> None:
    for step in places()[::3]:
        interrupted_at(step)


def test_a_producer_may_be_interrupted_again_while_closing() -> None:
    dice = Random(7)
    for step in places()[::5]:
        second = step + 1 + int(dice.expovariate(0.02))
        interrupted_at(step, second, second + 1 + int(dice.expovariate(0.02)))
