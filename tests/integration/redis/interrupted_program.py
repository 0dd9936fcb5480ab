"""A program whose main thread is interrupted again and again while it sends, by a signal handler that raises.

`python interrupted_program.py URL QUEUE SEED INTERRUPTIONS`. Prints one line of JSON: what was said of which values.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random

from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import PendingSend, RedisProducer, Sent

ENOUGH = 300
"""Minimum number of entries to send."""


class Interrupted(BaseException):
    pass


class Program:
    def __init__(self, url: str, queue: str, seed: int, interruptions: int) -> None:
        self.producer = RedisProducer(url, queue, linger=0.001, buffer_bytes=20_000)
        self.dice, self.left = Random(seed), interruptions
        self.sent: list[tuple[str, Sent]] = []
        self.produced: list[tuple[str, PendingSend]] = []
        self.numbers = count()

    def handler(self, *_: object) -> None:
        self.left -= 1
        raise Interrupted

    def value(self, key: str) -> str:
        return f"{key} {next(self.numbers)}"

    def send(self, key: str) -> None:
        value = self.value(key)
        self.sent.append((value, self.producer.send(key, value)))

    def send_many(self, key: str) -> None:
        values = [self.value(key) for _ in range(self.dice.randrange(1, 30))]
        self.sent += zip(values, self.producer.send_many([(key, value) for value in values]), strict=True)

    def produce(self, key: str) -> None:
        for _ in range(self.dice.randrange(1, 30)):
            value = self.value(key)
            self.produced.append((value, self.producer.produce(key, value)))

    def interrupted(self, do: Callable[[], object]) -> None:
        try:
            signal.setitimer(signal.ITIMER_REAL, self.dice.choice((0.00005, 0.0005, 0.003)) * self.dice.random() + 1e-6)
            do()
        except Interrupted:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def beside(self, key: str) -> None:
        """On another thread, until the main thread is done."""
        while self.left > 0:
            value = self.value(key)
            delivery = self.producer.produce(key, value)
            self.produced.append((value, delivery))
            delivery.result()
            self.send(key)

    def run(self) -> None:
        signal.signal(signal.SIGALRM, self.handler)
        threads = [threading.Thread(target=self.beside, args=(f"thread-{number}",)) for number in range(2)]
        for thread in threads:
            thread.start()
        calls = self.send, self.send_many, self.produce, lambda _: self.producer.flush()
        while self.left > 0 or len(self.sent) < ENOUGH:  # on a slow machine hardly anything comes through
            with suppress(Interrupted):
                self.interrupted(partial(self.dice.choice(calls), f"main-{self.dice.randrange(3)}"))
        for thread in threads:
            thread.join()
        for _ in range(3):
            with suppress(Interrupted, QueueUnreachable):
                self.interrupted(self.producer.close)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        with suppress(QueueUnreachable):  # some were given up
            self.producer.close()
        said = list(self.sent)
        unknown = [value for value, delivery in self.produced if not delivery.done()]
        for value, delivery in self.produced:
            with suppress(QueueUnreachable):
                said.append((value, delivery.result(0)))
        bytes_left = self.producer._outbox.bytes
        print(json.dumps({"said": said, "unknown": unknown, "bytes": bytes_left}))


if __name__ == "__main__":
    Program(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])).run()
