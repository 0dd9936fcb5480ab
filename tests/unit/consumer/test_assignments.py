"""A pod's assignments: its mounted ledger, its queue's announcements, and the deadlines of revoked partitions."""

import asyncio
import json
import logging
import resource
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from baton.consumer import AssignmentSource, assignments, ending
from baton.consumer.api_server import ApiConnection, KubernetesLease, ServerClock
from baton.consumer.assignments import AnnouncedAssignments, merged, unconfirmed
from baton.consumer.ending import LedgerDeadlines
from baton.dev.server import DevServer
from baton.engine.ledger import dump
from baton.engine.state import GroupState, Move
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import parse_grants
from baton.queues.protocol import Heard, QueueUnreachable
from tests.waiting import HOUR, PATIENCE, until

POD, POD_UID = MemberId("orders-0"), Uid("uid-0")


def entry_at(epoch: int, uid: str = POD_UID) -> MemberEntry:
    return MemberEntry("shop/orders", POD, Uid(uid), epoch, True, {QueueName("orders"): {0: Epoch(epoch)}})


class Mount:
    """A ConfigMap volume: the files are links into `..data`, which is swapped for a new directory in one step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._version = 0

    def publish(self, files: dict[str, str]) -> None:
        self._version += 1
        fresh = self.directory / f"..2026_11_21_{self._version}"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.directory / "..data")
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")
        for old in self.directory.glob("..2026*"):
            if old != fresh:
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> AssignmentSource:
    return AssignmentSource(tmp_path, POD, POD_UID)


def test_without_a_ledger_or_a_key_there_is_no_entry(mount: Mount, source: AssignmentSource) -> None:
    assert source.current() is None
    for _ in range(2):
        mount.publish({"group": "{}"})
        assert source.current() is None
        mount.publish({"group": "{}", POD: entry_at(1).to_json()})
        assert source.current() == entry_at(1)


def test_each_swap_of_the_mount_is_seen(mount: Mount, source: AssignmentSource) -> None:
    for epoch in range(1, 50):
        mount.publish({POD: entry_at(epoch).to_json()})
        found = source.current()
        assert found == entry_at(epoch)
        assert source.current() is found


def test_the_entry_of_an_earlier_pod_with_that_name_is_ignored(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({POD: entry_at(1, uid="the one before").to_json()})
    assert source.current() is None
    mount.publish({POD: entry_at(2).to_json()})
    assert source.current() == entry_at(2)


def test_a_malformed_entry_leaves_the_last_one_in_force(
    mount: Mount, source: AssignmentSource, caplog: pytest.LogCaptureFixture
) -> None:
    mount.publish({POD: entry_at(1).to_json()})
    source.current()
    with caplog.at_level(logging.WARNING):
        mount.publish({POD: "{edited by hand"})
        assert source.current() == entry_at(1)
        assert source.current() == entry_at(1)
    assert len(caplog.messages) == 1


def test_a_plain_directory_works_outside_a_cluster(tmp_path: Path, source: AssignmentSource) -> None:
    (tmp_path / POD).write_text(entry_at(1).to_json())
    assert source.current() == entry_at(1)
    (tmp_path / POD).write_text(entry_at(22).to_json())
    assert source.current() == entry_at(22)


def test_watchers_are_called_for_each_swap(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({POD: entry_at(1).to_json()})
    changed = threading.Event()
    source.watch(changed.set)
    assert source.current() == entry_at(1), "what is there is known at once"
    assert changed.wait(PATIENCE)
    for epoch in range(2, 12):
        changed.clear()
        mount.publish({POD: entry_at(epoch).to_json()})
        assert changed.wait(PATIENCE)
        assert source.current() == entry_at(epoch)
    source.close()


def test_a_change_between_the_first_look_and_the_watch_is_not_missed(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({POD: entry_at(1).to_json()})
    first = source.current()
    changed = threading.Event()
    mount.publish({POD: entry_at(2).to_json()})
    source.watch(changed.set)
    assert changed.wait(PATIENCE)
    assert source.current() != first
    source.close()


@contextmanager
def no_more_files() -> Iterator[None]:
    """Every open fails with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_unreadable_mount_keeps_the_last_entry_in_force(
    mount: Mount, source: AssignmentSource, caplog: pytest.LogCaptureFixture
) -> None:
    mount.publish({POD: entry_at(1).to_json()})
    assert source.current() == entry_at(1)
    mount.publish({POD: entry_at(2).to_json()})
    with no_more_files():
        assert source.current() == source.current() == entry_at(1)
    assert source.current() == entry_at(2)
    assert ["cannot be read" in message for message in caplog.messages] == [True]


def test_watchers_are_called_when_the_mount_is_readable_again(mount: Mount, source: AssignmentSource) -> None:
    changed = threading.Event()
    mount.publish({POD: entry_at(1).to_json()})
    with no_more_files():
        assert source.current() is None
        source.watch(changed.set)
    assert changed.wait(PATIENCE)
    assert source.current() == entry_at(1)
    source.close()


def test_a_key_is_found_before_the_kubelet_links_it(mount: Mount, source: AssignmentSource) -> None:
    mount.publish({POD: entry_at(1).to_json()})
    (mount.directory / POD).unlink()
    assert source.current() == entry_at(1)


# -- A pod uses the announcements of its queue until the ledger is as new.


ME, UID, ORDERS = MemberId("pod"), Uid("me"), QueueName("orders")
FIVE = Partition(ORDERS, 5)


def entry(owned: str = "", revoking: str = "") -> MemberEntry:
    return MemberEntry("shop/orders", ME, UID, 1, True, {ORDERS: parse_grants(owned)}, {ORDERS: parse_grants(revoking)})


def record(text: str) -> Heard:
    """`me@12`, `me@12 paused`, `none@13`."""
    grant, _, paused = text.partition(" ")
    uid, _, epoch = grant.partition("@")
    return Heard(None if uid == "none" else Uid(uid), Epoch(int(epoch)), paused == "paused")


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
        pytest.param(entry("1@1,5@2"), "none@3", "1@1", "", id="withdrawn"),
        pytest.param(entry("", "5@2"), "other@3", "", "", id="handed off"),
    ],
)
def test_a_newer_announcement_overrides_the_ledger(told: MemberEntry | None, says: str, owned: str, revoking: str) -> None:
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
        pytest.param(None, "none@3", id="no owner, and there is no entry"),
    ],
)
def test_an_announcement_no_newer_than_the_ledger_is_ignored(told: MemberEntry | None, says: str) -> None:
    assert not unconfirmed({FIVE: record(says)}, told, UID)


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
    entry: MemberEntry | None = None
    """The entry in its ledger."""

    def __init__(self) -> None:
        self.queue, self.changed = Queue(), threading.Event()
        ledger = Mock(**{"current.side_effect": lambda: self.entry})
        self.assignments = AnnouncedAssignments(ledger, self.queue, "shop/orders", ME, UID)

    def has(self, owned: str = "", revoking: str = "") -> bool:
        found = self.assignments.current()
        return grants(found or entry()) == grants(entry(owned, revoking))

    @contextmanager
    def listening(self) -> Iterator["Pod"]:
        self.assignments.watch(self.changed.set)
        yield self
        self.assignments.close()
        until(lambda: self.queue.closed)


def test_watchers_are_told_and_find_the_same_object_until_a_change() -> None:
    with Pod().listening() as pod:
        assert pod.assignments.current() is None
        pod.queue.says("me@1")
        assert pod.changed.wait(PATIENCE)
        first = pod.assignments.current()
        assert pod.has("5@1")
        pod.entry = entry("5@1")
        second = pod.assignments.current()
        pod.entry = replace(entry("5@1"))
        assert pod.assignments.current() is second and pod.has("5@1")
        assert first is not second, "the entry is the ledger's own now"


def test_a_ledger_newer_than_an_announcement_is_recognised() -> None:
    with Pod().listening() as pod:
        pod.entry = entry("1@1")
        pod.queue.says("me@2")
        until(lambda: pod.has("1@1,5@2"))
        pod.queue.says("other@3", announced=False)
        until(lambda: pod.has("1@1"))


def test_a_late_ledger_overrides_no_announcement() -> None:
    with Pod().listening() as pod:
        pod.queue.says("me@1")
        until(lambda: pod.has("5@1"))
        pod.queue.says("other@2")
        until(lambda: pod.has())
        pod.entry = entry("1@1,5@1")
        assert pod.has("1@1"), "the grant of epoch 1 is over"
        pod.entry = entry("1@1,5@3")
        assert pod.has("1@1,5@3")


@pytest.mark.parametrize("confirmed", [entry("5@1"), entry("", "5@1"), entry("5@2")])
def test_a_grant_confirmed_by_the_ledger_can_be_revoked_by_the_ledger_alone(confirmed: MemberEntry) -> None:
    """Announcements may be lost, or their connection."""
    with Pod().listening() as pod:
        pod.queue.says("me@1")
        until(lambda: pod.has("5@1"))
        for news in (confirmed, entry("1@1")):
            pod.entry = news
            assert pod.assignments.current() == news


def test_a_recreated_queue_overrides_its_earlier_announcements() -> None:
    with Pod().listening() as pod:
        pod.queue.says("other@7")
        pod.queue.says("me@1", announced=False)
        pod.entry = entry("5@1")
        until(lambda: pod.has("5@1"))


def test_without_owner_records_the_ledger_decides() -> None:
    with Pod().listening() as pod:
        pod.queue.says("me@2")
        until(lambda: pod.has("5@2"))
        pod.queue.says(None, announced=False)
        until(lambda: pod.assignments.current() is None)


def test_a_confirmed_announcement_is_not_looked_up_again() -> None:
    with Pod().listening() as pod:
        pod.queue.says("me@2")
        until(lambda: pod.has("5@2"))
        pod.entry = entry("5@2")
        assert pod.has("5@2")
        pod.queue.says("me@2", announced=False)
        pod.queue.says("me@2 paused")
        until(lambda: pod.has("", "5@2"))
        assert pod.queue.looks == 0


def test_the_time_left_is_looked_up_once_if_it_was_not_announced() -> None:
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


def test_an_unreachable_queue_is_asked_again_later_for_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_event_loop_is_not_blocked_by_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_threads_share_one_request_to_an_unreachable_queue(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_each_kind_of_failure_is_logged_once_and_listening_continues(caplog: pytest.LogCaptureFixture) -> None:
    with Pod().listening() as pod:
        away = QueueUnreachable("redis does not answer")
        for problem in (away, away, ValueError("an odd reply"), ValueError("an odd reply")):
            pod.queue.fails(problem)
        pod.queue.says("me@1")
        until(lambda: pod.has("5@1"))
    first, second = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "redis does not answer" in first.getMessage() and not first.exc_info
    assert "an odd reply" in second.getMessage() and second.exc_info


# -- The ledger's deadlines of revoked partitions.


TWO = Epoch(2)


def state(deadline: float, length: float) -> GroupState:
    move = Move(MemberId("b"), Uid("uid-b"), Epoch(3), MemberId("a"), deadline=deadline, length=length)
    return GroupState("shop/orders", moves={Partition(ORDERS, number): move for number in (2, 3)})


def test_the_time_left_is_read_from_the_ledger(tmp_path: Path) -> None:
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.0, 3.0))[LEDGER_GROUP_KEY])
    left = LedgerDeadlines(tmp_path, lambda: 998.0).left
    assert left(Partition(ORDERS, 2), TWO) == left(Partition(ORDERS, 3), TWO) == 2.0
    assert left(Partition(ORDERS, 1), TWO) is None
    assert left(Partition(QueueName("parcels"), 2), TWO) is None
    assert left(Partition(ORDERS, 2), Epoch(3)) is None, "it is what this owner was given by"


@pytest.mark.parametrize(("now", "left"), [(0.0, 3.0), (2000.0, 0.0)])
def test_time_left_stays_between_zero_and_the_full_length_with_a_wrong_clock(tmp_path: Path, now: float, left: float) -> None:
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.0, 3.0))[LEDGER_GROUP_KEY])
    assert LedgerDeadlines(tmp_path, lambda: now).left(Partition(ORDERS, 2), TWO) == left


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"moves": 1}', '{"moves": [1]}', '{"moves": [{"to": {"b": {"orders": "2@"}}}]}', "[" * 100_000]
)
def test_a_malformed_ledger_has_no_deadlines(tmp_path: Path, text: str) -> None:
    (tmp_path / LEDGER_GROUP_KEY).write_text(text)
    assert LedgerDeadlines(tmp_path).left(Partition(ORDERS, 2), TWO) is None
    assert LedgerDeadlines(tmp_path / "nowhere").left(Partition(ORDERS, 2), TWO) is None


def test_the_ledger_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def loads(text: str) -> object:
        read.append(text)
        return json.loads(text)

    monkeypatch.setattr(ending, "json", SimpleNamespace(loads=loads))
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.0, 3.0))[LEDGER_GROUP_KEY])
    ledger = LedgerDeadlines(tmp_path, lambda: 998.0)
    assert {ledger.left(Partition(ORDERS, number), TWO) for number in (2, 3)} == {2.0}
    assert len(read) == 1
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(1000.5, 3.0))[LEDGER_GROUP_KEY])
    assert {ledger.left(Partition(ORDERS, number), TWO) for number in (2, 3)} == {2.5}
    assert len(read) == 2


@pytest.mark.parametrize("hours", [-5, 0, 5])
def test_deadlines_are_measured_by_the_api_servers_clock(tmp_path: Path, hours: int) -> None:
    """On a node with a wrong clock, or after the machine slept, either no time was left or all of it until the end."""
    server = DevServer("dev", "orders", lambda: None, lambda: time.time() + 3600 * hours)
    server.start()
    api = ApiConnection.from_environment({"BATON_API_SERVER": server.url, "BATON_API_TOKEN": server.token})
    assert KubernetesLease(api, "dev", "baton-a").read() is None
    now = server.now()
    server.close()
    (tmp_path / LEDGER_GROUP_KEY).write_text(dump(state(now + 300.0, 600.0))[LEDGER_GROUP_KEY])
    left = LedgerDeadlines(tmp_path, api.clock.now).left(Partition(ORDERS, 2), TWO)
    assert left is not None
    assert 300 - 1 - PATIENCE < left < 300 + 1


def test_an_answer_without_a_date_does_not_change_the_clock() -> None:
    clock = ServerClock()
    before = clock.now()
    for date in (None, "", "yesterday", "Sat, 21 Nov 999999999 09:48:00 GMT"):
        clock.follow(date, time.monotonic())
    assert before <= clock.now() < before + PATIENCE
