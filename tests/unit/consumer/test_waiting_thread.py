"""A queue can be waited for again however the last wait ended."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from baton.consumer import AssignmentSource, Consumer
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.waiting_thread import WaitingThread
from baton.testing import InMemoryReader
from tests.waiting import PATIENCE, until


class EmptyQueue(InMemoryReader):
    """A queue that gets no entries."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__(QueueName("orders"), 1, 0, [], [])
        self.failures = failures
        self.waits = 0
        self.closed = False
        self._interrupt = threading.Event()
        self._waiting: WaitingThread | None = None

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        self.waits += 1
        if self.waits <= self.failures:
            raise ValueError("a reply that nobody expected")
        self._interrupt.wait(timeout)
        self._interrupt.clear()
        return set()

    def interrupt(self) -> None:
        self._interrupt.set()

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        if self._waiting is None:
            self._waiting = WaitingThread(self.wait, self.interrupt, woken)
        self._waiting.wait_for(partitions)

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()
        self.closed = True


def test_a_failure_that_nobody_expected_is_told_once_and_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    queue, woken = EmptyQueue(failures=2), threading.Event()
    with closing(WaitingThread(queue.wait, queue.interrupt, woken.set)) as waiter:
        for _ in range(2):
            waiter.wait_for(frozenset({0}))
            assert woken.wait(PATIENCE)
            woken.clear()
        waiter.wait_for(frozenset({0}))
        until(lambda: queue.waits == 3)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_queue_of_which_nothing_is_left_is_closed_and_opened_again_when_it_is_back(tmp_path: Path) -> None:
    opened: dict[str, list[EmptyQueue]] = {}

    def open_queue(name: QueueName) -> EmptyQueue:
        opened.setdefault(name, []).append(EmptyQueue())
        return opened[name][-1]

    def own(*queues: str) -> None:
        owned = {QueueName(queue): {0: Epoch(1)} for queue in queues}
        (tmp_path / "fresh").write_text(MemberEntry("shop/g", MemberId("pod"), Uid("u"), 1, True, owned).to_json())
        (tmp_path / "fresh").rename(tmp_path / "pod")

    def waiters() -> int:
        return sum(thread.name == "baton-waiting" for thread in threading.enumerate())

    before = waiters()
    own("orders", "parcels")
    consumer = Consumer(open_queue, AssignmentSource(tmp_path, MemberId("pod"), Uid("u")), Uid("u"))
    running = threading.Thread(target=consumer.run, args=(lambda entry: None,), daemon=True)
    running.start()
    try:
        until(lambda: waiters() == before + 2)
        own("parcels")
        until(lambda: opened["orders"][0].closed and waiters() == before + 1)
        assert not opened["parcels"][0].closed
        own("orders", "parcels")
        until(lambda: len(opened["orders"]) == 2 and opened["orders"][1].waits)
        own()
    finally:
        consumer.stop()
        running.join(PATIENCE)
    until(lambda: all(queue.closed for queues in opened.values() for queue in queues))
    assert len(opened["parcels"]) == 1
