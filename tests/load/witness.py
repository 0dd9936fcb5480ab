"""Reads the owner records again and again, and acts for every owner that was superseded: all that it tries must be refused."""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import redis

from baton.queues.redis.keys import partition_keys
from demo.attempts import attempts
from demo.records import Attempt, Fence

_EVERY = 0.02
_TRIES = 3


class Witness:
    """`with Witness(url, queue, partitions) as witness:` watches until the end of the block, from a thread."""

    def __init__(self, url: str, queue: str, partitions: int) -> None:
        """`queue` is namespace/name."""
        self._url, self._queue = url, queue
        self._owners = [partition_keys(queue, number).owner for number in range(partitions)]
        self._last: dict[int, tuple[str, int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness")
        self._lost: list[tuple[str, int, int]] = []
        """Owners that were superseded and have not been tried: UID, partition and epoch."""
        self.fences: list[Fence] = []
        self.attempts: list[Attempt] = []
        self.broken: list[str] = []
        """Epochs that went back, and owners that changed without a new one."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def owner(self, partition: int) -> tuple[str, int]:
        """UID (empty: no owner) and epoch, as last seen."""
        return self._last.get(partition, ("", 0))

    def _run(self) -> None:
        with redis.Redis.from_url(self._url) as server:
            while not self._over.wait(_EVERY):
                with suppress(redis.ConnectionError, redis.TimeoutError):  # it comes and goes
                    self._look(server)
                    self._try(server)

    def _look(self, server: redis.Redis) -> None:
        with server.pipeline(transaction=False) as pipe:
            for key in self._owners:
                pipe.hmget(key, "uid", "epoch")
            pipe.time()  # after the records: what they say was so by then
            *records, (seconds, micros) = pipe.execute()
        for partition, (uid, epoch) in enumerate(records):
            self._see(partition, (uid or b"").decode(), int(epoch or 0), seconds * 1000 + micros // 1000)

    def _try(self, server: redis.Redis) -> None:
        """What owners that were superseded might. A try that a server that went away did not refuse is made again."""
        while self._lost:
            uid, partition, epoch = self._lost[0]
            for _ in range(_TRIES):
                found = list(attempts(self._url, self._queue, uid, {partition: epoch}))
                if all(attempt.refused for attempt in found):
                    break
                server.ping()
            self.attempts += found
            self._lost.pop(0)

    def _see(self, partition: int, uid: str, epoch: int, at_ms: int) -> None:
        before = self._last.get(partition, ("", 0))
        if before == (uid, epoch):
            return
        self._last[partition] = (uid, epoch)
        if epoch <= before[1]:
            self.broken.append(f"the owner record of partition {partition} went from {before} to {(uid, epoch)}")
        self.fences.append(Fence(partition, epoch, at_ms))
        if before[0]:
            self._lost.append((before[0], partition, before[1]))
