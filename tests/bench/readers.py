"""The two consumers that are measured, each as a process of its own.

`python -m tests.bench.readers ours|bare URL QUEUE PARTITIONS LEDGER COUNT` says that it is ready, and begins at a line on its
standard input. With a COUNT it handles so many entries and says how long that took it; else it says of each entry how long it was
under way, until its standard input ends.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import redis

from baton.consumer import AnnouncedAssignments, AssignmentSource, Consumer
from baton.model.ids import MemberId, QueueName, Uid
from baton.queues.redis import RedisAnnouncements, RedisReader

POD, UID = MemberId("bench"), Uid("bench-uid")
GROUP = "bench/group"
BARE_GROUP = "bare"
READ = 200
"""Entries of a stream in one answer: as many as our consumer reads at a time."""
_BLOCK = 4000
"""Milliseconds."""

Handle = Callable[[bytes], object]


def bare_streams(queue: str, partitions: int) -> list[str]:
    return [f"bare:{queue}:{number}" for number in range(partitions)]


def read_ours(url: str, queue: str, ledger: Path, handle: Handle) -> None:
    """As in a pod, but without the Lease: there is no API server here."""
    namespace, _, _ = queue.partition("/")

    def open_queue(name: QueueName) -> RedisReader:
        return RedisReader(url, f"{namespace}/{name}", UID)

    source = AnnouncedAssignments(AssignmentSource(ledger, POD, UID), RedisAnnouncements(url, GROUP, UID), GROUP, POD, UID)
    Consumer(open_queue, source, UID).run(lambda entry: handle(entry.value))


def read_bare(url: str, streams: Sequence[str], handle: Handle) -> None:
    """What somebody writes who has redis-py alone."""
    client = redis.Redis.from_url(url, protocol=2)
    asked: dict[bytes | str | memoryview[int], int | bytes | str | memoryview[int]] = dict.fromkeys(streams, ">")
    while True:
        answer = client.xreadgroup(BARE_GROUP, "reader", asked, count=READ, block=_BLOCK)
        for stream, entries in cast("list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]", answer or []):  # by RESP2
            for _, fields in entries:
                handle(fields[b"v"])
            client.xack(stream, BARE_GROUP, *(entry for entry, _ in entries))


class _Counted:
    """Ends the process after so many entries, when the ones before are acknowledged."""

    def __init__(self, count: int) -> None:
        """From here on time counts."""
        self._left = count
        self._began = time.monotonic(), time.process_time()

    def __call__(self, value: bytes) -> None:
        self._left -= 1
        if not self._left:
            took, worked = time.monotonic() - self._began[0], time.process_time() - self._began[1]
            print(json.dumps({"seconds": took, "worked": worked}), flush=True)
        if self._left <= 0:
            raise SystemExit


def _timed(value: bytes) -> None:
    """A value begins with the time (nanoseconds, monotonic) at which it was sent."""
    arrived = time.monotonic_ns()
    print(arrived - int(value[:20]), flush=True)


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    side, url, queue, partitions, ledger, count = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    if int(count):
        handle: Handle = _Counted(int(count))
    else:
        handle = _timed
        threading.Thread(target=_end_with_input, daemon=True).start()
    if side == "ours":
        read_ours(url, queue, Path(ledger), handle)
    else:
        read_bare(url, bare_streams(queue, int(partitions)), handle)


if __name__ == "__main__":
    main()
