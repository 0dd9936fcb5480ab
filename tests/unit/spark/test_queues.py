"""The driver's side of queues that do not answer."""

import threading
import time
from collections.abc import Sequence

import pytest

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.logged_ranges import AheadAnswer, AheadRequest
from baton.queues.protocol import QueueUnreachable
from baton.spark import queues
from baton.spark.queues import FleetQueues, ParallelRequests, QueueAwayError
from cluster.ports import free_ports
from tests.fleet_context import fleet_queues
from tests.ids import a_partition
from tests.unit.spark.queue_without_entries import QueueWithoutEntries
from tests.waiting import HOUR, PATIENCE, until

ORDERS, PARCELS = QueueName("orders"), QueueName("parcels")
QUESTIONS = {a_partition(queue, 0): AheadRequest(0, Uid("uid-exec-1"), Epoch(1), 7, 1, 1) for queue in (ORDERS, PARCELS)}
_SHORT = 0.05
"""Seconds of patience with a queue in these tests."""


def test_an_unreachable_queue_is_reported_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = f"redis://127.0.0.1:{next(free_ports('127.0.0.1'))}"
    both = FleetQueues({ORDERS: closed, PARCELS: closed}, "shop", "group")
    assert both.ahead({ORDERS: 1, PARCELS: 1}, QUESTIONS) == {}
    assert both.trouble() == "", "it may be over in a moment"
    monkeypatch.setattr(queues, "TOLD_AFTER", 0.0)
    until(lambda: "Work on shop/orders resumes when it is back" in both.trouble(), "it was asked")
    until(lambda: "Work on shop/parcels resumes when it is back" in both.trouble(), "so was the other")
    with pytest.raises(QueueAwayError):
        both.positions([ORDERS])
    assert both.wait([a_partition("orders", 0)], 0.01) == {a_partition("orders", 0)}, "it is to be asked"
    both.close()


def test_an_interrupt_ends_one_wait_without_partitions_and_not_the_next() -> None:
    """Before any partition has an owner, the ledger's next state is an interrupt."""
    one = fleet_queues({ORDERS: QueueWithoutEntries()})
    ended = threading.Event()

    def wait() -> None:
        one.wait([], HOUR)
        ended.set()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    one.interrupt()
    assert ended.wait(PATIENCE)
    began = time.monotonic()
    one.wait([], _SHORT)
    assert time.monotonic() - began > _SHORT / 2
    one.close()


class FarQueue(QueueWithoutEntries):
    """A queue that answers too late."""

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        threading.Event().wait(3 * _SHORT)
        return super().ahead(query, requests)


def test_a_far_queue_is_waited_for_as_long_as_it_took() -> None:
    both = fleet_queues({ORDERS: FarQueue(), PARCELS: QueueWithoutEntries()}, patience=_SHORT)
    until(lambda: both.ahead({ORDERS: 1, PARCELS: 1}, QUESTIONS).keys() == QUESTIONS.keys(), "both are heard in one batch")
    both.close()


def test_patience_is_learned_for_each_kind_of_request() -> None:
    both = ParallelRequests(2, patience=_SHORT)

    def begin() -> int:
        threading.Event().wait(3 * _SHORT)
        return 1

    both.ask("begin", {ORDERS: begin, PARCELS: lambda: 1})
    until(lambda: both.patience("begin", [ORDERS]) > _SHORT, "it has answered")
    assert both.patience("ahead", [ORDERS]) == _SHORT
    both.close()


def test_a_silent_queue_holds_up_no_other_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "TOLD_AFTER", 0.0)
    silent = QueueWithoutEntries()
    silent.answers_now.clear()
    both = fleet_queues({ORDERS: silent, PARCELS: QueueWithoutEntries()})

    def ahead() -> list[bool]:
        answers = both.ahead({ORDERS: 1, PARCELS: 1}, QUESTIONS)
        return [one in answers for one in QUESTIONS]

    for _ in range(2):
        until(lambda: ahead() == [False, True], "the other is heard")
    assert silent.asked == 1
    assert both.trouble().startswith("Queue orders does not answer")
    silent.answers_now.set()
    until(lambda: ahead() == [True, True], "it is asked again")
    assert both.trouble() == ""
    both.close()


def test_an_unreachable_queue_is_reported_and_its_partitions_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queues, "TOLD_AFTER", 0.0)
    orders = QueueWithoutEntries()
    orders.away = True
    fleet = fleet_queues({ORDERS: orders})
    everything = {a_partition("orders", 0), a_partition("orders", 1)}
    assert fleet.wait(everything, HOUR) == everything
    assert fleet.trouble() == "it is away"
    with pytest.raises(QueueAwayError):
        fleet.positions()
    orders.away = False
    fleet.positions()
    assert fleet.trouble() == ""
    fleet.close()


def test_an_unknown_url_scheme_is_rejected_without_showing_the_url() -> None:
    with pytest.raises(QueueUnreachable, match=r"The address of shop/orders is not one of .*redis://, rediss://") as refused:
        FleetQueues({ORDERS: "http://:hunter2@redis"}, "shop", "group")
    assert "hunter2" not in str(refused.value)


def test_two_idle_queues_are_each_waited_for_once() -> None:
    made = {name: QueueWithoutEntries() for name in (ORDERS, PARCELS)}
    both = fleet_queues(made)
    everything = [a_partition("orders", 0), a_partition("parcels", 0)]
    made[ORDERS].news.set()
    assert both.wait(everything, HOUR) == {a_partition("orders", 0)}
    assert [queue.interrupts for queue in made.values()] == [0, 1], "an interrupt would end the next wait of the one with news"
    assert both.wait(everything, 0.01) == set()
    assert [queue.waits for queue in made.values()] == [2, 2]
    both.close()


class SlowQueue(QueueWithoutEntries):
    """A queue that has new entries once the other queue has reported some."""

    def __init__(self, other: QueueWithoutEntries) -> None:
        super().__init__()
        self._other = other

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        until(lambda: self._other.waits == 1, "the other is asked")
        if self._interrupted.wait(0.05):
            return set()
        return {0}


def test_news_of_a_slow_queue_is_heard_beside_that_of_a_fast_one() -> None:
    fast = QueueWithoutEntries()
    both = fleet_queues({ORDERS: fast, PARCELS: SlowQueue(fast)})
    fast.news.set()
    everything = {a_partition("orders", 0), a_partition("parcels", 0)}
    assert both.woken(everything) == everything
    both.close()


def test_a_hanging_server_blocks_news_of_no_other_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "TOLD_AFTER", 0.0)
    monkeypatch.setattr(queues, "PATIENCE", 0.05)
    near, hung = QueueWithoutEntries(), QueueWithoutEntries()
    hung.answers_now.clear()
    both = fleet_queues({ORDERS: near, PARCELS: hung})
    everything = {a_partition("orders", 0), a_partition("parcels", 0)}
    for _ in range(3):
        near.news.set()
        assert both.wait(everything, HOUR) == {a_partition("orders", 0)}
    assert both.trouble().startswith("Queue parcels does not answer")
    hung.answers_now.set()

    def heard() -> bool:
        hung.news.set()
        return a_partition("parcels", 0) in both.wait(everything, 0.01)

    until(heard, "it is heard again")
    assert both.trouble() == ""
    both.close()
