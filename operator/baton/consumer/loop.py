"""The consumer's loop: it owns what the consumer holds, reads, acknowledges and lets go, on a thread of its own.

Whoever works on entries asks it for some and tells it what became of them; these words come to it one by one, so nothing here is
locked.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from baton.consumer import forks
from baton.consumer.acknowledgement import Acknowledgement
from baton.consumer.assignment_source import Assignments
from baton.consumer.callbacks import Call, Callbacks, Notices, Place
from baton.consumer.deadlines import Left
from baton.consumer.delivery import Delivery, Outcomes, Returned, Told, Want
from baton.consumer.dispatcher import Dispatcher
from baton.consumer.grace_period import GracePeriod
from baton.consumer.held_entry import HeldEntry
from baton.consumer.held_partition import HeldPartition
from baton.consumer.held_partitions import HeldPartitions
from baton.consumer.queue_requests import QueueRequests
from baton.consumer.session import Session
from baton.consumer.settlement import Settlement
from baton.consumer.wake_times import WakeTimes
from baton.model.ids import QueueName, Uid
from baton.queues.consumer_side import SURE_FOR, Reader
from baton.queues.output import Output

LOOK_EVERY = 1.0
"""Seconds after which those who wait for entries see whether time is up."""
_SHORT_WORK = 0.001
"""Seconds for which whoever has just got entries has the processor for himself: most handlers are done with them by then."""
_LONGEST_ANSWER = 3.0
"""Seconds for which a program waits to hear whether a partition still is its own."""
_LONGEST_SILENCE = 8.0
"""Seconds that a probe waits for the loop."""
_LONGEST_QUESTION = 120.0
"""Seconds after which a queue that has not answered never will: each kind's requests have limits of their own, below that."""


class ConsumerLoop:
    """One pod's holdings, and a thread that looks after them from `start` to its end."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        uid: Uid,
        session: Session | None,
        grace: float,
        callbacks: Callbacks,
        deadlines: Left,
    ) -> None:
        """`grace`: seconds from `stop` to the end of the process. `deadlines`: seconds until a partition that is called back is
        taken away, where that is known."""
        self._deadlines = deadlines
        self._source = source
        self._session = session
        self._grace = GracePeriod(grace)
        self._words: SimpleQueue[Want | Told | Returned | Callable[[], None]] = SimpleQueue()
        """From any thread, and from signal handlers: this queue is the one kind that these may use."""
        self._holdings = HeldPartitions(open_queue, source, self, self.wake)
        self._requests = QueueRequests()
        self._notices = Notices(callbacks, self.time_left)
        self._dispatcher = Dispatcher(self._holdings, self._requests)
        self._wake_times = WakeTimes(self._holdings, self._dispatcher, self._requests)
        self._settlement = Settlement(uid, self._holdings, self._dispatcher, self._requests, self._grace, self._notices, session)
        self._ended = threading.Event()
        self._shared: bool | None = None
        self.calling: Place | None = None
        """Where a callback is being called."""
        self.last_calls: Sequence[Call] = ()
        """After the end: callbacks that are still due."""
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="baton-consumer", daemon=True)

    # For any thread

    def start(self) -> None:
        """Raises RuntimeError the second time."""
        if self._thread.ident is not None:
            raise RuntimeError("a consumer runs once: make another with Consumer.from_environment()")
        forks.follow(self)
        self._thread.start()

    def left_behind(self) -> None:
        """In a process that was forked from the one in which it runs: nobody here would ever answer."""
        self._ended, self._session, self._failure = threading.Event(), None, forks.refusal("consumer")
        self._ended.set()

    def serve(self, workers: int, *, by_key: bool = False, shared: bool = False) -> None:
        """Who works on entries from now on: so many, on keys or partitions beside each other. `shared`: entries are handed out
        though earlier ones have not come back. Before the first `take`. Raises RuntimeError the second time, unless both are
        `shared`."""
        again = self._shared is not None and self._thread.ident is not None and not self._ended.is_set()
        if again and not (self._shared and shared):
            raise RuntimeError("one run, serve or batches per consumer, once: go on with that one, or make another consumer")
        self._shared = shared

        def begin() -> None:
            self._dispatcher.workers, self._dispatcher.shared = workers, shared
            self._holdings.divide(by_key=by_key)

        self._words.put(begin)

    def stop(self) -> None:
        """Go on until nothing is ours any more, or time is up."""
        self._grace.stop()
        self.interrupt()

    def leave(self, *, idle: bool = False) -> None:
        """Begin nothing more, let go of everything, and end. `idle`: nobody works on what was handed out any more."""
        self._grace.stop_now()
        if idle:
            self._words.put(self._settlement.keep_all)
        self.interrupt()

    def abort(self) -> None:
        """End at once: what was handled is acknowledged, and nothing else is done."""
        self._grace.abort()
        self.wake()

    def interrupt(self) -> None:
        """Look at the ledger, and have no other entry begun before."""
        self._words.put(self._dispatcher.recall)

    def wake(self) -> None:
        self._words.put(lambda: None)

    def hangs(self) -> str:
        """Says so if it does nothing any more; empty: it answers, or waits for its queue to answer."""
        heard = threading.Event()
        self._words.put(heard.set)
        if heard.wait(_LONGEST_SILENCE):
            return ""
        asking_since = self._requests.asking_since
        if asking_since is not None and time.monotonic() - asking_since < _LONGEST_QUESTION:
            return ""
        return f"the consumer's loop has not answered for {_LONGEST_SILENCE:.0f} s"

    def unheard(self) -> str:
        """Why the operator does not hear of this consumer; empty: it does."""
        if self._session is not None and self._session.lapsed():
            return "the session is not renewed: see the consumer's log"
        return ""

    @property
    def interrupted(self) -> bool:
        """The ledger or the end has called, and some worker is still at an entry that it had begun before."""
        return any(delivery.recalled for delivery in list(self._dispatcher.out))

    def want(self, want: Want) -> None:
        """Ask for entries; `want.answer` is what comes of it. Raises RuntimeError where nobody would ever answer."""
        if self._thread.ident is None:
            raise RuntimeError("the consumer does not run: use it in `with consumer:` or `async with consumer:`")
        if self.calling is not None:
            self.calling.see_elsewhere()
        if not self.ended:
            self._words.put(want)

    def take(self, want: Want) -> Delivery | Call | None:
        """Wait for entries, or a callback that is due. None: the consumer has ended. Raises what ended it, if no stop did."""
        self.want(want)
        while not self.ended:
            try:
                return want.answer.result(timeout=LOOK_EVERY)
            except TimeoutError:
                continue  # only to see whether a queue that hangs keeps the loop beyond its time
            except BaseException:  # a signal's handler has raised
                self.forget(want)
                raise
        return self.last_answer(want)

    @property
    def out_of_time(self) -> bool:
        """What is being worked on is not waited for any longer."""
        return time.monotonic() >= self._grace.over_at

    @property
    def ended(self) -> bool:
        """Nothing is answered any more."""
        return self._ended.is_set() or self.out_of_time

    def last_answer(self, want: Want) -> Delivery | Call | None:
        """After the end. Raises what ended it, if that was no stop."""
        if not want.answer.cancel() and want.answer.done():
            return want.answer.result()
        if self._failure is not None:
            raise self._failure
        return None

    def forget(self, want: Want) -> None:
        """Nobody waits for it any more; what it has got goes back."""
        if want.answer.cancel():
            self._words.put(lambda: self._dispatcher.forget(want))
        else:
            want.answer.add_done_callback(lambda answer: self._words.put(lambda: self._dispatcher.back(answer.result())))

    def called(self, call: Call, *, again: bool = False) -> None:
        """A callback has returned."""
        self._words.put((lambda: self._dispatcher.not_called(call)) if again else (lambda: self._called(call)))

    def tell(self, outcomes: Outcomes, receipt: Acknowledgement | None = None) -> None:
        self._words.put(Told(outcomes, receipt))
        if receipt is not None and self._ended.is_set():  # nobody may have heard it
            receipt.lost()
            receipt.expect(0)

    def finish_together(self, entries: Sequence[HeldEntry], outputs: Sequence[Output]) -> None:
        """Entries of one partition are finished with when the outputs are sent."""
        self._words.put(lambda: self._settlement.finish_together(entries, outputs))

    def give_back(self, delivery: Delivery, outcomes: Outcomes, seconds: float = 0.0, count: int = 0) -> None:
        self._words.put(Returned(delivery, outcomes, seconds, count))

    def still_mine(self, holding: HeldPartition) -> bool:
        if holding.over or self._ended.is_set():
            return False
        if time.monotonic() - holding.sure_at <= SURE_FOR:
            return True
        answer: Future[bool] = Future()
        self._words.put(lambda: answer.set_result(self._settlement.is_ours(holding)))
        try:
            return answer.result(_LONGEST_ANSWER)
        except TimeoutError:
            return False

    def time_left(self, holding: HeldPartition) -> float | None:
        """Seconds until its partition is taken away, or the process ends; None: neither is known."""
        if holding.over:
            return 0.0
        called_back = self._deadlines(holding.partition, holding.epoch) if holding.letting_go else None
        return min((left for left in (self._grace.for_handlers, called_back) if left is not None), default=None)

    def join(self) -> None:
        """Wait for the end; for a queue that hangs no longer than there is time. Then the last word to the operator."""
        self._thread.join(max(0.0, self._grace.over_at - time.monotonic()))
        if self._session is not None:
            self._session.close(within=self._grace.for_last_word)

    # The loop's own thread

    def _run(self) -> None:
        try:
            self._source.watch(self.interrupt)
            if self._session is not None:
                self._session.start()
            while not self._finished():
                self._turn()
            self._finish()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ended.set()
            self._settlement.forget()
            self._hear()
            for want in self._dispatcher.wants:
                if want.answer.set_running_or_notify_cancel():
                    want.answer.set_result(None)
            self._holdings.close()
            self._source.close()

    def _turn(self) -> None:
        begun = time.monotonic()
        self._hear()
        self._settlement.look_around()
        worked = self._dispatcher.serve(self._words.empty)
        self._settlement.report()
        if worked and not self._dispatcher.wants and self._heard_within(_SHORT_WORK):
            return
        if not worked and not self._finished():
            self._rest(begun)

    def _hear(self) -> None:
        while True:
            try:
                self._take_in(self._words.get_nowait())
            except Empty:
                return

    def _take_in(self, word: Want | Told | Returned | Callable[[], None]) -> None:
        match word:
            case Want():
                self._dispatcher.wants.append(word)
            case Told(outcomes, receipt):
                self._settlement.settle(outcomes, receipt)
            case Returned(delivery, outcomes, seconds, count):
                self._settlement.settle(outcomes)
                self._dispatcher.take_back(delivery)
                self._requests.took(seconds, count)
            case _:
                word()

    def _called(self, call: Call) -> None:
        self._dispatcher.calling = None
        self._notices.called(call)

    def _rest(self, begun: float) -> None:
        """Until somebody has a word for us, or something is to be done by the clock."""
        until = min(self._wake_times.next(begun), self._grace.next)
        self._heard_within(max(0.0, until - time.monotonic()))

    def _heard_within(self, seconds: float) -> bool:
        try:
            self._take_in(self._words.get(timeout=seconds))
        except Empty:
            return False
        return True

    def _finished(self) -> bool:
        """Asked to stop, and either nothing is ours any more or time is up."""
        if not self._grace.stopping:
            return False
        return time.monotonic() >= self._grace.due or all(holding.over for holding in self._holdings)

    def _finish(self) -> None:
        """Time is up: finish what is being worked on, acknowledge, and let go. A queue that is away is not asked again."""
        self._dispatcher.recall()
        if not self._grace.aborted:
            self._grace.leave(self._requests.per_entry)
            while not self._finished():
                self._turn()
        self._hear()
        self.last_calls = self._settlement.end()
