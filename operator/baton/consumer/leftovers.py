"""Entries that an earlier process was handed out and did not finish: it may have ended by one of them."""

import logging
import time
from collections.abc import Iterator

from baton.consumer.entry_sequence import EntrySequence, turn_of
from baton.consumer.held_entry import shown_key
from baton.consumer.held_partitions import HeldPartitions
from baton.consumer.queue_requests import QueueRequests

log = logging.getLogger(__name__)

_TOLD_FROM = 2
"""Times; a pod whose node is lost leaves entries that were handed out once."""


class Leftovers:
    """Which partition or key that begins with such an entry has its turn: they begin after the others, one at a time, and those
    first whose entry was handed out least often. One that is worked on for long keeps the next waiting as long as it waited
    itself at most, and nothing waits in a partition that is let go of. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, requests: QueueRequests) -> None:
        self._holdings = holdings
        self._requests = requests
        self._begun: tuple[EntrySequence, str, float] | None = None
        """The last one, its entry's offset, and until when that keeps the next waiting (monotonic)."""

    def begin(self, *, others: bool, shared: bool) -> EntrySequence | None:
        """The queue has counted that its first entry is begun. None: it is not its turn yet, or nothing is left over. `others`:
        something else can be begun or is worked on, which goes first for a while."""
        now = time.monotonic()
        last, offset, until = self._begun or (None, "", 0.0)
        waits = last is not None and not shared and offset in last.out and now < until
        for sequence in sorted(self._due(now, shared=shared), key=lambda one: (not one.holding.letting_go, one.waiting[0].times)):
            if (waits and not sequence.holding.letting_go) or (others and now < sequence.latest):
                return None
            if not sequence.waiting or now < self._requests.not_before(sequence.holding):
                continue  # the queue has just said so of another key of its partition
            entry = sequence.waiting[0]
            turn = now + turn_of(entry.times)
            _tell(sequence)
            if self._requests.begin_again(sequence, self._holdings.reader(sequence.holding)):
                self._begun = sequence, entry.offset, turn
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
            *(entry.offset, shown_key(entry), entry.times),
        )
