"""The consumer's loop: one thread that reads, acknowledges and releases everything that the consumer holds.

Workers send it requests for entries and outcomes. The loop runs them one by one, so nothing here needs a lock.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import groupby
from math import inf
from operator import attrgetter
from queue import Empty, SimpleQueue

from baton.consumer.assignments import Assignments
from baton.consumer.callbacks import Call, Callbacks, Notices
from baton.consumer.dispatcher import Delivery, Dispatcher, Outcomes
from baton.consumer.ending import GracePeriod
from baton.consumer.entry import Acknowledgement, HeldEntry, OutcomeListener, shown_key
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.outcome import ACK, Nack
from baton.consumer.partition import HeldPartition, HeldPartitions, Notice, Phase
from baton.consumer.queue_requests import QueueRequests
from baton.consumer.session import Session
from baton.model.ids import QueueName, Uid
from baton.model.session import Release
from baton.model.wording import counted
from baton.queues.consumer_side import SURE_FOR, Reader
from baton.queues.output import FinishedTogether, Output

log = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
"""Seconds."""
_FULL_FOR = 5.0
"""Seconds at the limit before it is logged. A program that acknowledges reaches the limit for moments only."""


class SlowProgram:
    """Logs handlers that do not return, and queues that hand out no more entries because the program has maxDeliveredUnacked
    entries and acknowledges none. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, out: Collection[Delivery]) -> None:
        """`out`: the deliveries that workers have."""
        self.options = CheckedOptions()
        self._holdings = holdings
        self._out = out
        self._looked_at = -inf
        self._full_since: dict[QueueName, float] = {}

    @property
    def next(self) -> float:
        """When to look again, while workers have deliveries (monotonic)."""
        return self._looked_at + _LOOK_EVERY if self._out else inf

    def look(self) -> None:
        """Log a handler whenever its time has doubled, and each queue once that is at its limit for a while."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_EVERY:
            return
        self._looked_at = now
        for delivery in self._out:
            since, current = delivery.current_since, delivery.current
            if current and now - since >= self.options.handler_warn_seconds * 2**delivery.warnings:
                log.warning("the handler has not returned from %s", _described(current, now - since))
                delivery.warnings += 1
            if current and now - since >= (self.options.handler_timeout or inf) and delivery.exceed():
                if self.options.measures is not None:
                    self.options.measures.overdue(current[0].sequence.holding.partition.queue)
                log.error("the handler has exceeded its handler_timeout and continues with %s", _described(current, now - since))
        for queue, is_full in self._holdings.having("is_full").items():
            if not is_full():
                self._full_since.pop(queue, None)
            elif now - self._full_since.setdefault(queue, now) >= _FULL_FOR:
                self._full_since[queue] = inf  # once
                self._log_full(queue, now)

    def log_unfinished(self) -> None:
        """Log the entries whose handlers have not returned when time is up."""
        now = time.monotonic()
        for delivery in self._out:
            since, current = delivery.current_since, delivery.current
            if current:
                left = _described(current, now - since)
                log.error("time is up, and a handler has not returned: the partition's next owner gets %s", left)

    def _log_full(self, queue: QueueName, now: float) -> None:
        held = [one for holding in self._holdings if holding.partition.queue == queue for one in holding.with_program]
        if oldest := min(held, key=lambda entry: entry.since, default=None):
            log.warning(
                "queue %s hands out no more to this pod (maxDeliveredUnacked): %s not acknowledged, the oldest %s/%d entry %s, "
                "which its program has had for %.0f s",
                *(queue, counted(len(held), "entry is", "entries are")),
                *(*oldest.sequence.holding.partition, oldest.offset, now - oldest.since),
            )


def _described(current: Sequence[HeldEntry], seconds: float) -> str:
    first, others = current[0], f" and {len(current) - 1} more" if len(current) > 1 else ""
    queue, number = first.sequence.holding.partition
    key = shown_key(first)
    return f"{queue}/{number} entry {first.offset}{others} (key {key}, attempt {first.attempt + 1}) after {seconds:.0f} s"


_IDLE = 5.0
"""Seconds after which an idle consumer checks everything although no request has come."""
_WATCH_EVERY = 0.05
"""Interval, in seconds, at which a busy consumer tells the queues which partitions are at rest."""


_SHORT_WORK = 0.001
"""Seconds for which the loop leaves the processor to a worker that has just got entries: most handlers finish within them."""
_NOT_FIRST = "another outcome of this entry, or of one in the same transaction, came before the end of the transaction"


class Turns:
    """The state of one consumer's loop. Other threads may use `inbox`, `wake` and `ended` only."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        uid: Uid,
        session: Session | None,
        grace: GracePeriod,
        callbacks: Callbacks,
        listener: OutcomeListener,
    ) -> None:
        """`listener`: takes the outcomes that programs set on entries."""
        self.inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        """Requests to run, from any thread and from signal handlers: SimpleQueue is the only queue that these may use."""
        self.ended = threading.Event()
        """Set when no request is run any more."""
        self.failure: BaseException | None = None
        """The error that ended the loop; None after a stop."""
        self.last_calls: Sequence[Call] = ()
        """Callbacks that are still due after the end."""
        self.holdings = HeldPartitions(open_queue, source, listener, self.wake)
        self.requests = QueueRequests()
        self.dispatcher = Dispatcher(self.holdings, self.requests)
        self.slow = SlowProgram(self.holdings, self.dispatcher.out)
        self._uid = uid
        self._source = source
        self._session = session
        self._grace = grace
        self._notices = Notices(callbacks, listener.time_left)
        self._watched_at = 0.0
        self._came_meanwhile = False
        """Whether entries came since their partition had its turn: the queue does not report those."""
        self._reported: set[HeldPartition] = set()

    def wake(self) -> None:
        """Start a turn. Any thread may call this."""
        self.inbox.put(lambda: None)

    def run(self, interrupt: Callable[[], None]) -> None:
        """Run the loop until its end. `interrupt`: called when the ledger has changed."""
        try:
            self._source.watch(interrupt)
            if self._session is not None:
                self._session.start()
            while not self._finished():
                self._turn()
            self._finish()
        except BaseException as failure:
            self.failure = failure
        finally:
            self.ended.set()
            for holding in self.holdings:  # complete all receipts, also after a failure
                holding.forget()
            self._run_requests()
            for want in self.dispatcher.wants:
                if want.answer.set_running_or_notify_cancel():
                    want.answer.set_result(None)
            self.holdings.close()
            self._source.close()

    def called(self, call: Call) -> None:
        """Record that a callback has returned."""
        self.dispatcher.calling = None
        self._notices.called(call)

    def settle(self, outcomes: Outcomes, receipt: Acknowledgement | None = None) -> None:
        """Record outcomes of entries. `receipt`: completed when the queues have them."""
        now = time.monotonic()
        concerned: set[HeldPartition] = set()
        for entries, outcome in outcomes:
            for sequence, those in groupby(entries, key=attrgetter("sequence")):
                run = list(those)
                if isinstance(outcome, Nack):
                    self._tell_survived(sequence.holding, [entry for entry in run if sequence.has(entry)])
                if sequence.acknowledge(run) if outcome is ACK else sequence.settle(run, outcome, now):
                    concerned.add(sequence.holding)
                elif receipt is not None and sequence.holding.over:
                    receipt.lost()
        if receipt is not None:
            if not concerned and any(entry.sequence.comes_again(entry) for entries, _ in outcomes for entry in entries):
                receipt.lost()
            receipt.expect(len(concerned))
            for holding in concerned:
                holding.receipts.append(receipt)

    def _tell_survived(self, holding: HeldPartition, entries: Sequence[HeldEntry]) -> None:
        """Tell the queue that this process survived failed attempts, if it counts processes that ended on an entry."""
        if not entries:
            return  # the partition may be over, and its queue closed
        survived = getattr(self.holdings.reader(holding), "survived", None)
        if survived is not None:
            for entry in entries:
                survived(holding.partition.number, holding.epoch, entry.offset)

    def take_back(self, delivery: Delivery, outcomes: Outcomes, seconds: float, count: int) -> None:
        """Take a delivery back from a worker. `seconds`, `count`: how long handlers worked on how many entries."""
        self.settle(outcomes)
        self.dispatcher.take_back(delivery)
        self.requests.record_duration(seconds, count)

    def finish_together(self, entries: Sequence[HeldEntry], outputs: Sequence[Output]) -> None:
        """Finish entries of one partition together with the outputs. If one of them has an outcome already, retry all the others
        and send nothing."""
        now, holding = time.monotonic(), entries[0].sequence.holding
        known = all(entry.sequence.has(entry) for entry in entries)
        if not known and not holding.over:
            log.error("%s/%d entry %s: its messages are not sent: %s", *holding.partition, entries[0].offset, _NOT_FIRST)
        for entry in entries:
            entry.sequence.settle([entry], ACK if known else Nack(_NOT_FIRST), now)
        if known and outputs:
            holding.together.append(FinishedTogether([entry.offset for entry in entries], outputs))

    def keep_all(self) -> None:
        """Record that no worker is working on entries that were handed out."""
        for holding in self.holdings:
            for sequence in holding.sequences.values():
                sequence.keep_all()

    def is_ours(self, holding: HeldPartition) -> bool:
        """Ask the queue whether the partition is still owned."""
        if not holding.over:
            self.requests.verify(holding, self.holdings.reader(holding))
        return holding.is_sure

    def _turn(self) -> None:
        begun = time.monotonic()
        self._run_requests()
        self._look_around()
        self.slow.look()
        worked = self.dispatcher.serve(self.inbox.empty)
        self._report()
        if worked and not self.dispatcher.wants and self._run_one_request(within=_SHORT_WORK):
            return
        if not worked and not self._finished():
            until = min(self._wake_at(begun), self._grace.next)
            self._run_one_request(within=max(0.0, until - time.monotonic()))

    def _run_requests(self) -> None:
        with suppress(Empty):
            while True:
                self.inbox.get_nowait()()

    def _wake_at(self, begun: float) -> float:
        """Return when something is due (monotonic), including what fell due since the current turn has `begun`. Also tell the
        queues which partitions are at rest, so that they report new entries of these."""
        now = time.monotonic()
        until = min(now + _IDLE, self.dispatcher.due, self.slow.next)
        if self.dispatcher.out and now - self._watched_at < _WATCH_EVERY:
            until = min(until, self._watched_at + _WATCH_EVERY)
        else:
            self._watched_at, self._came_meanwhile = now, False
            self.holdings.wait_for_entries(lambda holding, reader: self._at_rest(holding, reader, now))
            if self._came_meanwhile:
                return now
        until = min(until, self.requests.retry_at(begun))
        for holding in self.holdings:
            if not holding.over and (holding.outage is not None or not holding.at_rest):
                until = min(until, self._due(holding, begun))
        return until

    def _at_rest(self, holding: HeldPartition, reader: Reader, now: float) -> bool:
        """Return whether the partition has nothing to read until its queue reports new entries."""
        if holding.phase is not Phase.SERVING or self.requests.not_before(holding) > now:
            return False
        ready = reader.ready(holding.partition.number, holding.epoch)
        self._came_meanwhile |= ready and holding.has_turns and self.dispatcher.has_room(holding, now)
        return not ready

    def _due(self, holding: HeldPartition, begun: float) -> float:
        """Return when the partition has something due that was not due when the turn has `begun` (monotonic)."""
        away = self.requests.not_before(holding)
        times = [away, *(max(away, sequence.due) for sequence in holding.sequences.values())]
        if holding.watched(shared=self.dispatcher.shared):
            times.append(holding.sure_at + SURE_FOR)
        return min((time for time in times if time > begun), default=inf)

    def _run_one_request(self, *, within: float) -> bool:
        """Wait for a request for at most `within` seconds, and run it. Returns False if none came."""
        try:
            request = self.inbox.get(timeout=within)
        except Empty:
            return False
        request()
        return True

    def _finished(self) -> bool:
        """Return whether the consumer is stopping and either holds no partition or is out of time."""
        if not self._grace.stopping:
            return False
        self._grace.stop_if_cut_off(self._cut_off)
        return time.monotonic() >= self._grace.due or all(holding.over for holding in self.holdings)

    def _cut_off(self) -> bool:
        """Return whether neither the API server nor any queue of a held partition answers."""
        queues = {holding.partition.queue for holding in self.holdings if not holding.over}
        return (self._session is None or self._session.failing) and all(map(self.requests.away, queues))

    def _finish(self) -> None:
        """Finish running handlers when time is up, acknowledge, and release all partitions. Queues that are unreachable are not
        asked again."""
        self.dispatcher.recall()
        if not self._grace.aborted:
            self._grace.leave(self.requests.per_entry)
            while not self._finished():
                self._turn()
            self.slow.log_unfinished()
        self._run_requests()
        self.last_calls = self._release_all()

    def _look_around(self) -> None:
        """Follow the ledger, and look after partitions that are not at rest."""
        with self.requests.asked():
            dropped = self.holdings.follow_ledger(self._settle_last)
        leaving = self._grace.leaving
        done = [one for one in self.holdings if (leaving or not one.at_rest) and self._look_after(one)]
        with self.requests.asked():
            untaken = self.holdings.release(done, self._grace.for_answers)
        self.requests.release_again(untaken, self.holdings.reader)
        self._notify(dropped)

    def _report(self) -> None:
        """Report in the session which partitions are released although the ledger still names them, and which queues fail."""
        if self._session is None:
            return
        released = {holding: holding.partition for holding in self.holdings if holding.phase is Phase.RELEASED}
        if released.keys() != self._reported:
            at_once = not released.keys() <= self._reported
            self._reported = set(released)
            self._session.release(
                (Release(self._uid, queue, number, holding.epoch) for holding, (queue, number) in released.items()), at_once
            )
        self._session.trouble(self.requests.trouble(self.holdings))

    def _release_all(self) -> Sequence[Call]:
        """Acknowledge finished entries and release all partitions. Returns callbacks that are still due. Queues that are
        unreachable are not asked again."""
        at_work = [holding for holding in self.holdings if not holding.over and (holding.out or holding.earlier_at_work)]
        left = [holding for holding in self.holdings if not holding.over]
        for holding in left:
            if not self.requests.away(holding.partition.queue):
                self.requests.settle(holding, self.holdings.reader(holding))
        self.holdings.release((holding for holding in left if not holding.over), self._grace.for_answers, give_up=True)
        if self._grace.aborted:
            for holding in left:
                holding.phase = Phase.FENCED
            return ()
        last_calls = self._notices.last(self.dispatcher.calls, list(self.holdings), at_work)
        self._report()
        return last_calls

    def _look_after(self, holding: HeldPartition) -> bool:
        """Pass on the outcomes of the partition's entries. Returns True if it is revoked and nothing of it is in hand."""
        if self._grace.leaving:
            (holding.leave if self._grace.begins_nothing else holding.finish)()
        now = time.monotonic()
        if holding.over or now < self.requests.not_before(holding):
            return False
        reader = self.holdings.reader(holding)
        if not self.requests.settle(holding, reader):
            return False
        if holding.releasing and not (holding.read_before or holding.in_hand):
            self.requests.read(holding, reader, self.requests.slice())  # does not wait for an idle worker
        holding.tidy()
        if holding.watched(shared=self.dispatcher.shared) and now - holding.sure_at > SURE_FOR:
            self.requests.stay_sure(holding, reader)  # a long handler should not work on entries that another pod owns
        busy = holding.waiting or (holding.out and not self.dispatcher.shared) or holding.earlier_at_work
        done = holding.releasing and holding.read_before and not busy
        return done and self._notices.may_go(holding) and not holding.out and not holding.over

    def _settle_last(self, holding: HeldPartition, reader: Reader) -> None:
        """Acknowledge finished entries of a partition that the ledger no longer names: the queue accepts them if it is still
        ours."""
        if self.requests.not_before(holding) <= time.monotonic():
            self.requests.settle(holding, reader)

    def _notify(self, dropped: Sequence[HeldPartition]) -> None:
        holdings = list(self.holdings)
        new = [one for one in holdings if one.notice is Notice.NONE and not one.over]
        if self._notices.revokes:
            new = [one for one in new if self.requests.keep(one, self.holdings.reader(one))]
        for call in (self._notices.lost([*dropped, *holdings]), self._notices.revoked(), self._notices.assigned(new)):
            if call is not None:
                self.dispatcher.calls.append(call)
