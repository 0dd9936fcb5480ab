"""Held partitions: changes of the ledger, and queues that are slow, away, or reject requests."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from baton.consumer import AssignmentSource, Consumer, Reject, Session, loop
from baton.consumer.entry import HeldEntry
from baton.consumer.outcome import DeadLetter, Nack
from baton.consumer.partition import HeldPartition, HeldPartitions, Phase
from baton.consumer.queue_requests import TOLD_AFTER, QueueRequests
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.consumer_side import SURE_FOR
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.output import FinishedTogether, Output
from baton.queues.protocol import Ownership, PartitionUnavailable, QueueUnreachable
from baton.queues.waiting_thread import WaitingThread
from baton.testing import InMemoryAssignments, InMemoryReader, TestQueue
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.readers import GoesAway, consumer_of, dead, offsets, queue_of
from tests.waiting import HOUR, PATIENCE, until

ORDERS = QueueName("orders")


def held(number: int = 0, sure_at: float = 0.0) -> HeldPartition:
    """A partition of the queue at epoch 1, without a listener."""
    listener: Any = None
    return HeldPartition(Partition(ORDERS, number), Epoch(1), listener, sure_at=sure_at)


class Held:
    """Holds partition 0 at epoch 1, with one finished entry and one in hand."""

    def __init__(self, reader: type[GoesAway] = GoesAway) -> None:
        self.queue, self.reader = queue_of(reader)
        for _ in range(2):
            self.queue.send("k", "v")
        self.work = QueueRequests()
        self.partitions = HeldPartitions(lambda name: self.reader, self.queue._ledger, Mock(), lambda: None)
        self.follow()
        (self.holding,) = self.partitions
        self.work.read(self.holding, self.partitions.reader(self.holding), 2)
        self.holding.handled.append("0")

    def names_nothing(self) -> None:
        """Change the ledger without the queue."""
        self.queue._ledger.owned = frozenset()
        self.queue._ledger._say()

    def follow(self) -> list[HeldPartition]:
        return self.partitions.follow_ledger(lambda holding, reader: self.work.settle(holding, reader))


class Taken(GoesAway):
    """Another pod owns the partition."""

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        raise StaleOwner(partition, "a", epoch, Ownership(Uid("b"), Epoch(2)))


def test_acks_for_a_partition_dropped_from_the_ledger_count_if_the_queue_agrees() -> None:
    """A forged ledger, or a corrected one, does not undo work under this epoch."""
    held = Held()
    held.names_nothing()
    assert held.follow() == [held.holding]
    assert offsets(held.queue) == ["0"]
    assert (held.holding.phase, held.holding.in_hand) == (Phase.FENCED, 0)


@pytest.mark.parametrize("reader", [Taken, GoesAway])
def test_a_partition_dropped_from_the_ledger_is_dropped_whatever_the_queue_answers(reader: type[GoesAway]) -> None:
    held = Held(reader)
    held.reader.away = True
    held.names_nothing()
    assert held.follow() == [held.holding]
    assert held.queue.acked == []
    assert (held.holding.phase, held.holding.handled, held.holding.in_hand) == (Phase.FENCED, [], 0)


@pytest.mark.parametrize("kind", [GoesAway, Taken])
def test_the_end_of_an_outage_is_logged_once_with_its_length(kind: type[GoesAway], caplog: pytest.LogCaptureFixture) -> None:
    held = Held(kind)
    reader = held.reader
    reader.away = True
    held.work.verify(held.holding, reader)
    reader.away = False
    with caplog.at_level(logging.INFO):
        held.work.settle(held.holding, reader)
        held.work.verify(held.holding, reader)
    assert [line for line in caplog.messages if "answers again" in line] == ["queue orders answers again, after 0 s"]


@pytest.mark.parametrize("other_process", [True, False])
def test_a_second_process_of_the_pod_is_warned_of_without_entries_in_hand(
    other_process: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(GoesAway):
        def verify(self, partition: int, epoch: Epoch) -> None:
            raise StaleOwner(partition, "a", epoch, Ownership(Uid("a"), epoch), other_process=other_process)

    held = Held(Refusing)
    held.holding.handled.clear()
    held.holding.sequences.clear()
    with caplog.at_level(logging.WARNING):
        held.work.verify(held.holding, held.reader)
    assert ("newer process with the same POD_UID" in caplog.text) == other_process


class ReadByAnother(InMemoryReader):
    """A newer process of the pod has read the partition at epoch 1."""

    def read(self, partition: int, epoch: Epoch, *limits: Any, **how: Any) -> Sequence[Entry]:
        if epoch == 1:
            raise StaleOwner(partition, "a", epoch, Ownership(Uid("a"), epoch), other_process=True)
        return super().read(partition, epoch, *limits, **how)


def test_a_process_rejected_for_a_newer_one_fails_its_liveness_probe_until_granted_again() -> None:
    """The newer process may have been killed. The operator sees the right pod in the record, so only a restart helps."""
    queue, _ = queue_of(ReadByAnother)
    with queue:
        consumer = queue.consumer()
        queue.start(lambda entry: None, consumer=consumer)
        queue.send("k", "v")
        assert "newer process with the same POD_UID" in until(consumer._loop.unhealthy)
        queue._ledger.take(0)
        until(lambda: not consumer._loop.unhealthy())
        queue.grant(0)
        queue.settled()
        assert offsets(queue) == ["0"] and not consumer._loop.unhealthy()


def test_entries_from_an_old_answer_are_verified_before_they_start() -> None:
    """As if the process was stopped between receiving an answer of the queue and reading it."""

    class AskedLongAgo(Taken):
        def sure_at(self, partition: int) -> float:
            return super().sure_at(partition) - 2 * SURE_FOR

        def verify(self, partition: int, epoch: Epoch) -> None:
            self.ack(partition, epoch, ())

    held = Held(AskedLongAgo)
    (sequence,) = held.holding.sequences.values()
    assert not held.work.may_begin(sequence, held.partitions.reader(held.holding))
    assert held.holding.over
    assert not held.work.may_begin(sequence, held.partitions.reader(held.holding)), "asked in the same turn for another key"


# -- Trouble with one partition does not stop others, and a slow queue does not make the consumer hang.


class OneInTrouble(InMemoryReader):
    """All requests for partition 0 fail while it is `held`."""

    held = True
    tries = 0

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        if partition == 0 and self.held:
            self.tries += 1
            raise PartitionUnavailable("outputs cannot be sent to the topic bills: it is not there")
        super().ack(partition, epoch, offsets, soon=soon)


def test_other_partitions_are_read_while_one_cannot_acknowledge() -> None:
    queue, reader = queue_of(OneInTrouble, 2)
    with queue:
        consumer = queue.consumer()
        queue.start(lambda entry: None, consumer=consumer)
        first = queue.send("k", "v", partition=0)
        until(lambda: reader.tries > 1)
        for _ in range(10):
            until(partial(queue.acked.__contains__, queue.send("k", "v", partition=1)))
        assert not consumer._loop._turns.requests.away(ORDERS)
        reader.held = False
        queue.settled()
        assert queue.acked[-1] == first


def test_a_partition_in_trouble_is_retried_at_growing_intervals() -> None:
    (_, queue), requests = queue_of(OneInTrouble), QueueRequests()
    holding = held()
    holding.handled = ["0"]
    for tries in (1, 2, 3):
        assert not requests.settle(holding, queue)
        assert holding.outage is not None and holding.outage.tries == tries
        assert "bills" in holding.outage.why
    assert requests.not_before(holding) > time.monotonic()
    queue.held = False
    assert requests.settle(holding, queue) and requests.not_before(holding) == 0.0


class Asked(InMemoryReader):
    """Records requests, and rejects or fails them on demand."""

    asked: list[str]
    answer: Exception | None = None

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        self.asked.append(f"ack {offsets} soon={soon}")
        if self.answer is not None:
            raise self.answer

    def verify(self, partition: int, epoch: Epoch) -> None:
        self.asked.append("verify")


def test_finished_entries_are_acknowledged_before_a_long_handler_loses_its_partition() -> None:
    (_, queue), requests = queue_of(Asked), QueueRequests()
    queue.asked = []
    holding = held()
    requests.stay_sure(holding, queue)
    assert queue.asked == ["verify"]
    holding.begin_release()
    requests.stay_sure(holding, queue)
    assert queue.asked[1:] == ["ack [] soon=False", "verify"]
    for answer in (QueueUnreachable("it is away"), StaleOwner(0, Uid("a"), Epoch(1), Ownership(Uid("b"), Epoch(2)))):
        queue.answer, queue.asked = answer, []
        requests.stay_sure(holding, queue)
        assert queue.asked == ["ack [] soon=False"], "it is not asked once more"
    assert holding.over


class Slow(InMemoryReader):
    """Answers on demand."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked, self.answers = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.asked.set()
        assert self.answers.wait(PATIENCE)


class SlowToRead(Slow):
    def read(self, *asked: Any, **how: Any) -> Sequence[Entry]:
        self.wait()
        raise QueueUnreachable("it was too slow")


class SlowToRelease(Slow):
    def release(self, *asked: Any, **how: Any) -> Mapping[int, QueueUnreachable]:
        self.wait()
        return super().release(*asked, **how)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(SlowToRead, None), (SlowToRelease, InMemoryAssignments.call_back), (SlowToRelease, InMemoryAssignments.take)],
)
def test_a_consumer_that_waits_for_a_slow_queue_is_not_unhealthy(
    kind: type[Slow], change: Callable[[InMemoryAssignments, int], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, reader = queue_of(kind)
    queue.send("k", "v")
    with queue:
        consumer = queue.consumer()
        queue.start(lambda entry: None, consumer=consumer)
        if change is not None:
            queue.settled()
            change(queue._ledger, 0)
        try:
            assert reader.asked.wait(PATIENCE)
            monkeypatch.setattr(loop, "_LONGEST_SILENCE", 0.01)
            assert consumer._loop.unhealthy() == ""
            monkeypatch.setattr(loop, "_LONGEST_QUESTION", 0.0)
            assert "has not answered" in consumer._loop.unhealthy()
        finally:
            reader.answers.set()
            consumer._loop.leave()


def test_an_unread_partition_is_released_while_the_only_worker_is_busy() -> None:
    begun, ends = threading.Event(), threading.Event()

    def handle(entry: HeldEntry) -> None:
        begun.set()
        assert ends.wait(PATIENCE)

    with TestQueue(partitions=2) as queue:
        queue.lose(1)
        queue.start(handle)
        queue.send("k", "v", partition=0)
        assert begun.wait(PATIENCE)
        queue._ledger.give(1)
        queue.send("k", "v", partition=1)
        queue._ledger.call_back(1)
        until(lambda: (1, queue._queue.epochs[1]) in queue._queue.released)
        ends.set()


# -- A queue that rejects outcomes or messages of one partition.


class RefusingReader(GoesAway):
    """The topic for dead letters, or the permission to write to it, is missing."""

    refusing = True

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        self._refuse(partition, epoch)
        return super().retry(partition, epoch, offset, why)

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        self._refuse(partition, epoch)
        super().set_aside(partition, epoch, offset, why)

    def _refuse(self, partition: int, epoch: Epoch) -> None:
        self.verify(partition, epoch)
        if self.refusing:
            raise QueueUnreachable("it cannot be a dead letter")


def refusing() -> RefusingReader:
    """Return a partition with an entry."""
    queue, reader = queue_of(RefusingReader)
    queue.send("k", "v")
    return reader


def failed(queue: RefusingReader, requests: QueueRequests, outcome: DeadLetter | Nack) -> HeldPartition:
    """A partition whose outcomes the queue rejects."""
    holding = held(0)
    assert requests.read(holding, queue, 1)
    (sequence,) = holding.ready(0.0)
    (entry,) = sequence.hand_out(1)
    sequence.settle([entry], outcome, 0.0)
    if isinstance(outcome, Nack):
        assert not requests.may_begin(sequence, queue)
    else:
        assert not requests.settle(holding, queue)
    return holding


@pytest.mark.parametrize("outcome", [DeadLetter("no"), Nack("no", 0.0)])
def test_only_the_partition_with_rejected_outcomes_waits(outcome: DeadLetter | Nack, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, requests = refusing(), QueueRequests()
    begun = time.monotonic()
    holding, other = failed(queue, requests, outcome), held(1)
    assert (requests.away(ORDERS), requests.not_before(other)) == (False, 0.0)
    assert requests.not_before(holding) >= begun + 0.1
    assert not requests.trouble([holding, other]), "it may be over in a moment"
    monkeypatch.setattr("baton.consumer.queue_requests.TOLD_AFTER", -TOLD_AFTER)
    assert requests.trouble([holding, other]) == "it cannot be a dead letter"
    assert requests.trouble([other]) == ""


def test_a_partition_whose_outputs_are_rejected_waits_alone() -> None:
    queue, requests = refusing(), QueueRequests()

    def ack(*arguments: Any, **options: Any) -> None:
        raise QueueUnreachable("it takes no output")

    queue.ack = ack  # type: ignore[method-assign]
    sending, other = held(0), held(1)
    sending.handled, sending.together = ["0"], [FinishedTogether(["0"], [Output.of("elsewhere", b"v", None, None, None)])]
    assert not requests.settle(sending, queue)
    assert (requests.away(ORDERS), requests.not_before(other)) == (False, 0.0)
    assert requests.not_before(sending) > 0.0 and sending.together, "and it is told again"


def test_all_partitions_of_an_unreachable_queue_wait() -> None:
    queue, requests = refusing(), QueueRequests()
    read = queue.read

    def once(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        queue.away = True
        return found

    queue.read = once  # type: ignore[method-assign]
    begun = time.monotonic()
    holding, other = failed(queue, requests, DeadLetter("no")), held(1)
    assert requests.away(ORDERS) and requests.not_before(other) >= begun + 0.1
    assert holding.outage is None


def test_other_partitions_continue_until_a_rejected_dead_letter_is_written() -> None:
    def handle(entry: HeldEntry) -> None:
        if entry.partition == 0:
            raise Reject("no")

    queue, reader = queue_of(RefusingReader, 2)
    with queue:
        queue.start(handle)
        queue.send("k", "v", partition=0)
        others = [queue.send("k", "v", partition=1) for _ in range(2)]
        until(lambda: queue.acked == others)
        assert queue.dead_letters == []
        reader.refusing = False
        queue.settled()
        assert dead(queue) == {"0": "no"}


# -- A revoked partition is released when its queue has its acknowledgements.


SLOW = QueueUnreachable("it does not take that")


class TakesNotAll(GoesAway):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.untaken = {0}
        """Partitions whose release is rejected."""
        self.told: list[tuple[Mapping[int, Epoch], bool]] = []
        """Released partitions, and whether they were given up."""

    def release(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        self.told.append((dict(partitions), give_up))
        return dict.fromkeys(partitions.keys() & self.untaken, SLOW)


def test_partitions_dropped_from_the_ledger_are_given_up_in_one_request() -> None:
    queue, reader = queue_of(TakesNotAll, 5)
    partitions = HeldPartitions(lambda name: reader, queue._ledger, Mock(), lambda: None)
    partitions.follow_ledger(Mock())
    held = list(partitions)
    partitions.reader(held[0])
    queue._ledger.owned = frozenset({4})
    queue._ledger._say()
    dropped = partitions.follow_ledger(Mock())
    assert dropped == held[:-1] and {holding.phase for holding in dropped} == {Phase.FENCED}
    assert reader.told == [(dict.fromkeys(range(4), 1), True)]


class Served:
    """Partitions 0 and 1; the queue rejects the release of 0."""

    def __init__(self) -> None:
        self.lease = InMemoryLease()
        self.queue, self.reader = queue_of(TakesNotAll, 2)
        consumer = consumer_of(self.queue, session=Session(self.lease, holder="u", group="orders", every=HOUR))
        self.handled: list[int] = []
        self.queue.start(self.handle, consumer=consumer)
        self.queue.send("k", "v", partition=0)
        self.queue.settled()
        self.queue._ledger.call_back(0)
        until(lambda: len(self.reader.told) >= 3, "it is told again and again")

    def handle(self, entry: HeldEntry) -> None:
        self.handled.append(entry.partition)

    def released(self) -> bool:
        return self.lease.lease is not None and len(self.lease.releases()) == 1


def test_a_partition_is_released_only_after_its_queue_accepted_the_release() -> None:
    served = Served()
    with served.queue as queue:
        assert all(told == ({0: 1}, False) for told in served.reader.told)
        assert not served.released()
        queue.send("k", "v", partition=1)
        queue.settled()
        assert served.handled == [0, 1]
        served.reader.untaken = set()
        until(served.released)


def test_an_untaken_release_is_given_up_at_the_end() -> None:
    served = Served()
    assert served.queue._consumer is not None
    with served.queue:
        served.queue._consumer._loop.leave()
        until(lambda: {release.partition for release in served.lease.releases()} >= {0})
    assert served.reader.told[-1][0].keys() >= {0} and served.reader.told[-1][1]


def test_an_unreachable_queue_gets_one_release_request_for_all_partitions() -> None:
    (_, queue), requests, holdings = queue_of(GoesAway, 3), QueueRequests(), [held(number, 1.0) for number in range(3)]
    queue.away = True
    requests.release_again(dict.fromkeys(holdings, SLOW), lambda holding: queue)
    assert (queue.refused, requests.away(ORDERS)) == (1, True)
    queue.away = False
    before = time.monotonic()
    requests.release_again(dict.fromkeys(holdings[:2], SLOW), lambda holding: queue)
    assert not requests.away(ORDERS)
    assert [requests.not_before(holding) > before for holding in holdings] == [True, True, False]


def test_a_partition_granted_to_another_meanwhile_is_lost() -> None:
    class Taken(TakesNotAll):
        def verify(self, partition: int, epoch: Epoch) -> None:
            raise StaleOwner(partition, Uid("a"), epoch, Ownership(Uid("b"), Epoch(2)))

    (_, reader), requests, holding = queue_of(Taken), QueueRequests(), held(0, 1.0)
    requests.release_again({holding: SLOW}, lambda _: reader)
    assert (holding.phase, reader.told) == (Phase.FENCED, [({0: 1}, True)])


def test_a_partition_never_taken_up_is_not_verified_before_its_release() -> None:
    asked: list[int] = []

    class TakingUp(GoesAway):
        def verify(self, partition: int, epoch: Epoch) -> None:
            asked.append(partition)

    (_, reader), requests, holdings = queue_of(TakingUp), QueueRequests(), [held(0), held(1, 1.0)]
    requests.release_again(dict.fromkeys(holdings[:1], SLOW), lambda _: reader)
    assert asked == []
    requests.release_again(dict.fromkeys(holdings, SLOW), lambda _: reader)
    assert asked == [1]
    assert all(requests.not_before(holding) > time.monotonic() - PATIENCE for holding in holdings), "they get another answer"


# -- A queue can be waited for again however the last wait ended.


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
            raise ValueError("an unexpected reply")
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


def test_an_unexpected_failure_is_logged_once_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    queue, woken = EmptyQueue(failures=2), threading.Event()
    with closing(WaitingThread(queue.wait, queue.interrupt, woken.set)) as waiter:
        for _ in range(2):
            waiter.wait_for(frozenset({0}))
            assert woken.wait(PATIENCE)
            woken.clear()
        waiter.wait_for(frozenset({0}))
        until(lambda: queue.waits == 3)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_queue_without_partitions_is_closed_and_reopened_later(tmp_path: Path) -> None:
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
