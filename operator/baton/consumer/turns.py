"""The turns of a consumer's loop: it owns what the consumer holds, reads, acknowledges and lets go, on a thread of its own.

Workers ask it for entries and report their outcomes; these requests come to it one by one, so nothing here is
locked.
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
"""Seconds at the limit after which the log says it: a program that acknowledges may be there for moments."""


class SlowProgram:
    """Warns of handlers that do not return, and of queues that hand out no more to this pod: its program has maxDeliveredUnacked
    entries and acknowledges none. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, out: Collection[Delivery]) -> None:
        """`out`: what workers have in their hands."""
        self.warn_after = 60.0
        """Seconds after which a handler is warned of;"""
        self.timeout = inf
        """that it may take (`handler_timeout`),"""
        self.overdue: Callable[[QueueName], object] | None = None
        """and who hears of the queue of one that takes longer."""
        self._holdings = holdings
        self._out = out
        self._looked_at = -inf
        self._full_since: dict[QueueName, float] = {}

    @property
    def next(self) -> float:
        """When to look again, while workers have something (monotonic)."""
        return self._looked_at + _LOOK_EVERY if self._out else inf

    def look(self) -> None:
        """Warn of a handler whenever its time has doubled, and once of each queue that is at its limit for a while."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_EVERY:
            return
        self._looked_at = now
        for delivery in self._out:
            since, at = delivery.at_since, delivery.at
            if at and now - since >= self.warn_after * 2**delivery.warnings:
                log.warning("the handler has not returned from %s", _told(at, now - since))
                delivery.warnings += 1
            if at and now - since >= self.timeout and delivery.exceed():
                if self.overdue is not None:
                    self.overdue(at[0].sequence.holding.partition.queue)
                log.error("the handler is over its handler_timeout and goes on with %s", _told(at, now - since))
        for queue, is_full in self._holdings.limits():
            if not is_full():
                self._full_since.pop(queue, None)
            elif now - self._full_since.setdefault(queue, now) >= _FULL_FOR:
                self._full_since[queue] = inf  # once
                self._tell_full(queue, now)

    def tell_end(self) -> None:
        """Time is up: name what handlers have not returned from."""
        now = time.monotonic()
        for delivery in self._out:
            since, at = delivery.at_since, delivery.at
            if at:
                log.error("time is up, and a handler has not returned: its next owner gets %s", _told(at, now - since))

    def _tell_full(self, queue: QueueName, now: float) -> None:
        held = [one for holding in self._holdings if holding.partition.queue == queue for one in holding.with_program]
        if oldest := min(held, key=lambda entry: entry.since, default=None):
            log.warning(
                "queue %s hands out no more to this pod (maxDeliveredUnacked): %s not acknowledged, the oldest %s/%d entry %s, "
                "which its program has had for %.0f s",
                *(queue, counted(len(held), "entry is", "entries are")),
                *(*oldest.sequence.holding.partition, oldest.offset, now - oldest.since),
            )


def _told(at: Sequence[HeldEntry], seconds: float) -> str:
    """What a handler works on."""
    first, others = at[0], f" and {len(at) - 1} more" if len(at) > 1 else ""
    queue, number = first.sequence.holding.partition
    key = shown_key(first)
    return f"{queue}/{number} entry {first.offset}{others} (key {key}, attempt {first.attempt + 1}) after {seconds:.0f} s"


_IDLE = 5.0
"""Seconds after which an idle consumer looks around even if it was not called."""
_WATCH_EVERY = 0.05
"""Seconds after which a busy consumer sees to it that the partitions at rest are waited for."""


_SHORT_WORK = 0.001
"""Seconds for which a worker that has just got entries has the processor to itself: most handlers are done with them by then."""
_NOT_FIRST = "another word on it, or on one that is finished with it, came before the end of its transaction"


class Turns:
    """Of one consumer, used by the loop's thread only; but for `words`, and what does not change."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        uid: Uid,
        session: Session | None,
        grace: GracePeriod,
        callbacks: Callbacks,
        hearing: OutcomeListener,
    ) -> None:
        """`hearing`: hears what programs say of entries, and passes it on."""
        self.words: SimpleQueue[Callable[[], object]] = SimpleQueue()
        """What to do next. From any thread, and from signal handlers: this queue is the one kind that these may use."""
        self.ended = threading.Event()
        """Nothing is heard any more."""
        self.failure: BaseException | None = None
        """What ended it, if no stop did."""
        self.last_calls: Sequence[Call] = ()
        """After the end: callbacks that are still due."""
        self.holdings = HeldPartitions(open_queue, source, hearing, self.wake)
        self.requests = QueueRequests()
        self.dispatcher = Dispatcher(self.holdings, self.requests)
        self.slow = SlowProgram(self.holdings, self.dispatcher.out)
        self._uid = uid
        self._source = source
        self._session = session
        self._grace = grace
        self._notices = Notices(callbacks, hearing.time_left)
        self._watched_at = 0.0
        self._came_meanwhile = False
        """There is something to read that was not there when its partition had its turn: no wait at its queue covers that."""
        self._reported: set[HeldPartition] = set()

    def wake(self) -> None:
        """From any thread."""
        self.words.put(lambda: None)

    def run(self, interrupt: Callable[[], None]) -> None:
        """Until the end. `interrupt` is called where the ledger has changed."""
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
            for holding in self.holdings:  # nothing is left to be heard of, also where the loop has failed on its way
                holding.forget()
            self._hear()
            for want in self.dispatcher.wants:
                if want.answer.set_running_or_notify_cancel():
                    want.answer.set_result(None)
            self.holdings.close()
            self._source.close()

    def called(self, call: Call) -> None:
        """A callback has returned."""
        self.dispatcher.calling = None
        self._notices.called(call)

    def settle(self, outcomes: Outcomes, receipt: Acknowledgement | None = None) -> None:
        """Take in what became of entries."""
        now = time.monotonic()
        concerned: set[HeldPartition] = set()
        for entries, outcome in outcomes:
            for sequence, those in groupby(entries, key=attrgetter("sequence")):
                run = list(those)
                if isinstance(outcome, Nack):
                    self._tell_survived(sequence.holding, run)
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
        """Tell a queue that counts processes which ended on an entry that this one did not."""
        survived = getattr(self.holdings.reader(holding), "survived", None)
        if survived is not None:
            for entry in entries:
                survived(holding.partition.number, holding.epoch, entry.offset)

    def take_back(self, delivery: Delivery, outcomes: Outcomes, seconds: float, count: int) -> None:
        """It comes from a worker, whose handlers were at so many entries for so many seconds."""
        self.settle(outcomes)
        self.dispatcher.take_back(delivery)
        self.requests.took(seconds, count)

    def finish_together(self, entries: Sequence[HeldEntry], outputs: Sequence[Output]) -> None:
        """Entries of one partition are finished with when the outputs are sent; where that is too late for one of them, all come
        again, and nothing is sent."""
        now, holding = time.monotonic(), entries[0].sequence.holding
        known = all(entry.sequence.has(entry) for entry in entries)
        if not known and not holding.over:
            log.error("%s/%d entry %s: nothing is sent: %s", *holding.partition, entries[0].offset, _NOT_FIRST)
        for entry in entries:
            entry.sequence.settle([entry], ACK if known else Nack(_NOT_FIRST), now)
        if known and outputs:
            holding.together.append(FinishedTogether([entry.offset for entry in entries], outputs))

    def keep_all(self) -> None:
        """No worker is at what was handed out."""
        for holding in self.holdings:
            for sequence in holding.sequences.values():
                sequence.keep_all()

    def is_ours(self, holding: HeldPartition) -> bool:
        """By the queue's word of now."""
        if not holding.over:
            self.requests.verify(holding, self.holdings.reader(holding))
        return holding.is_sure

    def _turn(self) -> None:
        begun = time.monotonic()
        self._hear()
        self._look_around()
        self.slow.look()
        worked = self.dispatcher.serve(self.words.empty)
        self._report()
        if worked and not self.dispatcher.wants and self._heard_within(_SHORT_WORK):
            return
        if not worked and not self._finished():
            self._rest(begun)

    def _hear(self) -> None:
        with suppress(Empty):
            while True:
                self.words.get_nowait()()

    def _rest(self, begun: float) -> None:
        """Until a request comes, or something is to be done by the clock."""
        until = min(self._wake_at(begun), self._grace.next)
        self._heard_within(max(0.0, until - time.monotonic()))

    def _wake_at(self, begun: float) -> float:
        """When there is something to do (monotonic); what fell due since the present turn has `begun` may have been passed over.

        Queues are told which partitions are at rest: an entry of one of these is worth a word.
        """
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
            if not (holding.at_rest or holding.over):
                until = min(until, self._due(holding, begun))
        return until

    def _at_rest(self, holding: HeldPartition, reader: Reader, now: float) -> bool:
        """There is nothing to read of it until its queue says so."""
        if holding.phase is not Phase.SERVING or self.requests.not_before(holding) > now:
            return False
        ready = reader.ready(holding.partition.number, holding.epoch)
        self._came_meanwhile |= ready and holding.notice is Notice.ASSIGNED and self.dispatcher.has_room(holding, now)
        return not ready

    def _due(self, holding: HeldPartition, begun: float) -> float:
        """What was not due when this turn has `begun`."""
        away = self.requests.not_before(holding)
        times = [away, *(max(away, sequence.due) for sequence in holding.sequences.values())]
        if holding.watched(shared=self.dispatcher.shared):
            times.append(holding.sure_at + SURE_FOR)
        return min((time for time in times if time > begun), default=inf)

    def _heard_within(self, seconds: float) -> bool:
        try:
            word = self.words.get(timeout=seconds)
        except Empty:
            return False
        word()
        return True

    def _finished(self) -> bool:
        """Asked to stop, and either nothing is ours any more or time is up."""
        if not self._grace.stopping:
            return False
        self._grace.stop_unheard(self._unheard)
        return time.monotonic() >= self._grace.due or all(holding.over for holding in self.holdings)

    def _unheard(self) -> bool:
        """Neither a queue of what is held nor the API server answers."""
        queues = {holding.partition.queue for holding in self.holdings if not holding.over}
        return (self._session is None or self._session.unheard) and all(map(self.requests.away, queues))

    def _finish(self) -> None:
        """Time is up: finish what is being worked on, acknowledge, and let go. A queue that is away is not asked again."""
        self.dispatcher.recall()
        if not self._grace.aborted:
            self._grace.leave(self.requests.per_entry)
            while not self._finished():
                self._turn()
            self.slow.tell_end()
        self._hear()
        self.last_calls = self._let_go_of_all()

    def _look_around(self) -> None:
        """Follow the ledger, and look after what is not at rest."""
        with self.requests.asked():
            dropped = self.holdings.follow_ledger(self._last_word)
        leaving = self._grace.leaving
        done = [one for one in self.holdings if (leaving or not one.at_rest) and self._look_after(one)]
        with self.requests.asked():
            untaken = self.holdings.let_go(done, self._grace.for_answers)
        self.requests.untaken(untaken, self.holdings.reader)
        self._notify(dropped)

    def _report(self) -> None:
        """Exactly what the ledger still counts as ours and we have let go of; and what keeps us from the queues."""
        if self._session is None:
            return
        released = {holding: holding.partition for holding in self.holdings if holding.phase is Phase.RELEASED}
        if released.keys() != self._reported:
            news = not released.keys() <= self._reported
            self._reported = set(released)
            self._session.release(
                (Release(self._uid, queue, number, holding.epoch) for holding, (queue, number) in released.items()), news
            )
        self._session.trouble(self.requests.trouble(self.holdings))

    def _let_go_of_all(self) -> Sequence[Call]:
        """Time is up: the queues hear what was handled, and all is let go of. The answer: callbacks that are still due. A queue
        that is away is not asked again."""
        at_work = [holding for holding in self.holdings if not holding.over and holding.out]
        left = [holding for holding in self.holdings if not holding.over]
        for holding in left:
            if not self.requests.away(holding.partition.queue):
                self.requests.settle(holding, self.holdings.reader(holding))
        self.holdings.let_go((holding for holding in left if not holding.over), self._grace.for_answers, give_up=True)
        if self._grace.aborted:
            for holding in left:
                holding.phase = Phase.FENCED
            return ()
        last_calls = self._notices.last(self.dispatcher.calls, list(self.holdings), at_work)
        self._report()
        return last_calls

    def _look_after(self, holding: HeldPartition) -> bool:
        """Pass on what became of its entries. True: it is to be let go of, for it is called back and nothing of it is in hand."""
        if self._grace.leaving:
            (holding.leave if self._grace.begins_nothing else holding.finish)()
        now = time.monotonic()
        if holding.over or now < self.requests.not_before(holding):
            return False
        reader = self.holdings.reader(holding)
        if not self.requests.settle(holding, reader):
            return False
        if holding.letting_go and not (holding.read_before or holding.in_hand):
            self.requests.read(holding, reader, self.requests.slice())  # else it would wait for an idle worker
        holding.tidy()
        if holding.watched(shared=self.dispatcher.shared) and now - holding.sure_at > SURE_FOR:
            self.requests.stay_sure(holding, reader)  # a long handler should not work on what another pod owns
        busy = holding.waiting or (holding.out and not self.dispatcher.shared)
        done = holding.letting_go and holding.read_before and not busy
        return done and self._notices.may_go(holding) and not holding.out and not holding.over

    def _last_word(self, holding: HeldPartition, reader: Reader) -> None:
        """The ledger does not name it any more. The queue knows whose it is: if it still is ours, what was handled counts."""
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
