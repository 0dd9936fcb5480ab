"""Messages of a topic's partitions, fetched ahead by librdkafka in a thread, for a caller that reads one partition at a time."""

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

# -- Why a partition cannot be read, in librdkafka's words, and what helps.

END_OF_LOG = KafkaError._PARTITION_EOF
CORRUPT = KafkaError._BAD_MSG
"""Also of a batch whose checksum is wrong."""
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_NO_TOPIC = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART})


def why_not_read(address: KafkaAddress, topic: str, partition: int | None, error: KafkaError) -> str:
    """A sentence with the cure."""
    place = topic if partition is None else f"{topic}/{partition}"
    if error.code() in _GONE:
        return (
            f"{address.place}: the place of the group in {place} is not in its log: retention has deleted what was not done, the "
            "log was cut off before it, or the topic was made again. The queue's condition Durable says which: set the offset "
            "again by `baton offsets reset`, as the guide to Kafka says"
        )
    if error.code() in _NO_TOPIC:
        return f"{address.place} has no {place}: create the topic"
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"{address.place}: {address.who} may not READ the topic {topic}: allow it by an ACL"
    if error.code() == CORRUPT:
        return (
            f"{address.place}: {place} has messages that are corrupt ({error.str()}): see to the disk of the broker that leads "
            "it, and have a replica lead that is whole; where none is, set the offset behind them by `baton offsets "
            "reset`, as the guide to Kafka says"
        )
    return f"{address.place}: {place} cannot be read: {error.str()}"


# -- The client that reads: librdkafka's, which never joins the group, nor commits.


def fetching_client(address: KafkaAddress, group: str, **more: object) -> Consumer:
    """`more`: settings beside the address's. Sends no request. Raises QueueUnreachable where one is none of librdkafka's, or
    cannot be so."""
    settings: dict[str, Any] = {
        "client.id": "baton",
        "group.id": group,
        "check.crcs": True,  # as Kafka's own clients do: else what a disk has broken is handed out
        "fetch.error.backoff.ms": 100,
        "fetch.queue.backoff.ms": 10,  # it has fetched enough of a partition, and fetches it no more for that long
        "fetch.wait.max.ms": 100,  # a partition that is taken up is asked for when the request before it is answered
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
            f"{address.place} cannot be read with these settings: {why}: correct it in the address, by librdkafka's names and "
            "values"
        ) from None


# -- How much is fetched ahead of the reader. Pure.
#
# A partition of which there is enough for a while rests: it is not fetched until half of that is left. What librdkafka
# has of it by then is fetched again. So few messages are no reason where all partitions together have few; what fills a
# pod's memory always is: also with small messages, for each is 300 bytes and more there (messages.py).

_MESSAGES = 2_000
"""Of a partition that are enough,"""
_MESSAGES_OF_ALL = 40_000
"""where all partitions together have so many;"""
_BYTES = 32_000_000
"""or bytes of a partition;"""
_BYTES_OF_ALL = 64_000_000
"""or its share of so many, where all partitions together have them."""
_AT_ONCE = 5_000
"""Messages of a poll: for each poll the fetching thread waits for Python's lock, which the handling thread holds."""
_LEAST_AT_ONCE = 100_000
"""Bytes of a poll where all partitions together have enough: librdkafka has fetched more than that, and would once more."""
_MESSAGES_EXPECTED, _BYTES_EXPECTED = 2_000, 1_000_000
"""Of a partition that is not read yet."""


class FetchedAhead(NamedTuple):
    """What is fetched of a partition, and not taken."""

    messages: int
    size: int
    """Bytes in memory."""


@dataclass(slots=True)
class AllAhead:
    """The same of all partitions together. It is kept as they change: a pod may have thousands of them."""

    partitions: int = 0
    messages: int = 0
    size: int = 0

    @property
    def some_may_rest(self) -> bool:
        """Unless this is so, none does."""
        return self.messages >= _MESSAGES_OF_ALL or self.size >= _BYTES


def rests(one: FetchedAhead, of_all: AllAhead) -> bool:
    """There is enough of it. `of_all`: with this one's."""
    if of_all.size >= _BYTES_OF_ALL and one.size >= _BYTES_OF_ALL / of_all.partitions:
        return True
    return one.size >= _BYTES or (one.messages >= _MESSAGES and of_all.messages >= _MESSAGES_OF_ALL)


def at_once(of_all: AllAhead) -> int:
    """How many messages a poll takes. All of them may be of one partition of which there is nothing yet, and the next poll's of
    another: so where there is enough, they are no more than a partition's share."""
    if of_all.size < _BYTES_OF_ALL:
        return _AT_ONCE
    share = max(_BYTES_OF_ALL / of_all.partitions, _LEAST_AT_ONCE)
    return max(1, min(_AT_ONCE, int(share * of_all.messages / of_all.size)))


def rests_until_read(one: FetchedAhead) -> bool:
    """There is enough of it, though it is to be read in a moment only."""
    return one.messages >= _MESSAGES_EXPECTED or one.size >= _BYTES_EXPECTED


def goes_on(one: FetchedAhead, of_all: AllAhead) -> bool:
    """It has rested, and there is little of it."""
    few = one.messages < _MESSAGES / 2 and one.size < _BYTES / 2
    return few and (of_all.size < _BYTES_OF_ALL / 2 or one.size < _BYTES_OF_ALL / 2 / of_all.partitions)


# -- What was fetched of one partition and not taken, in order.

_TELL_EVERY = 30.0
"""Seconds."""


class FetchedPartition:
    """From an offset on. Its fetcher sees to it that one thread at a time is here."""

    def __init__(self, offset: int, of_all: AllAhead) -> None:
        """`of_all`: of its fetcher's partitions, this one among them until `leave`."""
        self._of_all = of_all
        of_all.partitions += 1
        self.begins_at = offset
        self.messages: deque[Message] = deque()
        self.next = offset
        """The lowest offset that may come next: what librdkafka fetches again is passed over."""
        self.size = 0
        """Bytes in memory."""
        self.end: int | None = None
        """Where the log ended when nothing was left to be fetched; None: there is more since."""
        self.resting = False
        """There is enough (`rests`): it is not assigned. It is not paused, either: what librdkafka has paused stays so
        when it is assigned again, and a partition that comes back would not be read."""
        self.failure: str | None = None
        self.corrupt = False
        """What comes next is. It is not assigned until that was told: librdkafka would go on somewhere behind it."""
        self.told_at = -_TELL_EVERY
        """When the reader was told of it (monotonic)."""

    @property
    def ahead(self) -> FetchedAhead:
        return FetchedAhead(len(self.messages), self.size)

    @property
    def to_tell(self) -> bool:
        """A failure is told every now and then: the queue's other partitions are read meanwhile. Then it is fetched again from
        behind what was fetched."""
        return self.failure is not None and time.monotonic() - self.told_at >= _TELL_EVERY

    def add(self, run: Sequence[Message]) -> bool:
        """Messages without an error. False: all of them were fetched before."""
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
        """Nothing is left to be fetched: there the log ends."""
        self.next, self.end, self.failure = max(self.next, end), end, None

    def take(self, count: int, most_bytes: int, before: int) -> list[Message]:
        """As many as there may be, but for those at the end that are too much, or too late: see `Fetcher.take`."""
        taken = [self.messages.popleft() for _ in range(min(count, len(self.messages)))]
        content, size = size_of(taken)
        while taken and ((content > most_bytes and len(taken) > 1) or (taken[-1].offset() or 0) >= before):
            last = size_of(taken[-1:])
            content, size = content - last.content, size - last.in_memory
            self.messages.appendleft(taken.pop())
        self._grow(-len(taken), -size)
        return taken

    def skip_to(self, offset: int) -> None:
        """What is before it was for another."""
        before: list[Message] = []
        while self.messages and (self.messages[0].offset() or 0) < offset:
            before.append(self.messages.popleft())
        self._grow(-len(before), -size_of(before).in_memory)
        self.begins_at = offset
        if self.next <= offset:
            self.next, self.end = offset, self.end if self.end == offset else None

    def leave(self) -> None:
        """Nothing is fetched for it any more."""
        self._of_all.partitions -= 1
        self._grow(-len(self.messages), -self.size)

    def _grow(self, messages: int, size: int) -> None:
        self.size += size
        self._of_all.messages += messages
        self._of_all.size += size


# -- What fetches ahead.

_POLL = 0.01
"""Seconds: a partition that is taken up waits no longer before it is asked for."""
_TAKEN_WITHIN = 0.2
"""Seconds for the reader to take some of a partition of which there is enough, before the partition rests."""
_LOST_AFTER = 10.0
"""Seconds without a word of a broker after which it is said that none answers."""
_EXPECTED_FOR = 2.0
"""Seconds for which a partition is fetched that another is about to hand over: a little of it, so that its reader does not wait
because there is enough of others."""
_NEAR = 1_000
"""Messages of it: so many that are for another are passed over. Where there are more, it is fetched from behind them."""


class Fetcher:
    """Any thread may call. The reader of a partition gets its errors."""

    def __init__(self, address: KafkaAddress, group: str, topic: str) -> None:
        """Raises QueueUnreachable where a setting is none of librdkafka's."""
        self._address = address
        self.topic = topic
        self._consumer = fetching_client(address, group, error_cb=self._troubled)
        self._news = threading.Condition()
        self._fetched: dict[int, FetchedPartition] = {}
        self._ahead = AllAhead()
        """Of these."""
        self._assigned: dict[int, FetchedPartition] = {}
        """What librdkafka fetches for, as the thread has told it: a message polled before a partition was taken up again must not
        come among those after it."""
        self._changed: set[int] = set()
        """To be assigned, from behind what was fetched; or no longer, where they are not among those any more."""
        self._expected: dict[int, float] = {}
        """Partitions that are not read yet, and until when they are fetched (monotonic)."""
        self._enough_since = time.monotonic()
        """There was not enough before (monotonic)."""
        self._awaited: frozenset[int] = frozenset()
        """Partitions;"""
        self._woken: Callable[[], None] = lambda: None
        """what is called when there is something of one of them."""
        self.closed = False
        """Any thread may ask."""
        self._trouble: tuple[float, str] | None = None
        self._thread = threading.Thread(target=self._run, name="baton-kafka", daemon=True)
        self._thread.start()

    def expect(self, partition: int, offset: int) -> None:
        """It is to be read in a moment, from this offset or a later one: it is fetched until then."""
        with self._news:
            if partition not in self._fetched and not self.closed:
                self._expected[partition] = time.monotonic() + _EXPECTED_FOR
                self._fetched[partition] = FetchedPartition(offset, self._ahead)
                self._changed.add(partition)
                self._news.notify_all()

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Fetch these from these offsets on. What was fetched of them before is forgotten, unless they were expected."""
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
        """The offset of the next one; None: there is none."""
        with self._news:
            fetched = self._fetched.get(partition)
            return fetched.messages[0].offset() if fetched is not None and fetched.messages else None

    def end_of_log(self, partition: int) -> int | None:
        """Where it is, if all that was before it is taken."""
        with self._news:
            fetched = self._fetched.get(partition)
            return fetched.end if fetched is not None and not fetched.messages else None

    def take(self, partition: int, count: int, most_bytes: int, before: int) -> list[Message]:
        """The next ones, in order: no more than so many, nor with more bytes, but one if there is one; none from the offset
        `before` on. Raises QueueUnreachable where there are none because something is wrong."""
        with self._news:
            fetched = self._fetched.get(partition)
            if fetched is None:
                return []
            taken = fetched.take(count, most_bytes, before)
            none = not taken and not fetched.messages
            if none and fetched.failure is not None and fetched.to_tell:
                fetched.told_at = time.monotonic()
                self._changed.add(partition)  # it may be over: librdkafka itself does not ask again for every failure
                raise QueueUnreachable(fetched.failure)
            if none and self._trouble is not None and time.monotonic() - self._trouble[0] < _LOST_AFTER:
                raise QueueUnreachable(self._trouble[1])
            self._go_on(partition, fetched)
            return taken

    def has(self, partition: int) -> bool:
        """There is something to take, or to be told."""
        fetched = self._fetched.get(partition)
        return fetched is not None and bool(fetched.messages or fetched.to_tell)

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """Call `woken` once when one of these has something: in whichever thread has found that. In the place of what was waited
        for before."""
        with self._news:
            self._awaited, self._woken = partitions, woken
        self._wake()

    def stop(self) -> None:
        """Fetch no more; the thread ends by itself."""
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
                self._turn()
            except KafkaException as error:
                self._troubled(error.args[0])
                time.sleep(_POLL)
            except Exception:
                log.exception("fetching from Kafka failed; continuing")
                time.sleep(_POLL)
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _turn(self) -> None:
        with self._news:
            if self._expected:
                self._bound_expected()
            if not self._changed and (not self._fetched or self._enough()):
                self._news.wait(_POLL)
                return
            count = at_once(self._ahead)
        if self._changed:  # between two polls, so that no poll has messages of before and after it
            self._assign()
        first = self._consumer.poll(_POLL)
        if first is None:
            return
        try:
            self._take_in([first, *self._consumer.consume(count, 0)])
        except Exception:
            with self._news:  # what the poll has brought and was not taken in comes no more
                self._changed |= self._assigned.keys()
            raise

    def _begin_expected(self, partition: int, offset: int) -> bool:
        """Go on with what was fetched of it. False: that was not expected, or is of no use."""
        fetched = self._fetched.get(partition)
        if fetched is None or self._expected.pop(partition, None) is None:
            return False
        if not fetched.begins_at <= offset <= fetched.next + _NEAR or fetched.failure is not None:
            return False
        fetched.skip_to(offset)
        self._go_on(partition, fetched)
        return True

    def _bound_expected(self) -> None:
        now = time.monotonic()
        for partition, until in list(self._expected.items()):
            fetched = self._fetched[partition]
            if now >= until:
                self._forget(partition)
            elif not fetched.resting and rests_until_read(fetched.ahead):
                fetched.resting = True
            else:
                continue
            self._changed.add(partition)

    def _go_on(self, partition: int, fetched: FetchedPartition) -> None:
        """If it has rested for long enough."""
        if fetched.resting and goes_on(fetched.ahead, self._ahead):
            fetched.resting = False
            self._changed.add(partition)

    def _wake(self) -> None:
        """Wake the reader if a partition that it waits for has messages."""
        with self._news:
            if not any(map(self.has, self._awaited)):
                return
            self._awaited = frozenset()
        self._woken()

    def _assign(self) -> None:
        """Those that were changed, all at once: librdkafka asks for much of the first before it asks for those assigned later."""
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
            with suppress(KafkaException):  # the assignment that failed may have begun
                self._consumer.incremental_unassign([TopicPartition(self.topic, partition)])

    def _take_in(self, messages: Iterable[Message]) -> None:
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

    def _enough(self) -> bool:
        """Take nothing from librdkafka, which keeps its messages. If the reader does not take some in a moment, the partitions of
        which there is enough rest, for the sake of the others."""
        full: list[int] = []
        if self._ahead.some_may_rest:
            full += (number for number, one in self._fetched.items() if not one.resting and rests(one.ahead, self._ahead))
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
        """False: it was not fetched."""
        if (fetched := self._fetched.pop(partition, None)) is None:
            return False
        fetched.leave()
        self._expected.pop(partition, None)
        return True

    def _add(self, fetched: FetchedPartition, run: list[Message]) -> None:
        """Without an error, of one partition."""
        if fetched.add(run):
            self._trouble = None

    def _failed(self, error: KafkaError, fetched: FetchedPartition | None, message: Message) -> None:
        if fetched is None:
            self._troubled(error)
            return
        if error.code() == END_OF_LOG:
            fetched.ended(message.offset() or 0)
            return
        fetched.failure = why_not_read(self._address, self.topic, message.partition(), error)
        fetched.corrupt = error.code() == CORRUPT

    def _troubled(self, error: KafkaError) -> None:
        """Of the client as a whole: from librdkafka, within a poll."""
        if error.code() == KafkaError._AUTHENTICATION:
            why = f"{self._address.place} {self._address.refused}"
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            why = f"{self._address.place} does not answer: {NONE_ANSWERS}"
        else:
            return
        self._trouble = (time.monotonic(), why)


# -- The fetchers of a pod, by topic. What others are about to hand over is fetched before it is the pod's: Kafka refuses no
# reader, and nothing of it is handed out before.


class PodFetchers:
    """Any thread may call."""

    def __init__(self, make: Callable[[str], Fetcher]) -> None:
        """`make` makes that of a topic."""
        self._make = make
        self._lock = threading.Lock()
        self._reading: dict[str, Fetcher] = {}
        self._ready: Fetcher | None = None
        """The fetcher of the topic that was heard of first, for the reader of the pod's first partition."""
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
        """Return this topic's fetcher, which the caller reads and closes. Raises QueueUnreachable where a setting is none of
        librdkafka's."""
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
