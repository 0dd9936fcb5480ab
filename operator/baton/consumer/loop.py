"""The consumer's loop: it owns what the consumer holds, reads, acknowledges and hands over, on a thread of its own.

Whoever works on entries asks it for some and tells it what became of them; these words come to it one by one, so nothing here is
locked.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from queue import Empty, SimpleQueue

from baton.consumer.delivery import Delivery, Returned, Told, Want
from baton.consumer.held import HeldEntry
from baton.consumer.holding import Holding, Phase
from baton.consumer.holdings import Holdings
from baton.consumer.lane import Lane
from baton.consumer.outcome import Outcome
from baton.consumer.reader import Reader
from baton.consumer.session import Session
from baton.consumer.source import Assignments
from baton.consumer.work import SURE_FOR, Work
from baton.model.ids import QueueName, Uid
from baton.model.session import Release

_IDLE = 5.0
"""Seconds after which an idle consumer looks around even if nobody has called it."""
_WATCH_EVERY = 0.05
"""Seconds after which a busy consumer sees to it that the partitions at rest are waited for."""
_LAST_ENTRIES = 3.0
"""Seconds that handlers have for the entries in their hands when time is up;"""
_LAST_ANSWERS = 0.7
"""that queues have, after that, to hear what was handled;"""
_LAST_WORD = 1.0
"""and that the operator has to hear of it"""
_LONGEST_WORD = 3.0
"""(or this, where there is time)."""
LAST_SECONDS = 5.0
"""Of the grace period, kept for these."""


class ConsumerLoop:
    """One pod's holdings, and a thread that looks after them from `start` to its end."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        uid: Uid,
        session: Session | None,
        grace: float,
    ) -> None:
        """`grace`: seconds from `stop` to the end of the process."""
        self._source = source
        self._uid = uid
        self._session = session
        self._serve_for = max(0.0, grace - LAST_SECONDS)
        self._words: SimpleQueue[Want | Told | Returned | Callable[[], None]] = SimpleQueue()
        """From any thread, and from signal handlers: this queue is the one kind that these may use."""
        self._holdings = Holdings(open_queue, source, self.wake)
        self._work = Work()
        self._wants: deque[Want] = deque()
        self._out: list[Delivery] = []
        self._stop_at: float | None = None
        self._aborted = False
        self._watched_at = 0.0
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="baton-consumer", daemon=True)

    # For any thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Go on until nothing is ours any more, or time is up."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self._serve_for
        self.interrupt()

    def abort(self) -> None:
        """End at once: what was handled is acknowledged, and nothing else is done."""
        self._stop_at = time.monotonic()
        self._aborted = True
        self.wake()

    def interrupt(self) -> None:
        """Look at the ledger, and have no other entry begun before."""
        self._words.put(self._recall)

    def wake(self) -> None:
        self._words.put(_nothing)

    @property
    def interrupted(self) -> bool:
        """The ledger or the end has called, and some worker is still at an entry that it had begun before."""
        return any(delivery.recalled for delivery in list(self._out))

    def take(self, want: Want) -> Delivery | None:
        """Wait for what is wanted. None: the consumer has ended. Raises what ended it, if that was no stop."""
        if not self._ended.is_set():
            self._words.put(want)
        while not self._ended.is_set() and time.monotonic() < self._over_at():
            try:
                return want.answer.result(timeout=1.0)
            except TimeoutError:
                continue  # only to see whether a queue that hangs keeps the loop beyond its time
        if want.answer.done() and not want.answer.cancelled():
            return want.answer.result()
        want.answer.cancel()
        if self._failure is not None:
            raise self._failure
        return None

    def tell(self, outcomes: Sequence[tuple[HeldEntry, Outcome]]) -> None:
        self._words.put(Told(outcomes))

    def give_back(
        self, delivery: Delivery, outcomes: Sequence[tuple[HeldEntry, Outcome]], seconds: float = 0.0, count: int = 0
    ) -> None:
        self._words.put(Returned(delivery, outcomes, seconds, count))

    def join(self) -> None:
        """Wait for the end; for a queue that hangs no longer than there is time. Then the last word to the operator."""
        self._thread.join(max(0.0, self._over_at() - time.monotonic()))
        if self._session is not None:
            left = self._over_at() + _LAST_WORD - time.monotonic()
            self._session.close(within=max(0.0, min(_LONGEST_WORD, left)))

    def _over_at(self) -> float:
        """When nobody waits for this thread any more."""
        return inf if self._stop_at is None else self._stop_at + _LAST_ENTRIES + _LAST_ANSWERS

    # The loop's own thread

    def _run(self) -> None:
        self._source.watch(self.interrupt)
        if self._session is not None:
            self._session.start()
        try:
            while not self._finished():
                self._turn()
            self._finish()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ended.set()
            self._hear()
            for want in self._wants:
                if want.answer.set_running_or_notify_cancel():
                    want.answer.set_result(None)
            self._holdings.close()
            self._source.close()

    def _turn(self) -> None:
        self._hear()
        self._holdings.follow_ledger()
        for holding in self._holdings:
            self._look_after(holding)
        worked = self._supply()
        self._report()
        if not worked:
            self._rest()

    def _hear(self) -> None:
        while True:
            try:
                self._take_in(self._words.get_nowait())
            except Empty:
                return

    def _take_in(self, word: Want | Told | Returned | Callable[[], None]) -> None:
        match word:
            case Want():
                self._wants.append(word)
            case Told(outcomes):
                self._settle(outcomes)
            case Returned(delivery, outcomes, seconds, count):
                self._settle(outcomes)
                self._out.remove(delivery)
                for entry in reversed(delivery.entries):
                    entry.lane.give_back([entry])
                self._work.took(seconds, count)
            case _:
                word()

    def _settle(self, outcomes: Sequence[tuple[HeldEntry, Outcome]]) -> None:
        now = time.monotonic()
        for entry, outcome in outcomes:
            entry.lane.settle(entry, outcome, now)

    def _recall(self) -> None:
        for delivery in self._out:
            delivery.recalled = True

    def _look_after(self, holding: Holding) -> None:
        """Pass on what became of its entries, and see to it that a long handler does not work on what is somebody else's."""
        now = time.monotonic()
        if holding.over or now < self._work.not_before(holding):
            return
        reader = self._holdings.reader(holding)
        self._work.settle(holding, reader)
        if holding.lane.out and now - holding.sure_at > SURE_FOR:
            self._work.verify(holding, reader)

    def _supply(self) -> bool:
        """A turn for each partition that has something, while somebody wants it and until somebody calls: those to be let go of
        first, then the latest grants (they have just been paused), then whichever has waited longest. False: nothing to do."""
        worked = False
        having = [
            (holding, reader)
            for holding in self._holdings
            if not holding.over and self._work.has_work(holding, reader := self._holdings.reader(holding))
        ]
        having.sort(key=lambda one: (one[0].phase is not Phase.LETTING_GO, one[0].served_at, -one[0].since))
        for holding, reader in having:
            if not self._wants:
                break
            worked |= self._serve(holding, reader)
            if not self._words.empty():
                return True
        return worked

    def _serve(self, holding: Holding, reader: Reader) -> bool:
        now = time.monotonic()
        lane = holding.lane
        if now < self._work.not_before(holding):
            return False
        if lane.empty:
            holding.served_at = now
            if not self._work.read(holding, reader):
                return False
        elif not lane.ready(now):
            return False
        holding.served_at = now
        if lane.ready(now) and self._work.may_begin(lane, reader):
            self._deliver(lane)
        return True

    def _deliver(self, lane: Lane) -> None:
        while self._wants:
            want = self._wants.popleft()
            if want.answer.set_running_or_notify_cancel():
                delivery = Delivery(lane.hand_out(len(lane.waiting)))
                self._out.append(delivery)
                want.answer.set_result(delivery)
                return

    def _report(self) -> None:
        """Exactly what the ledger still counts as ours and we have let go of."""
        if self._session is not None:
            self._session.release(
                Release(self._uid, holding.partition.queue, holding.partition.number, holding.epoch)
                for holding in self._holdings
                if holding.phase is Phase.RELEASED
            )

    def _rest(self) -> None:
        """Until somebody has a word for us, or something is to be done by the clock."""
        now = time.monotonic()
        until = now + _IDLE if self._stop_at is None else min(now + _IDLE, self._stop_at)
        if self._out and now - self._watched_at < _WATCH_EVERY:
            until = min(until, self._watched_at + _WATCH_EVERY)
        else:
            self._watched_at = now
            self._holdings.watch(lambda holding, reader: self._at_rest(holding, reader, now))
        for holding in self._holdings:
            if not holding.over:
                until = min(until, self._due(holding, now))
        try:
            self._take_in(self._words.get(timeout=max(0.0, until - now)))
        except Empty:
            return

    def _at_rest(self, holding: Holding, reader: Reader, now: float) -> bool:
        """There is nothing to read of it until its queue says so."""
        number, epoch = holding.partition.number, holding.epoch
        return holding.phase is Phase.SERVING and self._work.not_before(holding) <= now and not reader.ready(number, epoch)

    def _due(self, holding: Holding, now: float) -> float:
        """When something is to be done for it by the clock."""
        lane = holding.lane
        again = max(self._work.not_before(holding), lane.not_before if lane.waiting else 0.0)
        verify = holding.sure_at + SURE_FOR if lane.out else inf
        return min(again if again > now else inf, verify)

    def _finished(self) -> bool:
        """Asked to stop, and either nothing is ours any more or time is up."""
        if self._stop_at is None:
            return False
        return time.monotonic() >= self._stop_at or all(holding.over for holding in self._holdings)

    def _finish(self) -> None:
        """Time is up: acknowledge what is done, and let go. A queue that is away is not asked again."""
        until = time.monotonic() + (0.0 if self._aborted else _LAST_ENTRIES)
        self._recall()
        while self._out and (left := until - time.monotonic()) > 0:
            try:
                self._take_in(self._words.get(timeout=left))
            except Empty:
                break
        self._hear()
        for holding in self._holdings:
            if not holding.over:
                reader = self._holdings.reader(holding)
                if not self._work.away(holding.partition.queue):
                    self._work.acknowledge(holding, reader)
                if not self._aborted:
                    holding.end(Phase.RELEASED, reader)
        if not self._aborted:
            self._report()


def _nothing() -> None:
    """A word that only wakes."""
