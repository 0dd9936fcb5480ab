"""The thread-safe side of the consumer's loop: workers take entries and report outcomes."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar
from weakref import WeakSet

from baton.consumer.assignments import Assignments
from baton.consumer.callbacks import Call, Callbacks, Place
from baton.consumer.dispatcher import Delivery, Outcomes, Want
from baton.consumer.ending import GracePeriod, Left
from baton.consumer.entry import Acknowledgement, HeldEntry
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.outcome import Policies
from baton.consumer.partition import HeldPartition, HeldPartitions
from baton.consumer.session import Session
from baton.consumer.turns import Turns
from baton.model.ids import QueueName, Uid
from baton.queues.consumer_side import Reader
from baton.queues.output import Output

Answer = TypeVar("Answer")

LOOK_EVERY = 1.0
"""Seconds after which a wait for entries checks whether the grace period is over."""
_LONGEST_ANSWER = 3.0
"""Seconds that `still_mine` waits for the queue's answer."""
_LONGEST_SILENCE = 8.0
"""Seconds that the liveness probe waits for the loop."""
_LONGEST_QUESTION = 120.0
"""Seconds after which a request to a queue hangs: each kind of queue has shorter timeouts."""


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
        """`grace`: seconds from `stop` to the end of the process. `deadlines`: returns the seconds until a revoked partition is
        taken away, or None if unknown."""
        self._deadlines = deadlines
        self._session = session
        self._grace = GracePeriod(grace)
        self._turns = Turns(open_queue, source, uid, session, self._grace, callbacks, self)
        self._inbox = self._turns.inbox
        self._ended = self._turns.ended
        self._shared: bool | None = None
        self.retry: Policies = {}
        self.calling: Place | None = None
        """Where a callback is running."""
        self._refusal: BaseException | None = None
        """The error of every call in a forked process, which has no thread of the loop."""
        self._thread = threading.Thread(target=self._turns.run, args=(self.interrupt,), name="baton-consumer", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError the second time."""
        if self._thread.ident is not None:
            raise RuntimeError("a consumer runs once: make another with Consumer.from_environment()")
        _running.add(self)
        self._thread.start()

    def left_behind(self) -> None:
        """Fail all calls from now on: this process was forked, and the loop's thread runs in the parent process only."""
        self._ended, self._session = threading.Event(), None
        self._ended.set()
        self._refusal = RuntimeError(
            "this consumer runs in the parent process, from which this one was forked: read and acknowledge there"
        )

    def serve(self, options: CheckedOptions, *, shared: bool = False) -> None:
        """Set how entries are worked on; call it before the first `take`. `shared`: hand out entries although earlier ones of
        their partition have not come back. Raises RuntimeError the second time, unless both calls are `shared`."""
        again = self._shared is not None and self._thread.ident is not None and not self._ended.is_set()
        if again and not (self._shared and shared):
            raise RuntimeError("run(), serve() or batches() may be called only once: use that one, or make another consumer")
        self._shared, self.retry = shared, options.policies

        def begin() -> None:
            self._turns.dispatcher.workers, self._turns.dispatcher.shared = options.concurrency, shared
            self._turns.holdings.divide(by_key=options.order == "key")
            self._turns.slow.options = options

        self._inbox.put(begin)

    def stop(self) -> None:
        """Start the grace period: keep working until all partitions are handed off or time is up."""
        self._grace.stop()
        self.interrupt()

    def leave(self, *, idle: bool = False) -> None:
        """Begin no other entry, release all partitions, and end. `idle`: no worker is working on entries that were handed out."""
        self._grace.stop_now()
        if idle:
            self._inbox.put(self._turns.keep_all)
        self.interrupt()

    def abort(self) -> None:
        """End at once: pass on the acknowledgements made so far, and do nothing else."""
        self._grace.abort()
        self._turns.wake()

    def interrupt(self) -> None:
        """Check the ledger before any other entry begins."""
        self._inbox.put(self._turns.dispatcher.recall)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def holdings(self) -> HeldPartitions:
        return self._turns.holdings

    def ask(self, question: Callable[[Turns], Answer], otherwise: Answer) -> Answer:
        """Have the loop's thread answer, and wait for that. Return `otherwise` if the thread is not running."""
        answer: Future[Answer] = Future()
        self._inbox.put(lambda: answer.set_result(question(self._turns)))
        while self.running:
            with suppress(TimeoutError):
                return answer.result(LOOK_EVERY)
        return otherwise

    def unhealthy(self) -> str:
        """Return why a restart would help: a newer process of the pod, perhaps one that has ended, has read its partitions, or
        the loop hangs. Empty if the loop answers, or waits for a queue's answer."""
        for holding in self.holdings:
            if holding.superseded:
                return holding.superseded
        answered = threading.Event()
        self._inbox.put(answered.set)
        if answered.wait(_LONGEST_SILENCE):
            return ""
        asking_since = self._turns.requests.asking_since
        if asking_since is not None and time.monotonic() - asking_since < _LONGEST_QUESTION:
            return ""
        return f"the consumer's loop has not answered for {_LONGEST_SILENCE:.0f} s"

    def unheard(self) -> str:
        """Return why the operator gets no renewals from this consumer; empty if it does."""
        if self._session is not None and self._session.lapsed():
            return "the session is not renewed: see the consumer's log"
        return ""

    @property
    def last_calls(self) -> Sequence[Call]:
        """Callbacks that are still due after the end."""
        return self._turns.last_calls

    @property
    def interrupted(self) -> bool:
        """Whether a change of the ledger or a shutdown is pending while a handler runs."""
        return any(delivery.recalled for delivery in list(self._turns.dispatcher.out))

    def want(self, want: Want) -> None:
        """Ask for entries, to be delivered through `want.answer`. Raises RuntimeError if no answer would ever come."""
        if self._thread.ident is None:
            raise RuntimeError("the consumer does not run: use it in `with consumer:` or `async with consumer:`")
        if self.calling is not None:
            self.calling.check_elsewhere()
        if not self.ended:
            self._inbox.put(partial(self._turns.dispatcher.wants.append, want))

    def take(self, want: Want) -> Delivery | Call | None:
        """Wait for entries or a callback. Returns None when the consumer has ended, or raises the error that ended it."""
        self.want(want)
        while not self.ended:
            try:
                return want.answer.result(timeout=LOOK_EVERY)
            except TimeoutError:
                continue  # check whether a hanging queue has kept the loop beyond the grace period
            except BaseException:  # raised by a signal handler
                self.forget(want)
                raise
        return self.last_answer(want)

    @property
    def out_of_time(self) -> bool:
        """Whether waiting for running handlers is over."""
        return time.monotonic() >= self._grace.over_at

    @property
    def ended(self) -> bool:
        """Whether the loop no longer answers."""
        return self._ended.is_set() or self.out_of_time

    def last_answer(self, want: Want) -> Delivery | Call | None:
        """Return the answer, if any, after the end. Raises the error that ended the consumer, if one did."""
        if not want.answer.cancel() and want.answer.done():
            return want.answer.result()
        if (failure := self._refusal or self._turns.failure) is not None:
            raise failure
        return None

    def forget(self, want: Want) -> None:
        """Withdraw a request. If it was answered already, the answer goes back to the loop."""
        if want.answer.cancel():
            self._inbox.put(partial(self._turns.dispatcher.forget, want))
        else:
            want.answer.add_done_callback(
                lambda answer: self._inbox.put(lambda: self._turns.dispatcher.take_back_answer(answer.result()))
            )

    def called(self, call: Call, *, again: bool = False) -> None:
        """Report that a callback has returned. `again`: it did not return, and must be called again."""
        self._inbox.put(partial(self._turns.dispatcher.put_back if again else self._turns.called, call))

    def tell(self, outcomes: Outcomes, receipt: Acknowledgement | None = None) -> None:
        self._inbox.put(partial(self._turns.settle, outcomes, receipt))
        if receipt is not None and self._ended.is_set():  # the loop may have ended before it read this
            receipt.lost()
            receipt.expect(0)

    def finish_together(self, entries: Sequence[HeldEntry], outputs: Sequence[Output]) -> None:
        """Finish entries of one partition in a transaction that sends the outputs."""
        self._inbox.put(partial(self._turns.finish_together, entries, outputs))

    def give_back(self, delivery: Delivery, outcomes: Outcomes, seconds: float = 0.0, count: int = 0) -> None:
        """Return a delivery with the outcomes since the last report; other entries of it were not begun. `seconds`, `count`: how
        long handlers worked on how many of them."""
        self._inbox.put(partial(self._turns.take_back, delivery, outcomes, seconds, count))

    def still_mine(self, holding: HeldPartition) -> bool:
        if holding.over or self._ended.is_set():
            return False
        if holding.is_sure:
            return True
        answer: Future[bool] = Future()
        self._inbox.put(lambda: answer.set_result(self._turns.is_ours(holding)))
        try:
            return answer.result(_LONGEST_ANSWER)
        except TimeoutError:
            return False

    def time_left(self, holding: HeldPartition) -> float | None:
        """Return the seconds until the partition is taken away, or the process ends; None if neither is known."""
        if holding.over:
            return 0.0
        revoked = self._deadlines(holding.partition, holding.epoch) if holding.releasing else None
        return min((left for left in (self._grace.for_handlers, revoked) if left is not None), default=None)

    def join(self) -> None:
        """Wait for the end, within the grace period if a queue hangs. Then report the last releases to the operator."""
        self._thread.join(max(0.0, self._grace.over_at - time.monotonic()))
        if self._session is not None:
            self._session.close(within=self._grace.for_last_report)


_running: WeakSet[ConsumerLoop] = WeakSet()
"""Loops of this process. A forked process does not have their threads."""


def _forked() -> None:
    for loop in list(_running):
        loop.left_behind()


os.register_at_fork(after_in_child=_forked)
