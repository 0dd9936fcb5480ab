"""Messages of a topic's partitions, fetched ahead by librdkafka: in a thread, for whoever reads one partition at a time."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import groupby

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import NONE_ANSWERS
from baton.queues.kafka.expected_partitions import ExpectedPartitions, is_of_use
from baton.queues.kafka.fetch_errors import CORRUPT, END_OF_LOG, why_not_read
from baton.queues.kafka.fetched_ahead import AllAhead, at_once, goes_on, rests
from baton.queues.kafka.fetched_partition import FetchedPartition
from baton.queues.kafka.fetching_client import fetching_client
from baton.queues.protocol import QueueUnreachable

log = logging.getLogger(__name__)

_POLL = 0.01
"""Seconds: a partition that is taken up waits no longer before it is asked for."""
_TAKEN_WITHIN = 0.2
"""Seconds for whoever reads to take some of what there is enough of, before that rests."""
_LOST_AFTER = 10.0
"""Seconds without a word of a broker after which it is said that none answers."""


class Fetcher:
    """Any thread may call. Errors are told to whoever reads the partition."""

    def __init__(self, address: KafkaAddress, group: str, topic: str) -> None:
        """Raises QueueUnreachable where a setting is none of librdkafka's."""
        self._address = address
        self._topic = topic
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
        self._expected = ExpectedPartitions()
        """Those that nobody reads yet."""
        self._enough_since = time.monotonic()
        """There was not enough before (monotonic)."""
        self._awaited: frozenset[int] = frozenset()
        """Partitions;"""
        self._woken: Callable[[], None] = lambda: None
        """what is called when there is something of one of them."""
        self._closed = False
        self._trouble: tuple[float, str] | None = None
        self._thread = threading.Thread(target=self._run, name="baton-kafka", daemon=True)
        self._thread.start()

    @property
    def topic(self) -> str:
        return self._topic

    def expect(self, partition: int, offset: int) -> None:
        """It is to be read in a moment, from this offset or a later one: it is fetched until then."""
        with self._news:
            if partition not in self._fetched and not self._closed:
                self._expected.add(partition, time.monotonic())
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

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._news:
            self._closed = True
            for partition in list(self._fetched):
                self._forget(partition)
            self._news.notify_all()
        self._thread.join(2.0)

    # -- the thread

    def _run(self) -> None:
        while not self._closed:
            try:
                self._turn()
            except KafkaException as error:
                self._troubled(error.args[0])
                time.sleep(_POLL)
            except Exception:
                log.exception("fetching from Kafka failed, and goes on")
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
            self._fetch_again()
            raise

    def _begin_expected(self, partition: int, offset: int) -> bool:
        """Go on with what was fetched of it. False: that was not expected, or is of no use."""
        fetched = self._fetched.get(partition)
        if fetched is None or not self._expected.discard(partition) or not is_of_use(fetched, offset):
            return False
        fetched.skip_to(offset)
        self._go_on(partition, fetched)
        return True

    def _bound_expected(self) -> None:
        for partition in self._expected.over(time.monotonic()):
            self._forget(partition)
            self._changed.add(partition)
        for partition in self._expected.full(self._fetched):
            self._fetched[partition].resting = True
            self._changed.add(partition)

    def _go_on(self, partition: int, fetched: FetchedPartition) -> None:
        """If it has rested for long enough."""
        if fetched.resting and goes_on(fetched.ahead, self._ahead):
            fetched.resting = False
            self._changed.add(partition)

    def _wake(self) -> None:
        """Whoever waits for something of which there is some."""
        with self._news:
            if not any(map(self.has, self._awaited)):
                return
            self._awaited = frozenset()
        self._woken()

    def _fetch_again(self) -> None:
        """What a poll has brought and was not taken in comes no more: fetch all partitions from behind what was."""
        with self._news:
            self._changed |= self._assigned.keys()

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
                [TopicPartition(self._topic, number, fetched.next) for number, fetched in wanted.items()]
            )
        except KafkaException as error:
            for number, fetched in wanted.items():
                fetched.failure = f"{self._address.place}: {self._topic}/{number} cannot be read: {error.args[0].str()}"
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
                self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def _take_in(self, messages: Iterable[Message]) -> None:
        not_fetched: list[int] = []
        with self._news:
            for number, run in groupby(messages, Message.partition):
                fetched = self._fetched.get(-1 if number is None else number)
                if fetched is not None and (self._assigned.get(number or 0) is not fetched or fetched.corrupt):
                    continue
                those = list(run)
                if fetched is not None and not any(map(Message.error, those)):
                    self._fetched_more(fetched, those)
                    continue
                for message in those:
                    if (error := message.error()) is not None:
                        self._failed(error, fetched, message)
                        if fetched is not None and fetched.corrupt:
                            not_fetched.append(number or 0)
                            break
                    elif fetched is not None:
                        self._fetched_more(fetched, [message])
        self._wake()
        for partition in not_fetched:
            self._release(partition)

    def _enough(self) -> bool:
        """Nothing is taken from librdkafka, which keeps what it has. Whoever reads may take some in a moment; where he does not,
        those of which there is enough rest, for the others."""
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
        self._expected.discard(partition)
        return True

    def _fetched_more(self, fetched: FetchedPartition, run: list[Message]) -> None:
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
        fetched.failure = why_not_read(self._address, self._topic, message.partition(), error)
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
