"""Reads the queue's server directly, without the operator: rates, epochs in force, and results."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

import redis

from baton.queues.redis.keys import partition_keys
from demo.records import Fence, Processed
from demo.view import Flow

_PERIOD = 0.1
_WINDOW = 3.0
"""Seconds over which rates are averaged: longer than a batch, so that rates are steady."""


class Gauges:
    """Polls the server ten times a second. `fences`: the witness's record of epochs. `flow`: the numbers of the view."""

    def __init__(self, url: str, queue: str, partitions: int, produced: Callable[[], int], clock: Callable[[], float]) -> None:
        self._server = redis.Redis.from_url(url)
        self._queue, self._partitions, self._produced, self._clock = queue, partitions, produced, clock
        self._closed = threading.Event()
        self._samples: deque[tuple[float, int, int]] = deque()
        self._epochs: dict[int, int] = {}
        self.fences: list[Fence] = []
        self.history: list[tuple[float, float]] = []
        """For each second: the time by `clock`, and messages processed per second around it."""
        self.flow = Flow()
        self.counts: dict[int, int] = {}
        """Messages processed, by partition."""
        self.lag = 0
        """Messages not committed yet."""
        self._thread = threading.Thread(target=self._follow, name="gauges", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._server.close()

    def results(self) -> Iterator[Processed]:
        """All reports to the sink by partition, in the order in which they came."""
        for partition in range(self._partitions):
            for raw in self._server.lrange(f"demo:{{{self._queue}}}:{partition}:results", 0, -1):
                yield from _processed(bytes(raw))  # type: ignore[arg-type]

    def first_rows(self) -> dict[tuple[int, int, str], float]:
        """By partition, epoch and pod: when the pod had its first row (seconds since 1970)."""
        found = {}
        for partition in range(self._partitions):
            for who, at in self._server.hgetall(f"demo:{{{self._queue}}}:{partition}:first").items():
                epoch, _, pod = bytes(who).decode().partition(" ")  # type: ignore[arg-type]
                found[partition, int(epoch), pod] = float(at)
        return found

    def batches(self) -> list[float]:
        """The seconds that the user's function took for each of Spark's micro-batches."""
        return [float(bytes(took)) for took in self._server.lrange(f"demo:{{{self._queue}}}:batches", 0, -1)]  # type: ignore[arg-type]

    def _follow(self) -> None:
        looks = 0
        while not self._closed.wait(_PERIOD):
            try:
                self._look(time.monotonic(), looks % 10 == 0)
            except redis.RedisError:
                continue
            looks += 1

    def _look(self, now: float, keep: bool) -> None:
        pipe = self._server.pipeline(transaction=False)
        for partition in range(self._partitions):
            keys = partition_keys(self._queue, partition)
            pipe.hget(keys.owner, "epoch")
            pipe.get(keys.refused)
            pipe.get(f"demo:{{{self._queue}}}:{partition}:count")
            pipe.hmget(keys.progress, "last", "done")
        pipe.time()
        *answers, (seconds, micros) = pipe.execute()
        at_ms = int(seconds) * 1000 + int(micros) // 1000
        epochs, refused, counts, progress = (answers[index::4] for index in range(4))
        for partition, epoch in enumerate(epochs):
            if epoch is not None and int(epoch) > self._epochs.get(partition, 0):
                self._epochs[partition] = int(epoch)
                self.fences.append(Fence(partition, int(epoch), at_ms))
        self.counts = {partition: int(count or 0) for partition, count in enumerate(counts)}
        self.lag = sum(int(last or 0) - int(done or 0) for last, done in progress)
        self._flow(now, sum(self.counts.values()), sum(int(each or 0) for each in refused), keep)

    def _flow(self, now: float, processed: int, refused: int, keep: bool) -> None:
        produced = self._produced()
        self._samples.append((now, produced, processed))
        while now - self._samples[0][0] > _WINDOW:
            self._samples.popleft()
        then, produced_then, processed_then = self._samples[0]
        span = max(now - then, 0.001)
        rate = (processed - processed_then) / span
        if keep:
            self.history.append((self._clock(), rate))
        rates = ((produced - produced_then) / span, rate)
        self.flow = Flow(produced, processed, *rates, self.lag, refused, tuple(each for _, each in self.history[-60:]))


def _processed(raw: bytes) -> Iterator[Processed]:
    result = json.loads(raw[1:])
    for offset, added_ms, key, sequence, redelivered in result["rows"]:
        yield Processed(
            partition=result["partition"],
            offset=offset,
            added_ms=added_ms,
            key=key,
            sequence=sequence,
            epoch=result["epoch"],
            redelivered=redelivered,
            executor=result["executor"],
            batch=result["batch"],
            run=f"{result['executor']}/{result['run']}",
            late=raw[:1] == b"1",
        )
