"""The fetchers of a pod, by topic. What others are about to hand over is fetched before it is the pod's: Kafka refuses no reader,
and nothing of it is handed out before."""

import threading
from collections.abc import Callable

from baton.queues.kafka.fetcher import Fetcher


class PodFetchers:
    """Any thread may call."""

    def __init__(self, make: Callable[[str], Fetcher]) -> None:
        """`make` makes that of a topic."""
        self._make = make
        self._lock = threading.Lock()
        self._reading: dict[str, Fetcher] = {}
        self._ready: Fetcher | None = None
        """Of the topic that was heard of first, for whoever reads it when the pod has its first partition."""
        self._closed = False

    def expect(self, topic: str, partition: int, offset: int) -> None:
        """The pod is to get this partition in a moment, and to read from this offset or a later one. Does nothing for a topic of
        which it reads none, where it reads others."""
        with self._lock:
            self._reading = {name: one for name, one in self._reading.items() if not one.closed}
            if topic not in self._reading and not self._reading and self._ready is None and not self._closed:
                self._ready = self._make(topic)
            fetcher = self._reading.get(topic, self._ready)
        if fetcher is not None and fetcher.topic == topic:
            fetcher.expect(partition, offset)

    def take(self, topic: str) -> Fetcher:
        """That of this topic, for whoever reads it, and closes it. Raises QueueUnreachable where a setting is none of
        librdkafka's."""
        with self._lock:
            ready, self._ready = self._ready, None
            taken = ready if ready is not None and ready.topic == topic else self._make(topic)
            self._reading[topic] = taken
        if ready is not None and ready is not taken:
            ready.close()
        return taken

    def close(self) -> None:
        """What nobody has taken."""
        with self._lock:
            ready, self._ready, self._closed = self._ready, None, True
        if ready is not None:
            ready.close()
