"""Entries that an earlier process was handed out and did not finish: it may have ended by one of them."""

import logging
import time
from collections.abc import Iterator

from baton.consumer.entry_sequence import EntrySequence
from baton.consumer.held_partitions import HeldPartitions
from baton.consumer.queue_requests import QueueRequests
from baton.model.wording import one_line

log = logging.getLogger(__name__)

_LONGEST_KEY = 100
_TOLD_FROM = 2
"""Times; a pod whose node is lost leaves entries that were handed out once."""


class Leftovers:
    """Which partition or key that begins with such an entry has its turn: they begin after the others, one at a time, and those
    first whose entry was handed out least often. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, requests: QueueRequests) -> None:
        self._holdings = holdings
        self._requests = requests
        self._begun: tuple[EntrySequence, str] | None = None
        """The last one, and its entry's offset."""

    def begin(self, *, others: bool, shared: bool) -> EntrySequence | None:
        """The queue has counted that its first entry is begun. None: it is not its turn yet, or nothing is left over. `others`:
        something else can be begun or is worked on, which goes first for a while."""
        now = time.monotonic()
        if not shared and self._begun is not None and self._begun[1] in self._begun[0].out:
            return None
        for sequence in sorted(self._due(now, shared=shared), key=lambda one: one.waiting[0].times):
            if others and now < sequence.latest:
                return None
            entry = sequence.waiting[0]
            _tell(sequence)
            if self._requests.begin_again(sequence, self._holdings.reader(sequence.holding)):
                self._begun = sequence, entry.offset
                return sequence
        return None

    def _due(self, now: float, *, shared: bool) -> Iterator[EntrySequence]:
        for holding in self._holdings:
            if holding.left_over and holding.has_turns and now >= self._requests.not_before(holding):
                sequences = list(holding.sequences.values())
                yield from (one for one in sequences if one.left_over and now >= one.due and (shared or not one.busy))
                if not any(entry.times for one in sequences for entry in one.waiting):
                    holding.left_over = 0.0


def _tell(sequence: EntrySequence) -> None:
    """Before it is begun: it may be the last that this process says."""
    entry = sequence.waiting[0]
    if entry.times >= _TOLD_FROM:
        log.warning(
            "%s/%d entry %s (key %s) was handed out %d times and never acknowledged: it begins now, after others. If it ends the "
            "process each time, set maxRedeliveries, and it becomes a dead letter",
            *sequence.holding.partition,
            *(entry.offset, one_line(repr(entry.origin.key), _LONGEST_KEY), entry.times),
        )
