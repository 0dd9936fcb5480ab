"""A pod uses the announcements of its queue until the ledger is as new."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, SimpleQueue
from unittest.mock import Mock

import pytest

from baton.consumer import assignments
from baton.consumer.assignments import AnnouncedAssignments, merged, unconfirmed
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.ranges import parse_grants
from baton.queues.protocol import Heard, QueueUnreachable
from tests.waiting import HOUR, PATIENCE, until

ME, UID, ORDERS = MemberId("pod"), Uid("me"), QueueName("orders")
FIVE = Partition(ORDERS, 5)


def entry(owned: str = "", revoking: str = "") -> MemberEntry:
    return MemberEntry("shop/orders", ME, UID, 1, True, {ORDERS: parse_grants(owned)}, {ORDERS: parse_grants(revoking)})


def record(text: str) -> Heard:
    """`me@12`, `me@12 paused`, `nobody@13`."""
    grant, _, paused = text.partition(" ")
    uid, _, epoch = grant.partition("@")
    return Heard(None if uid == "nobody" else Uid(uid), Epoch(int(epoch)), paused == "paused")


def grants(one: MemberEntry) -> tuple[dict[int, Epoch], dict[int, Epoch]]:
    """Return the owned and the revoked partitions."""
    return dict(one.owned.get(ORDERS, {})), dict(one.revoking.get(ORDERS, {}))


@pytest.mark.parametrize(
    ("told", "says", "owned", "revoking"),
    [
        pytest.param(None, "me@1", "5@1", "", id="granted before the ledger names the pod"),
        pytest.param(entry("1@1"), "me@3", "1@1,5@3", "", id="granted before the ledger names the partition"),
        pytest.param(entry("5@2"), "me@3", "5@3", "", id="granted again"),
        pytest.param(entry("", "5@2"), "me@3", "5@3", "", id="called back and granted again"),
        pytest.param(entry("5@2"), "me@2 paused", "", "5@2", id="called back"),
        pytest.param(entry("5@2"), "me@3 paused", "", "5@3", id="granted again and called back"),
        pytest.param(entry("5@2"), "other@3", "", "", id="lost"),
        pytest.param(entry("1@1,5@2"), "nobody@3", "1@1", "", id="withdrawn"),
        pytest.param(entry("", "5@2"), "other@3", "", "", id="handed off"),
    ],
)
def test_a_queue_that_is_newer_counts(told: MemberEntry | None, says: str, owned: str, revoking: str) -> None:
    records = {FIVE: record(says)}
    assert unconfirmed(records, told, UID) == records
    found = merged(told or entry(), records, UID)
    assert grants(found) == grants(entry(owned, revoking))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        pytest.param(entry("5@3"), "me@3", id="the same"),
        pytest.param(entry("", "5@3"), "me@3 paused", id="the same, called back"),
        pytest.param(entry("", "5@3"), "me@3", id="called back since"),
        pytest.param(entry("5@4"), "me@3 paused", id="granted again since"),
        pytest.param(entry("", "5@4"), "other@3", id="granted and called back since"),
        pytest.param(entry("1@1"), "other@3", id="not ours, as the ledger has it"),
        pytest.param(None, "nobody@3", id="nobody's, and there is no entry"),
    ],
)
def test_a_ledger_that_is_as_new_counts(told: MemberEntry | None, says: str) -> None:
    assert not unconfirmed({FIVE: record(says)}, told, UID)


class Ledger:
    """A ledger for tests."""

    def __init__(self) -> None:
        self.entry: MemberEntry | None = None

    def current(self) -> MemberEntry | None:
        return self.entry

    def watch(self, changed: Callable[[], None]) -> None: ...
    def close(self) -> None: ...


class Queue:
    """Owner records for tests, which it announces, or times out."""

    def __init__(self) -> None:
        self.records: dict[Partition, Heard] = {}
        self.looks = 0
        self.closed = False
        self._news: SimpleQueue[list[Partition] | Exception] = SimpleQueue()

    def says(self, text: str | None, *, announced: bool = True, within: float | None = None) -> None:
        if text is None:
            self.records.clear()
        else:
            self.records[FIVE] = record(text)._replace(within=within)
        self._news.put([FIVE] if announced else [])

    def fails(self, problem: Exception) -> None:
        self._news.put(problem)

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        try:
            news = self._news.get(timeout=timeout)
        except Empty:
            return {}
        if isinstance(news, Exception):
            raise news
        return {one: self.records[one] for one in news}

    def look(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        self.looks += 1
        return {one: self.records[one] for one in partitions if one in self.records}

    def interrupt(self) -> None:
        self._news.put([])

    def close(self) -> None:
        self.closed = True


class Pod:
    def __init__(self) -> None:
        self.ledger, self.queue, self.changed = Ledger(), Queue(), threading.Event()
        self.assignments = AnnouncedAssignments(self.ledger, self.queue, "shop/orders", ME, UID)

    def has(self, owned: str = "", revoking: str = "") -> bool:
        found = self.assignments.current()
        return grants(found or entry()) == grants(entry(owned, revoking))

    @contextmanager
    def listening(self) -> Iterator["Pod"]:
        self.assignments.watch(self.changed.set)
        yield self
        self.assignments.close()
        until(lambda: self.queue.closed)


def test_who_waits_is_told_and_finds_the_same_object_until_something_changes() -> None:
    with Pod().listening() as pod:
        assert pod.assignments.current() is None
        pod.queue.says("me@1")
        assert pod.changed.wait(PATIENCE)
        first = pod.assignments.current()
        assert pod.has("5@1")
        pod.ledger.entry = entry("5@1")
        second = pod.assignments.current()
        pod.ledger.entry = replace(entry("5@1"))
        assert pod.assignments.current() is second and pod.has("5@1")
        assert first is not second, "the entry is the ledger's own now"


def test_a_ledger_that_skipped_what_the_queue_said_is_found_to_be_newer() -> None:
    with Pod().listening() as pod:
        pod.ledger.entry = entry("1@1")
        pod.queue.says("me@2")
        until(lambda: pod.has("1@1,5@2"))
        pod.queue.says("other@3", announced=False)
        until(lambda: pod.has("1@1"))


def test_a_ledger_that_comes_late_takes_nothing_back_that_the_queue_has_said() -> None:
    with Pod().listening() as pod:
        pod.queue.says("me@1")
        until(lambda: pod.has("5@1"))
        pod.queue.says("other@2")
        until(lambda: pod.has())
        pod.ledger.entry = entry("1@1,5@1")
        assert pod.has("1@1"), "the grant of epoch 1 is over"
        pod.ledger.entry = entry("1@1,5@3")
        assert pod.has("1@1,5@3")


@pytest.mark.parametrize("confirmed", [entry("5@1"), entry("", "5@1"), entry("5@2")])
def test_what_the_ledger_has_confirmed_it_also_takes_away_while_the_queue_says_nothing(confirmed: MemberEntry) -> None:
    """Announcements may be lost, or their connection."""
    with Pod().listening() as pod:
        pod.queue.says("me@1")
        until(lambda: pod.has("5@1"))
        for news in (confirmed, entry("1@1")):
            pod.ledger.entry = news
            assert pod.assignments.current() == news


def test_a_queue_that_was_made_again_is_believed_over_what_it_said_before() -> None:
    with Pod().listening() as pod:
        pod.queue.says("other@7")
        pod.queue.says("me@1", announced=False)
        pod.ledger.entry = entry("5@1")
        until(lambda: pod.has("5@1"))


def test_a_queue_that_has_lost_its_records_leaves_it_to_the_ledger() -> None:
    with Pod().listening() as pod:
        pod.queue.says("me@2")
        until(lambda: pod.has("5@2"))
        pod.queue.says(None, announced=False)
        until(lambda: pod.assignments.current() is None)


def test_what_the_ledger_has_confirmed_is_asked_for_no_more() -> None:
    with Pod().listening() as pod:
        pod.queue.says("me@2")
        until(lambda: pod.has("5@2"))
        pod.ledger.entry = entry("5@2")
        assert pod.has("5@2")
        pod.queue.says("me@2", announced=False)
        pod.queue.says("me@2 paused")
        until(lambda: pod.has("", "5@2"))
        assert pod.queue.looks == 0


def test_the_queues_word_on_the_time_left_is_asked_for_once_where_it_was_not_heard() -> None:
    pod = Pod()
    left = pod.assignments.left

    def looks() -> int:
        return pod.queue.looks

    pod.queue.records[FIVE] = record("me@2 paused")._replace(within=HOUR)
    assert 0 < (left(FIVE, Epoch(2)) or 0) <= HOUR and looks() == 1
    assert left(FIVE, Epoch(2)) and looks() == 1
    assert left(FIVE, Epoch(3)) is None and looks() == 2, "of another epoch the record says nothing"
    assert left(FIVE, Epoch(3)) is None and looks() == 2
    pod.queue.records[FIVE] = record("me@4 paused")
    assert left(FIVE, Epoch(4)) is None
    with pod.listening():
        before = looks()
        pod.queue.says("me@5 paused", within=HOUR)
        until(lambda: pod.has("", "5@5"))
        assert left(FIVE, Epoch(5)) and looks() == before


def test_a_queue_that_was_away_is_asked_for_the_time_left_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = Pod()
    left = pod.assignments.left
    pod.queue.records[FIVE] = record("me@2 paused")._replace(within=HOUR)
    with monkeypatch.context() as away:
        away.setattr(pod.queue, "look", Mock(side_effect=QueueUnreachable("it is away")))
        assert left(FIVE, Epoch(2)) is None
    assert left(FIVE, Epoch(2)) is None and pod.queue.looks == 0, "a handler does not wait for it each time"
    monkeypatch.setattr(assignments, "LOOK_AGAIN", 0.0)
    assert 0 < (left(FIVE, Epoch(2)) or 0) <= HOUR and pod.queue.looks == 1
    assert left(FIVE, Epoch(1)) is None and left(FIVE, Epoch(2)) and pod.queue.looks == 1, "a late question takes nothing away"


def test_an_event_loop_does_not_wait_for_the_queues_word_on_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pod, answers, asked = Pod(), threading.Event(), []
    pod.queue.records[FIVE] = record("me@2 paused")._replace(within=HOUR)
    look = pod.queue.look

    def slow(partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        asked.append(threading.current_thread())
        assert answers.wait(PATIENCE)
        return look(partitions)

    async def handle() -> None:
        for _ in range(3):
            assert pod.assignments.left(FIVE, Epoch(2)) is None, "it does not wait"
        answers.set()
        await asyncio.to_thread(until, lambda: pod.assignments.left(FIVE, Epoch(2)))
        assert 0 < (pod.assignments.left(FIVE, Epoch(2)) or 0) <= HOUR

    monkeypatch.setattr(pod.queue, "look", slow)
    asyncio.run(handle())
    assert pod.queue.looks == 1 and threading.main_thread() not in asked


def test_threads_do_not_wait_one_after_the_other_for_a_queue_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    pod, together = Pod(), threading.Barrier(8)
    away = Mock(side_effect=QueueUnreachable("it is away"))
    monkeypatch.setattr(pod.queue, "look", away)

    def ask() -> None:
        together.wait(PATIENCE)
        assert pod.assignments.left(FIVE, Epoch(2)) is None

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert away.call_count == 1


def test_each_kind_of_failure_is_told_once_and_listening_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with Pod().listening() as pod:
        away = QueueUnreachable("redis does not answer")
        for problem in (away, away, ValueError("an odd reply"), ValueError("an odd reply")):
            pod.queue.fails(problem)
        pod.queue.says("me@1")
        until(lambda: pod.has("5@1"))
    first, second = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "redis does not answer" in first.getMessage() and not first.exc_info
    assert "an odd reply" in second.getMessage() and second.exc_info
