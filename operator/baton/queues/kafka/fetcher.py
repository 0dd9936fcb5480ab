"""Messages of a topic's partitions, prefetched by librdkafka in a thread, for a caller that reads one partition at a time."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import ge
from typing import Any, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import NONE_ANSWERS
from baton.queues.kafka.messages import size_of
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

# -- Why a partition cannot be read, by librdkafka's error, and the cure.

END_OF_LOG = KafkaError._PARTITION_EOF
CORRUPT = KafkaError._BAD_MSG
"""The code of corrupt messages, and of a batch with a wrong checksum."""
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_NO_TOPIC = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART})


def why_not_read(address: KafkaAddress, topic: str, partition: int | None, error: KafkaError) -> str:
    """Return what is wrong, and the cure."""
    place = topic if partition is None else f"{topic}/{partition}"
    if error.code() in _GONE:
        return (
            f"{address.place}: the group's offset in {place} is not in its log: retention has deleted unfinished entries, the "
            "log was cut off before it, or the topic was recreated. The queue's condition Durable says which: set the offset "
            "with `baton offsets reset`, as the guide to Kafka describes"
        )
    if error.code() in _NO_TOPIC:
        return f"{address.place} has no {place}: create the topic"
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"{address.place}: {address.who} may not READ the topic {topic}: allow it by an ACL"
    if error.code() == CORRUPT:
        return (
            f"{address.place}: {place} has messages that are corrupt ({error.str()}): check the disk of the broker that leads "
            "it, and have an intact replica lead; if there is none, set the offset behind them with `baton offsets reset`, as "
            "the guide to Kafka describes"
        )
    return f"{address.place}: {place} cannot be read: {error.str()}"


# -- librdkafka's client, for reading only: it never joins the group, and never commits.


def fetching_client(address: KafkaAddress, group: str, **more: object) -> Consumer:
    """Return the client; sends no request. `more`: settings beside the address's. Raises QueueUnreachable for settings that
    librdkafka refuses."""
    settings: dict[str, Any] = {
        "client.id": "baton",
        "group.id": group,
        "check.crcs": True,  # as Kafka's own clients do: otherwise messages that a disk has corrupted are handed out
        "fetch.error.backoff.ms": 100,
        "fetch.queue.backoff.ms": 10,  # pause after enough was fetched of a partition
        "fetch.wait.max.ms": 100,  # a new partition is requested once the request before it is answered
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        **address.settings,
        **address.for_librdkafka(),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        **more,
        "log_level": 0,
    }
    try:
        return Consumer(settings)
    except (KafkaException, ValueError, TypeError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else error
        raise QueueUnreachable(
            f"{address.place} cannot be read with these settings: {why}: correct it in the address, with librdkafka's names and "
            "values"
        ) from None


# -- How much is fetched ahead of the reader. Pure.
#
# A partition of which enough is fetched rests: it is not fetched until half of that is left. What librdkafka had fetched of
# it is then fetched again. So a partition does not rest because of a few thousand messages while all partitions together have
# few. It does rest before the pod's memory is full, even of small messages: each takes 300 bytes and more (messages.py).

_MESSAGES = 2_000
"""Messages after which a partition rests if all partitions together have _MESSAGES_OF_ALL."""
_MESSAGES_OF_ALL = 40_000
_BYTES = 32_000_000
"""Bytes after which a partition rests."""
_BYTES_OF_ALL = 64_000_000
"""If all partitions together have that many bytes, a partition rests at its share of them."""
_AT_ONCE = 5_000
"""Messages of a poll: each poll makes the fetching thread wait for Python's lock, which handlers hold."""
_LEAST_AT_ONCE = 100_000
"""Minimum bytes of a poll when enough is fetched: librdkafka has fetched more, and would have to fetch the rest again."""
_MESSAGES_EXPECTED, _BYTES_EXPECTED = 2_000, 1_000_000
"""The limits of a partition that the pod is about to receive."""


class FetchedAhead(NamedTuple):
    """Messages of a partition that are fetched and not taken."""

    messages: int
    size: int
    """Bytes in memory."""


@dataclass(slots=True)
class AllAhead:
    """Messages of all partitions that are fetched and not taken. Kept up to date, as a pod may have thousands of partitions."""

    partitions: int = 0
    messages: int = 0
    size: int = 0

    @property
    def any_may_rest(self) -> bool:
        """Whether `should_rest` can be True of any partition."""
        return self.messages >= _MESSAGES_OF_ALL or self.size >= _BYTES


def should_rest(one: FetchedAhead, of_all: AllAhead) -> bool:
    """Whether enough is fetched of a partition. `of_all` includes it."""
    if of_all.size >= _BYTES_OF_ALL and one.size >= _BYTES_OF_ALL / of_all.partitions:
        return True
    return one.size >= _BYTES or (one.messages >= _MESSAGES and of_all.messages >= _MESSAGES_OF_ALL)


def poll_count(of_all: AllAhead) -> int:
    """Return how many messages to poll. They may all be of one partition that had none, and the next poll's of another: so if
    enough is fetched, a poll is no more than a partition's share."""
    if of_all.size < _BYTES_OF_ALL:
        return _AT_ONCE
    share = max(_BYTES_OF_ALL / of_all.partitions, _LEAST_AT_ONCE)
    return max(1, min(_AT_ONCE, int(share * of_all.messages / of_all.size)))


def rests_before_read(one: FetchedAhead) -> bool:
    """Whether enough is fetched of a partition that the pod is about to receive."""
    return one.messages >= _MESSAGES_EXPECTED or one.size >= _BYTES_EXPECTED


def should_resume(one: FetchedAhead, of_all: AllAhead) -> bool:
    """Whether little is left of a partition that has rested."""
    few = one.messages < _MESSAGES / 2 and one.size < _BYTES / 2
    return few and (of_all.size < _BYTES_OF_ALL / 2 or one.size < _BYTES_OF_ALL / 2 / of_all.partitions)


# -- The messages of one partition that were fetched and not taken.

_REPEAT_AFTER = 30.0
"""Seconds between two reports of a failure."""


class FetchedPartition:
    """A partition's messages, from an offset on. Its fetcher guards it with a lock."""

    def __init__(self, offset: int, of_all: AllAhead) -> None:
        """`of_all`: the totals of the fetcher's partitions, which include this one until `leave`."""
        self._of_all = of_all
        of_all.partitions += 1
        self.begins_at = offset
        self.messages: deque[Message] = deque()
        self.next = offset
        """The lowest offset that may come next: what librdkafka fetches twice is skipped."""
        self.size = 0
        """Bytes in memory."""
        self.end: int | None = None
        """The end of the log once everything was fetched; None: more has come since."""
        self.resting = False
        """Whether it is not assigned because enough is fetched (`should_rest`). It is not paused, as librdkafka keeps a paused
        partition paused when it is assigned again: a partition that came back would not be read."""
        self.failure: str | None = None
        self.corrupt = False
        """Whether the next message is corrupt. The partition is not assigned until the reader was told: librdkafka would go on
        somewhere behind it."""
        self.failure_told_at = -_REPEAT_AFTER
        """When the reader last got the failure (monotonic)."""

    @property
    def ahead(self) -> FetchedAhead:
        return FetchedAhead(len(self.messages), self.size)

    @property
    def failure_due(self) -> bool:
        """Whether the reader should get the failure: only every _REPEAT_AFTER, as it reads the queue's other partitions
        meanwhile. After that the partition is fetched again."""
        return self.failure is not None and time.monotonic() - self.failure_told_at >= _REPEAT_AFTER

    def add(self, run: Sequence[Message]) -> bool:
        """Add messages without errors. Return False if all of them were fetched before."""
        offsets = cast("list[int]", list(map(Message.offset, run)))
        if offsets[0] < self.next or any(map(ge, offsets, offsets[1:])):
            added = False
            for message, offset in zip(run, offsets, strict=True):
                if offset >= self.next:
                    added = self.add([message])
            return added
        self.next = offsets[-1] + 1
        self.failure, self.end = None, None
        self.messages.extend(run)
        self._grow(len(run), size_of(run).in_memory)
        return True

    def ended(self, end: int) -> None:
        """Note that everything was fetched and that the log ends here."""
        self.next, self.end, self.failure = max(self.next, end), end, None

    def take(self, count: int, most_bytes: int, before: int) -> list[Message]:
        """See `Fetcher.take`."""
        taken = [self.messages.popleft() for _ in range(min(count, len(self.messages)))]
        content, size = size_of(taken)
        while taken and ((content > most_bytes and len(taken) > 1) or (taken[-1].offset() or 0) >= before):
            last = size_of(taken[-1:])
            content, size = content - last.content, size - last.in_memory
            self.messages.appendleft(taken.pop())
        self._grow(-len(taken), -size)
        return taken

    def skip_to(self, offset: int) -> None:
        """Drop what is before this offset: the giver handles it."""
        before: list[Message] = []
        while self.messages and (self.messages[0].offset() or 0) < offset:
            before.append(self.messages.popleft())
        self._grow(-len(before), -size_of(before).in_memory)
        self.begins_at = offset
        if self.next <= offset:
            self.next, self.end = offset, self.end if self.end == offset else None

    def leave(self) -> None:
        self._of_all.partitions -= 1
        self._grow(-len(self.messages), -self.size)

    def _grow(self, messages: int, size: int) -> None:
        self.size += size
        self._of_all.messages += messages
        self._of_all.size += size


# -- The fetching thread.

_POLL = 0.01
"""Seconds that a poll waits, and so a new partition for its first request."""
_TAKEN_WITHIN = 0.2
"""Seconds that the reader has to take messages of a full partition before that one rests."""
_LOST_AFTER = 10.0
"""Seconds for which a failure of the client is reported to readers without messages."""
_EXPECTED_FOR = 2.0
"""Seconds for which a partition is prefetched that the pod is about to receive: only a little, so its reader need not wait
because enough is fetched of others."""
_NEAR = 1_000
"""Up to this many prefetched messages are dropped if the giver has handled them. If there are more, the partition is fetched
again behind them."""


class Fetcher:
    """Any thread may call. Errors go to the reader of the partition."""

    def __init__(self, address: KafkaAddress, group: str, topic: str) -> None:
        """Raises QueueUnreachable for settings that librdkafka refuses."""
        self._address = address
        self.topic = topic
        self._consumer = fetching_client(address, group, error_cb=self._client_failed)
        self._news = threading.Condition()
        self._fetched: dict[int, FetchedPartition] = {}
        self._ahead = AllAhead()
        """The totals of `_fetched`."""
        self._assigned: dict[int, FetchedPartition] = {}
        """The partitions that librdkafka fetches. A message polled before a partition was taken up again must not come among
        those after it."""
        self._changed: set[int] = set()
        """Partitions to assign again behind what was fetched, or to unassign if they are no longer in `_fetched`."""
        self._expected: dict[int, float] = {}
        """Partitions that the pod is about to receive, and until when they are prefetched (monotonic)."""
        self._enough_since = time.monotonic()
        """Since when `_has_enough` has found full partitions (monotonic)."""
        self._awaited: frozenset[int] = frozenset()
        """Partitions whose next message calls `_woken`."""
        self._woken: Callable[[], None] = lambda: None
        self.closed = False
        """Any thread may read it."""
        self._trouble: tuple[float, str] | None = None
        self._thread = threading.Thread(target=self._run, name="baton-kafka", daemon=True)
        self._thread.start()

    def expect(self, partition: int, offset: int) -> None:
        """Prefetch a partition that the pod is about to receive, from this offset on."""
        with self._news:
            if partition not in self._fetched and not self.closed:
                self._expected[partition] = time.monotonic() + _EXPECTED_FOR
                self._fetched[partition] = FetchedPartition(offset, self._ahead)
                self._changed.add(partition)
                self._news.notify_all()

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Fetch these from these offsets on. What was fetched of them is dropped, unless they were expected."""
        with self._news:
            for number, offset in offsets.items():
                if not self._begin_expected(number, offset):
                    self._forget(number)
                    self._fetched[number] = FetchedPartition(offset, self._ahead)
                    self._changed.add(number)
            self._news.notify_all()

    def end(self, partition: int) -> None:
        with self._news:
            if self._forget(partition):
                self._changed.add(partition)

    def next(self, partition: int) -> int | None:
        """Return the offset of the next message, or None."""
        with self._news:
            fetched = self._fetched.get(partition)
            return fetched.messages[0].offset() if fetched is not None and fetched.messages else None

    def end_of_log(self, partition: int) -> int | None:
        """Return the end of the log if everything before it was taken."""
        with self._news:
            fetched = self._fetched.get(partition)
            return fetched.end if fetched is not None and not fetched.messages else None

    def take(self, partition: int, count: int, most_bytes: int, before: int) -> list[Message]:
        """Return the next messages in order: at most `count` with `most_bytes` (or one), and none from the offset `before` on.
        Raises QueueUnreachable if there are none because something is wrong."""
        with self._news:
            fetched = self._fetched.get(partition)
            if fetched is None:
                return []
            taken = fetched.take(count, most_bytes, before)
            none = not taken and not fetched.messages
            if none and fetched.failure is not None and fetched.failure_due:
                fetched.failure_told_at = time.monotonic()
                self._changed.add(partition)  # retry: librdkafka does not do so after every failure
                raise QueueUnreachable(fetched.failure)
            if none and self._trouble is not None and time.monotonic() - self._trouble[0] < _LOST_AFTER:
                raise QueueUnreachable(self._trouble[1])
            self._resume(partition, fetched)
            return taken

    def has(self, partition: int) -> bool:
        """Whether `take` would return messages or raise a failure."""
        fetched = self._fetched.get(partition)
        return fetched is not None and bool(fetched.messages or fetched.failure_due)

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """Call `woken` once, from any thread, when one of these has messages or a failure. Replaces the call before."""
        with self._news:
            self._awaited, self._woken = partitions, woken
        self._wake()

    def stop(self) -> None:
        """Fetch no more. The thread ends soon."""
        with self._news:
            self.closed = True
            for partition in list(self._fetched):
                self._forget(partition)
            self._news.notify_all()

    def close(self) -> None:
        self.stop()
        self._thread.join(2.0)

    # -- the thread

    def _run(self) -> None:
        while not self.closed:
            try:
                self._step()
            except KafkaException as error:
                self._client_failed(error.args[0])
                time.sleep(_POLL)
            except Exception:
                log.exception("fetching from Kafka failed; continuing")
                time.sleep(_POLL)
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _step(self) -> None:
        with self._news:
            if self._expected:
                self._limit_expected()
            if not self._changed and (not self._fetched or self._has_enough()):
                self._news.wait(_POLL)
                return
            count = poll_count(self._ahead)
        if self._changed:  # between two polls, so no poll mixes messages from before and after it
            self._assign()
        first = self._consumer.poll(_POLL)
        if first is None:
            return
        try:
            self._add_polled([first, *self._consumer.consume(count, 0)])
        except Exception:
            with self._news:  # librdkafka does not return the polled messages again
                self._changed |= self._assigned.keys()
            raise

    def _begin_expected(self, partition: int, offset: int) -> bool:
        """Keep what was prefetched of it. Return False if it was not prefetched, or is of no use."""
        fetched = self._fetched.get(partition)
        if fetched is None or self._expected.pop(partition, None) is None:
            return False
        if not fetched.begins_at <= offset <= fetched.next + _NEAR or fetched.failure is not None:
            return False
        fetched.skip_to(offset)
        self._resume(partition, fetched)
        return True

    def _limit_expected(self) -> None:
        now = time.monotonic()
        for partition, until in list(self._expected.items()):
            fetched = self._fetched[partition]
            if now >= until:
                self._forget(partition)
            elif not fetched.resting and rests_before_read(fetched.ahead):
                fetched.resting = True
            else:
                continue
            self._changed.add(partition)

    def _resume(self, partition: int, fetched: FetchedPartition) -> None:
        """Assign a partition that has rested, if little is left."""
        if fetched.resting and should_resume(fetched.ahead, self._ahead):
            fetched.resting = False
            self._changed.add(partition)

    def _wake(self) -> None:
        """Call `woken` if a partition that it waits for has something."""
        with self._news:
            if not any(map(self.has, self._awaited)):
                return
            self._awaited = frozenset()
        self._woken()

    def _assign(self) -> None:
        """Assign the changed partitions at once: librdkafka asks for much of the first before it asks for those assigned
        later."""
        with self._news:
            changed, self._changed = self._changed, set()
            wanted = {number: one for number in changed if (one := self._fetched.get(number)) is not None and not one.resting}
        for partition in changed:
            self._release(partition)
        if not wanted:
            return
        try:
            self._consumer.incremental_assign(
                [TopicPartition(self.topic, number, fetched.next) for number, fetched in wanted.items()]
            )
        except KafkaException as error:
            for number, fetched in wanted.items():
                fetched.failure = f"{self._address.place}: {self.topic}/{number} cannot be read: {error.args[0].str()}"
            with self._news:
                self._changed |= wanted.keys()
            self._wake()
            raise
        self._assigned |= wanted
        for fetched in wanted.values():
            fetched.failure, fetched.corrupt = None, False

    def _release(self, partition: int) -> None:
        if self._assigned.pop(partition, None) is not None:
            with suppress(KafkaException):  # its assignment may have failed halfway
                self._consumer.incremental_unassign([TopicPartition(self.topic, partition)])

    def _add_polled(self, messages: Iterable[Message]) -> None:
        not_fetched: list[int] = []
        with self._news:
            for number, run in groupby(messages, Message.partition):
                fetched = self._fetched.get(-1 if number is None else number)
                if fetched is not None and (self._assigned.get(number or 0) is not fetched or fetched.corrupt):
                    continue
                those = list(run)
                if fetched is not None and not any(map(Message.error, those)):
                    self._add(fetched, those)
                    continue
                for message in those:
                    if (error := message.error()) is not None:
                        self._failed(error, fetched, message)
                        if fetched is not None and fetched.corrupt:
                            not_fetched.append(number or 0)
                            break
                    elif fetched is not None:
                        self._add(fetched, [message])
        self._wake()
        for partition in not_fetched:
            self._release(partition)

    def _has_enough(self) -> bool:
        """Whether to poll nothing for now; librdkafka keeps its messages. If the reader takes nothing of the full partitions in a
        moment, they rest, for the sake of the others."""
        full: list[int] = []
        if self._ahead.any_may_rest:
            full += (number for number, one in self._fetched.items() if not one.resting and should_rest(one.ahead, self._ahead))
        now = time.monotonic()
        if not full:
            self._enough_since = now
            return False
        if now - self._enough_since < _TAKEN_WITHIN:
            return True
        for number in full:
            self._fetched[number].resting = True
        self._changed.update(full)
        return False

    def _forget(self, partition: int) -> bool:
        """Return False if it was not fetched."""
        if (fetched := self._fetched.pop(partition, None)) is None:
            return False
        fetched.leave()
        self._expected.pop(partition, None)
        return True

    def _add(self, fetched: FetchedPartition, run: list[Message]) -> None:
        if fetched.add(run):
            self._trouble = None

    def _failed(self, error: KafkaError, fetched: FetchedPartition | None, message: Message) -> None:
        if fetched is None:
            self._client_failed(error)
            return
        if error.code() == END_OF_LOG:
            fetched.ended(message.offset() or 0)
            return
        fetched.failure = why_not_read(self._address, self.topic, message.partition(), error)
        fetched.corrupt = error.code() == CORRUPT

    def _client_failed(self, error: KafkaError) -> None:
        """Note an error of the client as a whole; librdkafka calls this within a poll."""
        if error.code() == KafkaError._AUTHENTICATION:
            why = f"{self._address.place} {self._address.refused}"
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            why = f"{self._address.place} does not answer: {NONE_ANSWERS}"
        else:
            return
        self._trouble = (time.monotonic(), why)


# -- The fetchers of a pod, by topic. They also prefetch partitions that the pod is about to receive: Kafka rejects no reader,
# and nothing of them is handed out before the grant.


class PodFetchers:
    """Any thread may call."""

    def __init__(self, make: Callable[[str], Fetcher]) -> None:
        """`make` makes the fetcher of a topic."""
        self._make = make
        self._lock = threading.Lock()
        self._reading: dict[str, Fetcher] = {}
        self._ready: Fetcher | None = None
        """The fetcher of the first topic that was announced, for the reader of the pod's first partition."""
        self._closed = False

    def expect(self, topic: str, partition: int, offset: int) -> None:
        """Prefetch this partition, which the pod is about to receive, from this offset on. Does nothing for a topic that the pod
        does not read, if it reads others."""
        with self._lock:
            self._reading = {name: one for name, one in self._reading.items() if not one.closed}
            if topic not in self._reading and not self._reading and self._ready is None and not self._closed:
                self._ready = self._make(topic)
            fetcher = self._reading.get(topic, self._ready)
        if fetcher is not None and fetcher.topic == topic:
            fetcher.expect(partition, offset)

    def take(self, topic: str) -> Fetcher:
        """Return this topic's fetcher, which the caller reads and closes. Raises QueueUnreachable for settings that librdkafka
        refuses."""
        with self._lock:
            ready, self._ready = self._ready, None
            taken = ready if ready is not None and ready.topic == topic else self._make(topic)
            self._reading[topic] = taken
        if ready is not None and ready is not taken:
            ready.stop()
        return taken

    def close(self) -> None:
        """Close the fetcher that was not taken."""
        with self._lock:
            ready, self._ready, self._closed = self._ready, None, True
        if ready is not None:
            ready.close()
