"""Several entries, handed out together."""

from collections.abc import Iterator, Sequence
from typing import overload

from baton.consumer.acknowledgement import Acknowledgement
from baton.consumer.held_entry import HeldEntry, OutcomeListener
from baton.consumer.outcome import ACK, DeadLetter, Nack, Outcome, bounded, seconds
from baton.model.ids import Partition
from baton.model.wording import counted


class Batch(Sequence[HeldEntry]):
    """Entries of one or several partitions; those of one partition are in order."""

    def __init__(self, entries: Sequence[HeldEntry], hearing: OutcomeListener) -> None:
        self._entries = entries
        self._hearing = hearing

    @overload
    def __getitem__(self, index: int) -> HeldEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HeldEntry]: ...
    def __getitem__(self, index: int | slice) -> HeldEntry | Sequence[HeldEntry]:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[HeldEntry]:
        return iter(self._entries)

    def __repr__(self) -> str:
        return f"Batch({counted(len(self), 'entry', 'entries')} of {counted(len(self.by_partition()), 'partition')})"

    def by_partition(self) -> dict[Partition, list[HeldEntry]]:
        """The entries by partition, those of each partition in order."""
        found: dict[Partition, list[HeldEntry]] = {}
        for entry in self._entries:
            found.setdefault(entry.sequence.holding.partition, []).append(entry)
        return found

    def ack(self) -> Acknowledgement:
        """Finished with all of it; of what had a word of its own before (`entry.nack`), that word stands. In any order, from
        any thread. `await batch.ack()`, or `batch.ack().wait()`, answers when the queue has it."""
        receipt = Acknowledgement()
        self._tell(ACK, receipt)
        return receipt

    def nack(self, delay: float | None = None, why: str = "not acknowledged by the program") -> None:
        """Hand all of it out once more, as `entry.nack` does for one."""
        self._tell(Nack(bounded(why), seconds(delay)), None)

    def dead_letter(self, why: str) -> Acknowledgement:
        """All of it goes to the dead letters."""
        receipt = Acknowledgement()
        self._tell(DeadLetter(bounded(why)), receipt)
        return receipt

    def _tell(self, outcome: Outcome, receipt: Acknowledgement | None) -> None:
        self._hearing.tell([(self._entries, outcome)], receipt)
