"""The turns of a consumer's loop: it owns what the consumer holds, reads, acknowledges and lets go, on a thread of its own.

Whoever works on entries asks it for some and tells it what became of them; these words come to it one by one, so nothing here is
locked.
"""

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from baton.consumer.assignment_source import Assignments
from baton.consumer.callbacks import Call, Callbacks, Notices
from baton.consumer.delivery import Returned, Told, Want
from baton.consumer.dispatcher import Dispatcher
from baton.consumer.full_queues import FullQueues
from baton.consumer.grace_period import GracePeriod
from baton.consumer.held_entry import OutcomeListener
from baton.consumer.held_partitions import HeldPartitions
from baton.consumer.queue_requests import QueueRequests
from baton.consumer.session import Session
from baton.consumer.settlement import Settlement
from baton.consumer.slow_handlers import SlowHandlers
from baton.consumer.wake_times import WakeTimes
from baton.model.ids import QueueName, Uid
from baton.queues.consumer_side import Reader

Word = Want | Told | Returned | Callable[[], None]

_SHORT_WORK = 0.001
"""Seconds for which whoever has just got entries has the processor for himself: most handlers are done with them by then."""


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
        self.words: SimpleQueue[Word] = SimpleQueue()
        """From any thread, and from signal handlers: this queue is the one kind that these may use."""
        self.ended = threading.Event()
        """Nothing is heard any more."""
        self.failure: BaseException | None = None
        """What ended it, if no stop did."""
        self.last_calls: Sequence[Call] = ()
        """After the end: callbacks that are still due."""
        self.holdings = HeldPartitions(open_queue, source, hearing, self.wake)
        self.requests = QueueRequests()
        self.dispatcher = Dispatcher(self.holdings, self.requests)
        self._source = source
        self._session = session
        self._grace = grace
        self._notices = Notices(callbacks, hearing.time_left)
        self.slow_handlers = SlowHandlers(self.dispatcher.out)
        self._full_queues = FullQueues(self.holdings)
        self._wake_times = WakeTimes(self.holdings, self.dispatcher, self.requests, self.slow_handlers)
        self.settlement = Settlement(uid, self.holdings, self.dispatcher, self.requests, grace, self._notices, session)

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
            self.settlement.forget()
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

    def _turn(self) -> None:
        begun = time.monotonic()
        self._hear()
        self.settlement.look_around()
        self.slow_handlers.look()
        self._full_queues.look()
        worked = self.dispatcher.serve(self.words.empty)
        self.settlement.report()
        if worked and not self.dispatcher.wants and self._heard_within(_SHORT_WORK):
            return
        if not worked and not self._finished():
            self._rest(begun)

    def _hear(self) -> None:
        while True:
            try:
                self._take_in(self.words.get_nowait())
            except Empty:
                return

    def _take_in(self, word: Word) -> None:
        match word:
            case Want():
                self.dispatcher.wants.append(word)
            case Told(outcomes, receipt):
                self.settlement.settle(outcomes, receipt)
            case Returned(delivery, outcomes, seconds, count):
                self.settlement.settle(outcomes)
                self.dispatcher.take_back(delivery)
                self.requests.took(seconds, count)
            case _:
                word()

    def _rest(self, begun: float) -> None:
        """Until somebody has a word for us, or something is to be done by the clock."""
        until = min(self._wake_times.next(begun), self._grace.next)
        self._heard_within(max(0.0, until - time.monotonic()))

    def _heard_within(self, seconds: float) -> bool:
        try:
            self._take_in(self.words.get(timeout=seconds))
        except Empty:
            return False
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
            self.slow_handlers.tell_end()
        self._hear()
        self.last_calls = self.settlement.end()
