"""How far a worker is with a delivery, and what it says of it to the consumer's loop."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Self

from baton.consumer.batch import Batch
from baton.consumer.delivery import Delivery, Outcomes
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.held_entry import HeldEntry
from baton.consumer.held_partition import HeldPartition
from baton.consumer.loop import ConsumerLoop
from baton.consumer.outcome import ACK, KEPT, DeadLetter, Nack, Reject, Retry, outcome_of, then
from baton.model.wording import one_line
from baton.queues.consumer_side import SURE_FOR

log = logging.getLogger(__name__)

_TELL_EVERY = 0.05
"""Seconds after which a worker says what it has handled, though it has more in hand."""


class Progress:
    """With one delivery. As a context: in the end what was not begun goes back. Where the handler has ended the process it does
    not: another worker would begin what this one was at, unmarked, or what is behind that."""

    def __init__(self, loop: ConsumerLoop, delivery: Delivery, options: CheckedOptions) -> None:
        self._loop = loop
        self._delivery = delivery
        self._options = options
        self._entries, self._outcomes = options.deserializers.apply(delivery.entries)
        self._handled: list[HeldEntry] = []
        """Since the last word."""
        self._begun = self._told_at = self._returned_at = time.monotonic()
        self._count = 0
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._delivery.at = ()
        if kind is not None:
            self._loop.tell(self._said())
            return
        self._loop.give_back(self._delivery, self._said(), time.monotonic() - self._begun, self._count)

    def entries(self) -> Iterator[HeldEntry]:
        """One by one, until one fails or is to come again, or the ledger or the end calls."""
        for entry in self._entries:
            if self._failed or self._delivery.recalled or self._delivery.held_up or not _is_sure(entry.sequence.holding):
                return
            self._begin((entry,))
            yield entry

    def batch(self) -> Batch | None:
        """All of it, or nothing if the ledger or the end has called."""
        held = {sequence.holding for sequence, _ in self._delivery.parts}
        if self._delivery.recalled or not self._entries or not all(map(_is_sure, held)):
            return None
        self._begin(self._entries)
        return Batch(self._entries, self._loop)

    def handled(self, entries: Sequence[HeldEntry]) -> None:
        """The handler has returned."""
        now = self._end()
        self._handled += entries
        self._count += len(entries)
        if now - self._told_at > _TELL_EVERY:
            self._loop.tell(self._said())
            self._told_at = now

    def failed(self, error: Exception, entries: Sequence[HeldEntry]) -> None:
        """The handler has raised."""
        self._end()
        outcome = outcome_of(error, self._options.dead_letter_on)
        if self._options.batch is not None and (len(entries) > 1 or isinstance(outcome, Nack)):
            delay = outcome.delay if isinstance(outcome, Nack) else 0.0
            outcome = Nack(outcome.why, delay, alone=True)
        _log(error, outcome, entries)
        self._outcomes = [*self._said(), (entries, outcome)]
        self._count += len(entries)
        self._failed = True

    def _begin(self, entries: Sequence[HeldEntry]) -> None:
        self._delivery.at_since, self._delivery.warnings, self._delivery.at = self._returned_at, 0, entries

    def _end(self) -> float:
        """The answer: when the handler has returned (monotonic)."""
        now = time.monotonic()
        if (measure := self._options.measure) is not None:
            measure(self._delivery.at[0].sequence.holding.partition.queue, now - self._returned_at)
        self._returned_at, self._delivery.at = now, ()
        return now

    def _said(self) -> Outcomes:
        """What became of entries since the last word."""
        said = [*self._outcomes, (self._handled, KEPT if self._options.manual_ack else ACK)]
        self._outcomes, self._handled = [], []
        return said


def _log(error: Exception, outcome: Nack | DeadLetter, entries: Sequence[HeldEntry]) -> None:
    """In one line; with the traceback of an exception that says nothing on purpose, the first time."""
    first, more = entries[0], f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    what, why = f"{first.queue}/{first.partition} entry {first.offset}{more}", one_line(outcome.why, 500)
    comes = then(outcome) + (", entry by entry" if more and isinstance(outcome, Nack) else "")
    if isinstance(error, Reject):
        return  # it is said that the entry was set aside
    if isinstance(error, Retry):
        log.warning("the handler asks for another try of %s: %s; %s", what, why, comes)
    elif first.failed_by.partition(":")[0] == type(error).__name__:
        log.error("the handler failed on %s once more: %s; %s", what, why, comes)
    else:
        log.error("the handler failed on %s: %s; %s", what, why, comes, exc_info=error)


def _is_sure(holding: HeldPartition) -> bool:
    """The partition is ours, as far as the queue has said lately."""
    return not holding.over and time.monotonic() - holding.sure_at <= SURE_FOR
