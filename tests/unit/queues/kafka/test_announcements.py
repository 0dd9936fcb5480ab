"""Announcements on Kafka: their text, and pods that keep receiving them whatever one contains."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import accumulate, chain
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.commit import OffsetCommitRequest

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka import announcements
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import (
    EVERY_POD,
    LONGEST,
    MOST_TEXTS,
    READ_WITHIN,
    Announcement,
    Change,
    KafkaAnnouncements,
    KafkaAnnouncer,
    Texts,
    _left_of,
    mark,
    read,
)
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.fetcher import Fetcher, PodFetchers
from baton.queues.kafka.record import Committed
from baton.queues.protocol import Heard, Ownership, QueueUnreachable
from tests.waiting import PATIENCE, until

# -- Announcements as they stand beside an offset.


def test_an_announcement_reads_back_as_written() -> None:
    announcement = Announcement("orders", (Change(3, 0, 7, -1, 0, 12), Change(4, 5, 8, 2500, EVERY_POD, 13)))
    assert read(announcement.to_text() + "\0") == announcement


@pytest.mark.parametrize("partition", [-1, 2**31])
def test_a_partition_that_kafka_cannot_have_is_not_batons(partition: int) -> None:
    good, forged = Change(1, 2**31 - 1, 1, -1, 0, 0), Change(1, partition, 1, -1, 0, 0)
    assert read(Announcement("q", (good,)).to_text()) == Announcement("q", (good,))
    assert read(Announcement("q", (good, forged)).to_text()) is None


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[1]", '{"baton":1}', '{"baton":1,"queue":"q","said":[[1]]}', "[" * 4000, "x" * 10**6]
)
def test_a_text_that_does_not_parse_is_not_batons(text: str | None) -> None:
    assert read(text) is None


def test_pods_are_told_apart_by_short_marks() -> None:
    marks = {mark(f"0b4f8c{number:02}-uid") for number in range(20)}
    assert len(marks) == 20 and all(0 < one < 10_000 for one in marks)
    assert mark(None) == mark("") == 0, "nobody"


B_POD = Uid("0b4f8c11-uid")


def handed(partition: int, uid: Uid = B_POD, then: int = 9) -> Change:
    return Change(4, partition, 8, 2500, 12, mark(uid), then)


def test_a_direct_hand_off_names_the_receivers_uid() -> None:
    by_operator = Change(4, 1, 8, 2500, 12, mark(B_POD))
    found = read(Announcement("orders", (handed(0), by_operator), {mark(B_POD): B_POD}).to_text())
    assert found is not None
    assert [found.receiver(one) for one in found.changes] == [B_POD, None]
    assert found.changes == (handed(0), by_operator)


def test_a_uid_is_written_once_and_only_for_receivers() -> None:
    text = Announcement("orders", tuple(handed(number) for number in range(64)), {mark(B_POD): B_POD, 7: Uid("nobody")}).to_text()
    assert (text.count(B_POD), text.count("nobody")) == (1, 0)


LONG = Uid("x" * 300)


@pytest.mark.parametrize(
    ("change", "uids"),
    [
        (handed(0), {}),  # no UID was announced
        (handed(0), {mark(B_POD): Uid("another")}),
        (handed(0, LONG), {mark(LONG): LONG}),
        *((handed(0, then=epoch), {mark(B_POD): B_POD}) for epoch in (8, 7, 2**53)),  # no grant would have such an epoch
    ],
)
def test_a_forged_or_incomplete_receiver_is_ignored(change: Change, uids: dict[int, Uid]) -> None:
    found = read(Announcement("orders", (change,), uids).to_text())
    assert found is not None and found.receiver(found.changes[0]) is None


# -- Which changes stand beside which offsets.


def paused(count: int, first: int = 0) -> list[Change]:
    return [Change(0, number, 10**6, 3000, 9999, mark(B_POD), 10**6 + 1) for number in range(first, first + count)]


class Stored:
    """The offsets of a topic and the texts beside them, at a time that the test sets."""

    def __init__(self, partitions: int = 1000) -> None:
        self.texts, self.now, self.beside, self._partitions = Texts("q" * 200), 100.0, dict[int, tuple[int, str]](), partitions

    def add(self, changes: list[Change]) -> int:
        """Add these, send what is new, and return how many there was room for."""
        added = self.texts.add(changes, {mark(B_POD): B_POD}, self._partitions, self.now)
        self.send()
        return added

    def send(self) -> None:
        unsent = self.texts.unsent()
        self.beside |= {partition: (offset, text) for partition, offset, text in unsent}
        self.texts.sent([partition for partition, _, _ in unsent], self.now)

    def changes(self) -> dict[int, list[int]]:
        """The partitions that changed, by the partition whose offset has them."""
        found = {partition: read(text) for partition, (_, text) in self.beside.items()}
        return {partition: [one.partition for one in text.changes] for partition, text in found.items() if text is not None}


def test_changes_that_do_not_fit_into_one_text_are_in_others() -> None:
    stored = Stored()
    assert stored.add(paused(300)) == 300
    changes = stored.changes()
    assert [*changes] == [*range(len(changes))] and 3 <= len(changes) <= 5
    assert [*chain(*changes.values())] == [*range(300)], "each is in one text, in order"
    assert all(len(text) <= LONGEST + 1 for _, text in stored.beside.values())
    assert [offset for offset, _ in stored.beside.values()] == [*accumulate(map(len, changes.values()))], (
        "each change is numbered"
    )


def test_a_few_changes_stay_in_one_text() -> None:
    stored = Stored()
    for number in range(20):
        stored.now += 10.0
        stored.add(paused(1, number))
    assert stored.changes() == {0: [*range(20)]}
    assert not stored.texts.several


def test_texts_are_removed_once_they_are_read_but_never_the_last() -> None:
    stored = Stored()
    stored.add(paused(300))
    last, of_last = [*stored.changes().items()][-1]
    stored.now += READ_WITHIN - 0.1
    stored.add([])
    assert stored.texts.left(stored.now) == pytest.approx(0.1)
    assert len(stored.changes()) == last + 1
    stored.now += 0.2
    stored.add([])
    assert (stored.changes(), stored.texts.several) == ({last: of_last}, False)


@pytest.mark.parametrize("partitions", [1, 3, 1000])
def test_no_text_is_replaced_before_pods_have_read_it(partitions: int) -> None:
    stored = Stored(partitions)
    before = stored.add(paused(10_000))
    changes = stored.changes()
    assert len(changes) == min(partitions, MOST_TEXTS)
    assert [*chain(*changes.values())] == [*range(before)]
    assert stored.add(paused(10_000 - before, before)) == 0, "it is full"
    stored.now += READ_WITHIN
    assert stored.add(paused(10_000 - before, before)) > 0
    assert before in [*chain(*stored.changes().values())]


def test_a_text_that_could_not_be_sent_stays_until_it_is() -> None:
    stored = Stored()
    stored.texts.add(paused(300), {}, 1000, stored.now)
    stored.now += 10 * READ_WITHIN
    assert stored.texts.left(stored.now) is None
    stored.add([])
    assert [*chain(*stored.changes().values())] == [*range(300)]


def test_another_operator_goes_on_above_the_offsets_and_removes_the_other_texts() -> None:
    stored = Stored()
    stored.add(paused(300))
    stored.texts = Texts("q" * 200)
    stored.texts.begin({partition: offset for partition, (offset, _) in stored.beside.items()})
    stored.add(paused(1, 400))
    assert (stored.changes(), stored.beside[0][0]) == ({0: [400]}, 301)


# -- What the operator announces to the pods of a group.


class Broker:
    """Keeps what is committed."""

    def __init__(self, partitions: int = 1000) -> None:
        self.partitions = partitions
        self.beside: dict[int, tuple[int, str]] = {}
        """Offset and text by partition."""

    async def to_group(self, _: KafkaClient, request: Any) -> Any:
        if not isinstance(request, OffsetCommitRequest):
            return SimpleNamespace(error_code=0, topics=[])
        [(topic, partitions)] = request._topics
        self.beside |= {partition: (offset, text) for partition, offset, text in partitions if partition < self.partitions}
        unknown = 3  # UNKNOWN_TOPIC_OR_PARTITION
        codes = [(partition, 0 if partition < self.partitions else unknown) for partition, _, _ in partitions]
        return SimpleNamespace(topics=[(topic, codes)])

    def announced(self) -> list[int]:
        """The partitions that changed, as pods can read them."""
        texts = [read(text) for _, text in list(self.beside.values())]  # another thread may look
        return [one.partition for text in texts if text is not None for one in text.changes]


@pytest.fixture
async def announcer() -> AsyncIterator[KafkaAnnouncer]:
    """Closed after the test."""
    made = KafkaAnnouncer(KafkaAddress(("127.0.0.1:1",)), "shop.orders", "baton-operator", "orders", "orders")
    yield made
    await made.close()


async def test_an_unexpected_error_is_logged_and_later_grants_are_announced(
    announcer: KafkaAnnouncer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[Exception] = [ValueError("an answer that cannot be decoded")]
    broker = Broker()

    async def to_group(client: KafkaClient, request: Any) -> Any:
        if problems:
            raise problems.pop()
        return await broker.to_group(client, request)

    monkeypatch.setattr(KafkaClient, "to_group", to_group)
    announcer.granted(0, 1, Uid("a"))
    await soon(lambda: "cannot announce" in caplog.text and "an answer that cannot be decoded" in caplog.text)
    announcer.granted(0, 2, Uid("b"))
    await soon(lambda: broker.beside)


async def test_changes_are_announced_after_the_topic_was_created_again_with_fewer_partitions(
    announcer: KafkaAnnouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(300)
    monkeypatch.setattr(KafkaClient, "to_group", lambda *asked: broker.to_group(*asked))
    monkeypatch.setattr(announcements, "READ_WITHIN", 0.0)
    announcer.described("id", 300)
    for partition in range(300):
        announcer.paused(partition, 1, 3.0, None, direct=False)

    await soon(lambda: broker.announced()[-1:] == [299])
    offset = max(offset for offset, _ in broker.beside.values())
    broker = Broker(1)
    announcer.described("another", 1)
    announcer.granted(0, 2, Uid("a"))
    await soon(lambda: broker.announced() == [0])
    assert [*broker.beside] == [0] and broker.beside[0][0] > offset


async def soon(look: Callable[[], object]) -> None:
    await asyncio.to_thread(until, look)


def test_an_owner_has_less_time_after_its_pause_has_waited_for_room() -> None:
    (pause,) = paused(1)
    assert _left_of(pause, 0).within == 3000
    assert _left_of(pause, 1).within == 2000
    assert _left_of(pause, 5).within == 1
    assert _left_of(pause._replace(within=-1), 5).within == -1, "a grant has no deadline"


ADDRESS, GROUP = KafkaAddress(("127.0.0.1:1",)), "shop.orders"
FORGED, GRANTED = Partition(QueueName("forged"), 0), Partition(QueueName("orders"), 1)
HEARD = Heard(Uid("a"), Epoch(2))


class NotFetching(PodFetchers):
    """Records what it should fetch."""

    def __init__(self) -> None:
        super().__init__(partial(Fetcher, ADDRESS, GROUP))
        self.expected: list[tuple[str, int, int]] = []

    def expect(self, topic: str, partition: int, offset: int) -> None:
        self.expected.append((topic, partition, offset))


class Announced(KafkaAnnouncements):
    """Works without a broker: announces changed partitions once, and cannot look at all of them while some are `unreadable`."""

    def __init__(self, *news: set[Partition]) -> None:
        self.handoffs, self.fetchers = DirectHandoffs(), NotFetching()
        super().__init__(ADDRESS, GROUP, Uid("a"), EventLoopThread(), self.handoffs, self.fetchers)
        self.news = list(news)
        self.unreadable, self.written = True, True

    def _news(self) -> set[Partition]:
        return self.news.pop(0) if self.news else set()

    def look(self, partitions: Iterable[Partition], *, beside_pending: bool = True) -> Mapping[Partition, Heard]:
        if FORGED in partitions and self.unreadable:
            raise QueueUnreachable("the user may not READ its topic")
        return dict.fromkeys(partitions if self.written else (), HEARD)


def test_an_unreadable_partition_does_not_block_the_next_announcement() -> None:
    with closing(Announced({FORGED}, {GRANTED})) as announced:
        assert announced.wait(PATIENCE) == {GRANTED: HEARD}


def test_an_awaited_partition_that_is_unreadable_is_no_longer_awaited() -> None:
    with closing(Announced(set(), {GRANTED})) as announced:
        announced._awaited, announced._awaited_until = {FORGED}, float("inf")
        with pytest.raises(QueueUnreachable):
            announced.wait(PATIENCE)
        assert announced.wait(PATIENCE) == {GRANTED: HEARD}


def test_a_grant_is_heard_after_a_look_has_failed() -> None:
    with closing(Announced({FORGED}, {GRANTED})) as announced:
        assert announced.wait(PATIENCE) == {GRANTED: HEARD}
        announced.unreadable = False
        assert announced.wait(PATIENCE) == {FORGED: HEARD}


def test_a_grant_whose_record_is_still_being_written_at_the_end_of_a_wait_is_heard_later() -> None:
    with closing(Announced({GRANTED})) as announced:
        announced.written = False
        assert announced.wait(0.0) == {}
        announced.written = True
        assert announced.wait(PATIENCE) == {GRANTED: HEARD}


def test_a_partition_that_stays_unreadable_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Announced({FORGED})) as announced:
        monkeypatch.setattr(announcements, "_LOOKED_FOR", 0.0)
        with pytest.raises(QueueUnreachable, match="may not READ"):
            announced.wait(PATIENCE)
        assert announced.wait(0.0) == {}


A, B = Uid("a"), Uid("b")
ONE, TWO = Epoch(1), Epoch(2)


class Listening(Announced):
    """Pod a."""

    def hears(self, owner: Uid, receiver: Uid, *, then: int = TWO, within: int = 10_000, number: int = 1) -> set[Partition]:
        said = Change(number, 1, ONE, within, mark(owner), mark(receiver), then)
        return self.reads({0: Announcement("orders", (said,), {mark(receiver): receiver})})

    def reads(self, texts: Mapping[int, Announcement]) -> set[Partition]:
        """`texts`: by the partition whose offset has them."""
        return self._apply("orders-topic", {one: (text.changes[-1].number, text.to_text()) for one, text in texts.items()})


@pytest.fixture
def pod() -> Iterator[Listening]:
    with closing(Listening()) as made:
        yield made


def test_an_owner_hears_of_the_next_owner_before_it_releases(pod: Listening) -> None:
    assert (pod.hears(A, B), pod.handoffs.next_owner(GRANTED, ONE)) == (set(), Ownership(B, TWO))
    assert pod.wait(60.0) == {GRANTED: HEARD}, "a moment later"


@pytest.mark.parametrize(("then", "within"), [(0, 10_000), (TWO, 500)])
def test_an_owner_releases_at_once_without_a_direct_hand_off(pod: Listening, then: int, within: int) -> None:
    assert pod.hears(A, B, then=then, within=within) == {GRANTED}
    assert pod.handoffs.next_owner(GRANTED, ONE) is None


def test_only_the_latest_plan_of_an_epoch_counts(pod: Listening) -> None:
    pod.hears(A, B)
    assert pod.handoffs.next_owner(GRANTED, TWO) is None
    pod.hears(A, Uid("c"), then=3, number=2)
    assert pod.handoffs.next_owner(GRANTED, ONE) == Ownership(Uid("c"), Epoch(3))
    pod.hears(A, B, then=0, number=3)
    assert pod.handoffs.next_owner(GRANTED, ONE) is None, "the operator grants it"


def test_an_expected_partition_is_fetched_once_until_the_plan_changes(pod: Listening) -> None:
    seen = Committed(7, None)
    pod._expect(GRANTED, "orders-topic", seen)
    pod.hears(B, A)
    for _ in range(2):
        pod._expect(GRANTED, "orders-topic", seen)
    assert (pod._awaited, pod.fetchers.expected) == ({GRANTED}, [("orders-topic", 1, 7)])
    pod.hears(B, Uid("c"), number=2)
    pod._expect(GRANTED, "orders-topic", seen)
    assert (pod._awaited, len(pod.fetchers.expected)) == (set(), 1)
    pod.hears(B, A, number=3)
    pod._expect(GRANTED, "orders-topic", Committed(-1, None))
    assert len(pod.fetchers.expected) == 1, "nothing was committed yet"
    pod._expect(GRANTED, "orders-topic", Committed(9, None))
    assert pod.fetchers.expected[1:] == [("orders-topic", 1, 9)]


def test_an_owner_is_never_its_own_receiver(pod: Listening) -> None:
    assert (pod.hears(A, A), pod.handoffs.next_owner(GRANTED, ONE)) == ({GRANTED}, None)


def test_changes_in_several_texts_are_heard_in_their_order(pod: Listening) -> None:
    """The text with the later change is beside the first offset."""
    awaited, granted = Change(5, 1, ONE, 10_000, mark(B), mark(A), TWO), Change(6, 1, TWO, -1, mark(B), mark(A))
    assert pod.reads({0: Announcement("orders", (granted,)), 1: Announcement("orders", (awaited,))}) == {GRANTED}
    assert pod._awaited == set()


def test_no_change_is_heard_twice_however_many_texts_there_are(pod: Listening) -> None:
    texts = {n: Announcement("orders", (Change(n + 1, n, ONE, -1, 0, mark(A)),)) for n in range(3)}
    assert pod.reads(texts) == {Partition(GRANTED.queue, n) for n in range(3)}
    more = Announcement("orders", (*texts[1].changes, Change(4, 9, ONE, -1, 0, mark(A))))
    assert pod.reads({**texts, 1: more}) == {Partition(GRANTED.queue, 9)}


async def test_all_of_many_pauses_at_once_are_heard(
    announcer: KafkaAnnouncer, pod: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, count = Broker(), 1000
    monkeypatch.setattr(KafkaClient, "to_group", lambda *asked: broker.to_group(*asked))
    announcer.described("id", count)
    for partition in range(count):
        announcer.owned(partition, A)
    for partition in range(count):
        announcer.paused(partition, ONE, 3.0, Ownership(B, TWO), direct=True)

    await soon(lambda: broker.beside)
    pod._apply("orders-topic", broker.beside)
    assert len(pod._paused) == count
