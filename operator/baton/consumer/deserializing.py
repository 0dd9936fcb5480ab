"""Keys and values as the program wants them, instead of bytes."""

import logging
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

from baton.consumer.entry_sequence import EntrySequence
from baton.consumer.held_entry import HeldEntry
from baton.consumer.outcome import DeadLetter, Outcome, Retry, bounded, outcome_of, said, then
from baton.model.options import function
from baton.model.wording import one_line

log = logging.getLogger(__name__)

Deserializer = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Deserializers:
    """Functions of bytes; None: bytes stay bytes."""

    key: Deserializer | None = None
    value: Deserializer | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for what cannot be called with bytes: each entry would be a dead letter."""
        function("key_deserializer", self.key, "key")
        function("value_deserializer", self.value, "value")

    def apply(self, entries: Sequence[HeldEntry]) -> tuple[Sequence[HeldEntry], list[tuple[Sequence[HeldEntry], Outcome]]]:
        """What can be read, in order; and what cannot, which no other try would mend unless the deserializer raises Retry. What
        is behind such an entry in its partition (or key) is in neither."""
        if self.key is None and self.value is None:
            return entries, []
        readable: list[HeldEntry] = []
        others: list[tuple[Sequence[HeldEntry], Outcome]] = []
        held_up: set[EntrySequence] = set()
        for entry in entries:
            if entry.sequence in held_up:
                continue
            try:
                readable.append(self._applied(entry))
            except Retry as error:
                place = (entry.queue, entry.partition, entry.offset)
                outcome = outcome_of(error)
                log.warning("%s/%d entry %s cannot be read yet: %s; %s", *place, one_line(outcome.why, 500), then(outcome))
                others.append(([entry], outcome))
                held_up.add(entry.sequence)
            except (Exception, CancelledError) as error:  # of an event loop of its own: nobody cancels a function
                others.append(([entry], DeadLetter(bounded(f"it cannot be read: {said(error)}"))))
        return readable, others

    def _applied(self, entry: HeldEntry) -> HeldEntry:
        key = entry.key if self.key is None or entry.key is None else self.key(entry.key)
        value = entry.value if self.value is None or entry.value is None else self.value(entry.value)
        read = copy(entry)
        read.key, read.value = key, value
        return read
