"""One worker: takes entries from the consumer's loop, hands them to the handler one by one, and says what became of each."""

import logging
import time

from baton.consumer.delivery import Delivery, Want
from baton.consumer.handler import HandlerRun
from baton.consumer.held import HeldEntry
from baton.consumer.loop import ConsumerLoop
from baton.consumer.outcome import ACK, Nack, Outcome
from baton.consumer.work import SURE_FOR

log = logging.getLogger(__name__)

_TELL_EVERY = 0.05
"""Seconds after which a worker says what it has handled, though it has more in hand."""
_LONGEST_REASON = 500


class Worker:
    """Works until the consumer ends."""

    def __init__(self, loop: ConsumerLoop, handler: HandlerRun) -> None:
        self._loop = loop
        self._handler = handler

    def work(self) -> None:
        """Raises what the handler raises to end the process (SystemExit, KeyboardInterrupt), after telling what was handled."""
        while (delivery := self._loop.take(Want())) is not None:
            self._work_through(delivery)

    def _work_through(self, delivery: Delivery) -> None:
        outcomes: list[tuple[HeldEntry, Outcome]] = []
        begun = told_at = time.monotonic()
        count = 0
        try:
            for entry in delivery.entries:
                if delivery.recalled or not _sure(entry):
                    break
                outcome = self._handle(entry)
                outcomes.append((entry, outcome))
                count += 1
                if outcome is not ACK:
                    break
                if time.monotonic() - told_at > _TELL_EVERY:
                    self._loop.tell(outcomes)
                    outcomes, told_at = [], time.monotonic()
        finally:
            self._loop.give_back(delivery, outcomes, time.monotonic() - begun, count)

    def _handle(self, entry: HeldEntry) -> Outcome:
        try:
            self._handler(entry)
        except Exception as error:
            log.exception("the handler failed on %s/%d entry %s; it is tried again", entry.queue, entry.partition, entry.offset)
            return Nack(f"{type(error).__name__}: {error}"[:_LONGEST_REASON])
        return ACK


def _sure(entry: HeldEntry) -> bool:
    """The partition is ours, as far as the queue has said lately."""
    holding = entry.lane.holding
    return not holding.over and time.monotonic() - holding.sure_at <= SURE_FOR
