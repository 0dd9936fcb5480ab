"""What is owed to each holding: its queue hears what became of entries, and the program and the operator of its end."""

import logging
import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from baton.consumer.acknowledgement import Acknowledgement
from baton.consumer.callbacks import Call, Notices
from baton.consumer.delivery import Outcomes
from baton.consumer.dispatcher import Dispatcher
from baton.consumer.grace_period import GracePeriod
from baton.consumer.held_entry import HeldEntry
from baton.consumer.held_partition import HeldPartition, Notice, Phase
from baton.consumer.held_partitions import HeldPartitions
from baton.consumer.outcome import ACK, Nack
from baton.consumer.queue_requests import QueueRequests
from baton.consumer.session import Session
from baton.model.ids import Uid
from baton.model.session import Release
from baton.queues.consumer_side import SURE_FOR, Reader
from baton.queues.output import FinishedTogether, Output

log = logging.getLogger(__name__)

_NOT_FIRST = "another word on it, or on one that is finished with it, came before the end of its transaction"


class Settlement:
    """Of the consumer's loop, and used by its thread only."""

    def __init__(
        self,
        uid: Uid,
        holdings: HeldPartitions,
        dispatcher: Dispatcher,
        requests: QueueRequests,
        grace: GracePeriod,
        notices: Notices,
        session: Session | None,
    ) -> None:
        self._uid = uid
        self._holdings = holdings
        self._dispatcher = dispatcher
        self._requests = requests
        self._grace = grace
        self._notices = notices
        self._session = session
        self._reported: set[HeldPartition] = set()

    def look_around(self) -> None:
        """Follow the ledger, and look after what is not at rest."""
        with self._requests.asked():
            dropped = self._holdings.follow_ledger(self._last_word)
        leaving = self._grace.leaving
        done = [one for one in self._holdings if (leaving or not one.at_rest) and self._look_after(one)]
        with self._requests.asked():
            untaken = self._holdings.let_go(done, self._grace.for_answers)
        self._requests.untaken(untaken, self._holdings.reader)
        self._notify(dropped)

    def settle(self, outcomes: Outcomes, receipt: Acknowledgement | None = None) -> None:
        """Take in what became of entries."""
        now = time.monotonic()
        concerned: set[HeldPartition] = set()
        for entries, outcome in outcomes:
            for sequence, those in groupby(entries, key=attrgetter("sequence")):
                run = list(those)
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
        """Nobody works on what was handed out any more."""
        for holding in self._holdings:
            for sequence in holding.sequences.values():
                sequence.keep_all()

    def is_ours(self, holding: HeldPartition) -> bool:
        """By the queue's word of now."""
        if not holding.over:
            self._requests.verify(holding, self._holdings.reader(holding))
        return not holding.over and time.monotonic() - holding.sure_at <= SURE_FOR

    def report(self) -> None:
        """Exactly what the ledger still counts as ours and we have let go of; and what keeps us from the queues."""
        if self._session is None:
            return
        released = {holding: holding.partition for holding in self._holdings if holding.phase is Phase.RELEASED}
        if released.keys() != self._reported:
            news = not released.keys() <= self._reported
            self._reported = set(released)
            self._session.release(
                (Release(self._uid, queue, number, holding.epoch) for holding, (queue, number) in released.items()), news
            )
        self._session.trouble(self._requests.trouble(self._holdings))

    def end(self) -> Sequence[Call]:
        """Time is up: the queues hear what was handled, and all is let go of. The answer: callbacks that are still due. A queue
        that is away is not asked again."""
        at_work = [holding for holding in self._holdings if not holding.over and holding.out]
        left = [holding for holding in self._holdings if not holding.over]
        for holding in left:
            if not self._requests.away(holding.partition.queue):
                self._requests.settle(holding, self._holdings.reader(holding))
        self._holdings.let_go((holding for holding in left if not holding.over), self._grace.for_answers, give_up=True)
        if self._grace.aborted:
            for holding in left:
                holding.phase = Phase.FENCED
            return ()
        last_calls = self._notices.last(self._dispatcher.calls, list(self._holdings), at_work)
        self.report()
        return last_calls

    def forget(self) -> None:
        """Nothing is left to be heard of, also where the loop has failed on its way."""
        for holding in self._holdings:
            holding.forget()

    def _look_after(self, holding: HeldPartition) -> bool:
        """Pass on what became of its entries. True: it is to be let go of, for it is called back and nothing of it is in hand."""
        if self._grace.leaving:
            (holding.leave if self._grace.begins_nothing else holding.finish)()
        now = time.monotonic()
        if holding.over or now < self._requests.not_before(holding):
            return False
        reader = self._holdings.reader(holding)
        if not self._requests.settle(holding, reader):
            return False
        if holding.letting_go and not (holding.read_before or holding.in_hand):
            self._requests.read(holding, reader, self._requests.slice())  # else it would wait for somebody who has time for it
        holding.tidy()
        if holding.watched(shared=self._dispatcher.shared) and now - holding.sure_at > SURE_FOR:
            self._requests.stay_sure(holding, reader)  # a long handler should not work on what is somebody else's
        busy = holding.waiting or (holding.out and not self._dispatcher.shared)
        done = holding.letting_go and holding.read_before and not busy
        return done and self._notices.may_go(holding) and not holding.out and not holding.over

    def _last_word(self, holding: HeldPartition, reader: Reader) -> None:
        """The ledger does not name it any more. The queue knows whose it is: if it still is ours, what was handled counts."""
        if self._requests.not_before(holding) <= time.monotonic():
            self._requests.settle(holding, reader)

    def _notify(self, dropped: Sequence[HeldPartition]) -> None:
        holdings = list(self._holdings)
        new = [one for one in holdings if one.notice is Notice.NONE and not one.over]
        if self._notices.revokes:
            new = [one for one in new if self._requests.keep(one, self._holdings.reader(one))]
        for call in (self._notices.lost([*dropped, *holdings]), self._notices.revoked(), self._notices.assigned(new)):
            if call is not None:
                self._dispatcher.calls.append(call)
