"""What the parts of one pod share on Kafka."""

import threading
from collections.abc import Iterable
from functools import partial

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.fetcher import Fetcher, PodFetchers
from baton.queues.kafka.reader import KafkaReader


def shared(address: KafkaAddress, group: str) -> tuple[EventLoopThread, DirectHandoffs, PodFetchers]:
    """By its announcements and its readers, as `KafkaConsumerSide` makes them. A reader alone hears of no hand-off."""
    return EventLoopThread(), DirectHandoffs(), PodFetchers(partial(Fetcher, address, group))


def wait_for_entries(reader: KafkaReader, partitions: Iterable[int], seconds: float) -> None:
    """In this thread, until there may be something to read in one of these, or for that many seconds."""
    woken = threading.Event()
    reader.wait_for(frozenset(partitions), woken.set)
    woken.wait(seconds)
