"""The consumer's loop, as any thread may use it: workers ask for entries and report their outcomes."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from typing import TypeVar
from weakref import WeakSet

from baton.consumer.assignments import Assignments
from baton.consumer.callbacks import Call, Callbacks, Place
from baton.consumer.dispatcher import Delivery, Outcomes, Want
from baton.consumer.ending import GracePeriod, Left
from baton.consumer.entry import Acknowledgement, HeldEntry
from baton.consumer.outcome import Policies
from baton.consumer.partition import HeldPartition
from baton.consumer.session import Session
from baton.consumer.turns import Turns
from baton.model.ids import QueueName, Uid
from baton.queues.consumer_side import Reader
from baton.queues.output import Output

Answer = TypeVar("Answer")

LOOK_EVERY = 1.0
"""Seconds after which those who wait for entries see whether time is up."""
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
        self._session = session
        self._grace = GracePeriod(grace)
        self._turns = Turns(open_queue, source, uid, session, self._grace, callbacks, self)
        self._words = self._turns.words
        self._ended = self._turns.ended
        self._shared: bool | None = None
        self.retry: Policies = {}
        self.calling: Place | None = None
        """Where a callback is being called."""
        self._refusal: BaseException | None = None
        """The error for a process that was forked from that of the loop, where no answer would come."""
        self._thread = threading.Thread(target=self._turns.run, args=(self.interrupt,), name="baton-consumer", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError the second time."""
        if self._thread.ident is not None:
            raise RuntimeError("a consumer runs once: make another with Consumer.from_environment()")
        _running.add(self)
        self._thread.start()

    def left_behind(self) -> None:
        """In a process that was forked from the one in which it runs: no answer would ever come."""
        self._ended, self._session = threading.Event(), None
        self._ended.set()
        self._refusal = RuntimeError(
            "this consumer runs in the process that this one was forked from: read and acknowledge there"
        )

    def serve(
        self,
        workers: int,
        *,
        by_key: bool = False,
        shared: bool = False,
        warn_after: float = inf,
        timeout: float | None = None,
        overdue: Callable[[QueueName], object] | None = None,
        retry: Policies | None = None,
    ) -> None:
        """Who works on entries from now on: so many, on keys or partitions beside each other. `shared`: entries are handed out
        though earlier ones have not come back. `warn_after`: seconds after which a handler is warned of; `timeout`: that it may
        take, and `overdue` is called with the queue of one that takes longer. Before the first `take`. Raises RuntimeError the
        second time, unless both are `shared`."""
        again = self._shared is not None and self._thread.ident is not None and not self._ended.is_set()
        if again and not (self._shared and shared):
            raise RuntimeError("run(), serve() or batches() may be called only once: use that one, or make another consumer")
        self._shared, self.retry = shared, retry or {}

        def begin() -> None:
            self._turns.dispatcher.workers, self._turns.dispatcher.shared = workers, shared
            self._turns.holdings.divide(by_key=by_key)
            slow = self._turns.slow
            slow.warn_after, slow.timeout, slow.overdue = warn_after, timeout or inf, overdue

        self._words.put(begin)

    def stop(self) -> None:
        """Go on until nothing is ours any more, or time is up."""
        self._grace.stop()
        self.interrupt()

    def leave(self, *, idle: bool = False) -> None:
        """Begin nothing more, let go of everything, and end. `idle`: no worker is at what was handed out."""
        self._grace.stop_now()
        if idle:
            self._words.put(self._turns.keep_all)
        self.interrupt()

    def abort(self) -> None:
        """End at once: what was handled is acknowledged, and nothing else is done."""
        self._grace.abort()
        self._turns.wake()

    def interrupt(self) -> None:
        """Look at the ledger, and have no other entry begun before."""
        self._words.put(self._turns.dispatcher.recall)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def ask(self, question: Callable[[Turns], Answer], otherwise: Answer) -> Answer:
        """Have the loop's thread answer, and wait for it; `otherwise` where it does not run."""
        answer: Future[Answer] = Future()
        self._words.put(lambda: answer.set_result(question(self._turns)))
        while self.running:
            with suppress(TimeoutError):
                return answer.result(LOOK_EVERY)
        return otherwise

    def hangs(self) -> str:
        """Says so if it does nothing any more; empty: it answers, or waits for its queue to answer."""
        heard = threading.Event()
        self._words.put(heard.set)
        if heard.wait(_LONGEST_SILENCE):
            return ""
        asking_since = self._turns.requests.asking_since
        if asking_since is not None and time.monotonic() - asking_since < _LONGEST_QUESTION:
            return ""
        return f"the consumer's loop has not answered for {_LONGEST_SILENCE:.0f} s"

    def oldest(self) -> Mapping[QueueName, float]:
        """By queue, for how many seconds the program has had the oldest entry that is not finished, from its first attempt on; 0:
        it has none."""
        now, found = time.monotonic(), dict[QueueName, float]()
        for holding in self._turns.holdings:
            age = max(0.0, now - holding.unfinished_since)
            found[holding.partition.queue] = max(age, found.get(holding.partition.queue, 0.0))
        return found

    def unheard(self) -> str:
        """Why the operator does not hear of this consumer; empty: it does."""
        if self._session is not None and self._session.lapsed():
            return "the session is not renewed: see the consumer's log"
        return ""

    @property
    def last_calls(self) -> Sequence[Call]:
        """After the end: callbacks that are still due."""
        return self._turns.last_calls

    @property
    def interrupted(self) -> bool:
        """The ledger or the end has called, and some worker is still at an entry that it had begun before."""
        return any(delivery.recalled for delivery in list(self._turns.dispatcher.out))

    def want(self, want: Want) -> None:
        """Ask for entries; `want.answer` is what comes of it. Raises RuntimeError where no answer would ever come."""
        if self._thread.ident is None:
            raise RuntimeError("the consumer does not run: use it in `with consumer:` or `async with consumer:`")
        if self.calling is not None:
            self.calling.see_elsewhere()
        if not self.ended:
            self._words.put(partial(self._turns.dispatcher.wants.append, want))

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
        if (failure := self._refusal or self._turns.failure) is not None:
            raise failure
        return None

    def forget(self, want: Want) -> None:
        """Its caller no longer waits; what it has got goes back."""
        if want.answer.cancel():
            self._words.put(partial(self._turns.dispatcher.forget, want))
        else:
            want.answer.add_done_callback(lambda answer: self._words.put(lambda: self._turns.dispatcher.back(answer.result())))

    def called(self, call: Call, *, again: bool = False) -> None:
        """A callback has returned; or has not, and is to be called `again`."""
        self._words.put(partial(self._turns.dispatcher.not_called if again else self._turns.called, call))

    def tell(self, outcomes: Outcomes, receipt: Acknowledgement | None = None) -> None:
        self._words.put(partial(self._turns.settle, outcomes, receipt))
        if receipt is not None and self._ended.is_set():  # the answer may have reached no caller
            receipt.lost()
            receipt.expect(0)

    def finish_together(self, entries: Sequence[HeldEntry], outputs: Sequence[Output]) -> None:
        """Entries of one partition are finished with when the outputs are sent."""
        self._words.put(partial(self._turns.finish_together, entries, outputs))

    def give_back(self, delivery: Delivery, outcomes: Outcomes, seconds: float = 0.0, count: int = 0) -> None:
        """A delivery comes back: what became of its entries since the last word (the others were not begun), and for how many
        seconds handlers were at so many of them."""
        self._words.put(partial(self._turns.take_back, delivery, outcomes, seconds, count))

    def still_mine(self, holding: HeldPartition) -> bool:
        if holding.over or self._ended.is_set():
            return False
        if holding.is_sure:
            return True
        answer: Future[bool] = Future()
        self._words.put(lambda: answer.set_result(self._turns.is_ours(holding)))
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


_running: WeakSet[ConsumerLoop] = WeakSet()
"""Threads stay behind where a process is forked."""


def _forked() -> None:
    for loop in list(_running):
        loop.left_behind()


os.register_at_fork(after_in_child=_forked)
