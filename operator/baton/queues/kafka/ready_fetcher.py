"""The fetcher of a pod that is about to get its first partition, which connects before that comes."""

import threading
from collections.abc import Callable

from baton.queues.kafka.fetcher import Fetcher


class ReadyFetcher:
    """One, for whichever topic is heard of first. Any thread may call."""

    def __init__(self, make: Callable[[str], Fetcher]) -> None:
        """`make` makes that of a topic."""
        self._make = make
        self._lock = threading.Lock()
        self._ready: Fetcher | None = None
        self._needed = True

    def get_ready(self, topic: str, partition: int) -> None:
        """The pod is to get this partition in a moment. Does nothing where it fetches others."""
        with self._lock:
            if not self._needed:
                return
            self._needed = False
            self._ready = self._make(topic)
            self._ready.get_ready(partition)

    def take(self, topic: str) -> Fetcher:
        """Of this topic, for whoever reads it, and closes it. Raises QueueUnreachable where a setting is none of librdkafka's."""
        with self._lock:
            ready, self._ready, self._needed = self._ready, None, False
        if ready is None or ready.topic == topic:
            return ready or self._make(topic)
        ready.close()
        return self._make(topic)

    def close(self) -> None:
        """What nobody has taken."""
        with self._lock:
            ready, self._ready, self._needed = self._ready, None, False
        if ready is not None:
            ready.close()
