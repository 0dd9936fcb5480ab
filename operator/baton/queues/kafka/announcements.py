"""Announcements as a pod hears them: partitions whose owner records it is to look at, and to which pod it hands over its own."""

import threading
import time
from collections.abc import Iterable, Mapping

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcement import ANYBODY, Announcement, announcing_group, mark, read
from baton.queues.kafka.client import ASKED_WITHIN, KafkaClient
from baton.queues.kafka.direct_handoffs import DirectHandoffs, HandedOver
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.messages import CommittedOffsets
from baton.queues.kafka.pod_fetchers import PodFetchers
from baton.queues.kafka.record import BY_GIVER, Committed, Record
from baton.queues.kafka.transaction import committed
from baton.queues.protocol import Heard, Owner

_EVERY, _LIVELY = 0.2, 0.015
"""Seconds between two questions for announcements, and between two looks at a partition that is about to be this pod's,"""
_LESS_OFTEN = 40
"""or this part of the time for which it has waited for it."""
_HEARD_WITHIN = 0.3
"""Seconds after which everybody who is concerned has heard of a pause: until then its owner works on, and then hands the
partition to one who looks out for it,"""
_LONG = 1000
"""where it has so many milliseconds to let go of it."""
_GRANTED_WITHIN = 3.0
"""Seconds after its owner's time is up for the operator's grant."""


class KafkaAnnouncements:
    """Of one pod, for all queues of its group. One thread waits; any may look, or interrupt it. Raises QueueUnreachable."""

    def __init__(
        self,
        address: KafkaAddress,
        group: str,
        uid: Uid,
        handoffs: DirectHandoffs,
        fetchers: PodFetchers,
    ) -> None:
        """`group`: the group id in Kafka. `handoffs`: what is heard of hand-offs, for the pod's readers. `fetchers`: theirs."""
        self._handoffs = handoffs
        self._fetchers = fetchers
        self._uid = uid
        self._mark = mark(uid)
        self._loop = EventLoopThread("baton-kafka-announcements")
        self._announced = KafkaClient(address, announcing_group(group), "baton")
        self._records = KafkaClient(address, group, "baton")
        self._heard: dict[str, tuple[int, str]] = {}
        """The last announcement of each topic, and its number."""
        self._topics: dict[QueueName, str] = {}
        self._paused: dict[Partition, tuple[int, float]] = {}
        """The last pause of each: its epoch, and until when the owner has it (monotonic)."""
        self._paused_at: dict[Partition, float] = {}
        """When pauses of this pod's partitions are told (monotonic): their receivers are to have heard of them by then."""
        self._due: set[Partition] = set()
        """To be looked at: their records are just being written."""
        self._awaited: set[Partition] = set()
        """That others let go of for this pod,"""
        self._awaited_since = 0.0
        """since the last of them was heard of (monotonic),"""
        self._awaited_until = float("-inf")
        """and until all of them are this pod's (monotonic)."""
        self._expected: set[Partition] = set()
        """Of the awaited ones those that are fetched already."""
        self._ask_at = 0.0
        """When the next question for announcements is due (monotonic)."""
        self._interrupted = threading.Event()

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        """The owner records of what is announced, as they are now; nothing after `timeout` seconds."""
        until = time.monotonic() + timeout
        while not self._interrupted.is_set():
            if time.monotonic() >= self._ask_at:
                self._due |= self._news()
                self._ask_at = time.monotonic() + _EVERY
            now = time.monotonic()
            self._due |= {one for one, at in self._paused_at.items() if at <= now}
            self._paused_at = {one: at for one, at in self._paused_at.items() if at > now}
            awaited = self._awaited if now < self._awaited_until else set()
            seen = self._look_once(self._due | awaited) if self._due or awaited else {}
            if found := {one: heard for one, heard in seen.items() if one in self._due or heard.uid == self._uid}:
                self._due -= found.keys()
                self._awaited -= {one for one, heard in found.items() if heard.uid == self._uid}
                return found
            if time.monotonic() >= until:
                self._due.clear()
                break
            next_at = min(self._ask_at, *self._paused_at.values()) if self._paused_at else self._ask_at
            rest = max(0.0, next_at - time.monotonic())
            if self._due:
                rest = _LIVELY
            elif awaited:
                rest = min(rest, max(_LIVELY, (now - self._awaited_since) / _LESS_OFTEN))
            self._interrupted.wait(rest)
        self._interrupted.clear()
        return {}

    def look(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        """The owner records of these, as they are now. Without those that there are not. One that is just being written is
        answered as it is until then: else a partition of which a commit is under way would be taken for one that is gone."""
        return self._look(partitions, beside_pending=True)

    def _look(self, partitions: Iterable[Partition], *, beside_pending: bool) -> Mapping[Partition, Heard]:
        """`beside_pending` False: without those that are just being written."""
        wanted = {(self._topics[one.queue], one.number): one for one in partitions if one.queue in self._topics}
        found: dict[Partition, Heard] = {}
        for topic in {topic for topic, _ in wanted}:
            numbers = tuple(sorted(number for name, number in wanted if name == topic))
            asked_at = time.monotonic()
            asked = committed(self._records, topic, numbers, beside_pending=beside_pending)
            seen, _ = self._loop.run(asked, ASKED_WITHIN)
            for key, one in seen.items():
                if one.record is None:
                    continue
                self._handoffs.saw(wanted[key], one.record.epoch)
                self._expect(wanted[key], topic, one)
                if one.record.uid == self._uid and one.record.reader == BY_GIVER:
                    self._handoffs.handed_over(wanted[key], HandedOver(topic, one, asked_at))
                found[wanted[key]] = self._as_heard(wanted[key], one.record)
        return found

    def interrupt(self) -> None:
        """End the wait that another thread is in, or the next one."""
        self._interrupted.set()

    def close(self) -> None:
        self._loop.close(self._announced.close, self._records.close)
        self._fetchers.close()

    def _look_once(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        """What cannot be looked at is no longer due, or one announcement would keep this pod from all others: the ledger tells of
        it."""
        try:
            return self._look(partitions, beside_pending=False)
        except Exception:
            self._due.clear()
            self._awaited.clear()
            self._expected.clear()
            raise

    def _expect(self, partition: Partition, topic: str, seen: Committed) -> None:
        """Have it fetched from where its owner is, if it is to be this pod's."""
        if partition in self._awaited and partition not in self._expected and seen.offset >= 0:
            self._expected.add(partition)
            self._fetchers.expect(topic, partition.number, seen.offset)

    def _as_heard(self, partition: Partition, record: Record) -> Heard:
        epoch, until = self._paused.get(partition, (0, 0.0))
        paused = epoch == record.epoch
        return Heard(record.uid, Epoch(record.epoch), paused, max(0.0, until - time.monotonic()) if paused else None)

    def _news(self) -> set[Partition]:
        """Partitions that were announced since the last question."""
        answer = self._loop.run(self._ask(), ASKED_WITHIN)
        found: set[Partition] = set()
        for topic, those, _ in answer:
            for _, number, _, text, code, _ in those:
                announcement = read(text) if not code and self._heard.get(topic) != (number, text) else None
                if announcement is not None:
                    found |= self._take_in(topic, number, announcement)
                    self._heard[topic] = number, text
        return found

    def _take_in(self, topic: str, number: int, announcement: Announcement) -> set[Partition]:
        queue = QueueName(announcement.queue)
        self._topics[queue] = topic
        last, _ = self._heard.get(topic, (0, ""))
        after = last if last < number else 0  # else another operator counts
        concerned: set[Partition] = set()
        for one in announcement.said:
            partition = Partition(queue, one.partition)
            if one.number > after:
                self._awaited.discard(partition)
                self._expected.discard(partition)
                self._paused_at.pop(partition, None)
            if one.number <= after or not {ANYBODY, self._mark} & {one.owner, one.receiver}:
                continue
            if one.within < 0:
                concerned.add(partition)
                continue
            now = time.monotonic()
            if one.receiver == self._mark:
                self._awaited.add(partition)
                self._awaited_since = now
                self._awaited_until = max(self._awaited_until, now + one.within / 1000 + _GRANTED_WITHIN)
            if one.owner in (ANYBODY, self._mark):
                self._paused[partition] = one.epoch, now + one.within / 1000
                uid = announcement.receiver(one) if one.within >= _LONG else None
                then = Owner(uid, Epoch(one.then)) if uid and uid != self._uid else None
                self._handoffs.set_next_owner(partition, Epoch(one.epoch), then)
                if then is not None:
                    self._paused_at[partition] = now + _HEARD_WITHIN
                else:
                    concerned.add(partition)
        return concerned

    async def _ask(self) -> list[tuple[str, list[tuple[int, int, int, str, int, dict[int, bytes]]], dict[int, bytes]]]:
        answer = None

        async def ask() -> int:
            nonlocal answer
            answer = await self._announced.to_group(CommittedOffsets(self._announced.group))
            return int(answer.error_code)

        await self._announced.until_taken("OffsetFetch", ask, "")
        return list(answer.topics) if answer is not None else []
