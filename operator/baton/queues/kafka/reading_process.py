"""A process that reads for an owner, and what owner records tell it: what it still has, and whose the rest is. Pure."""

from dataclasses import dataclass, replace

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.record import BY_GIVER, Committed, Record, names
from baton.queues.protocol import Owner

NOBODY = Owner(None, Epoch(0))


@dataclass(frozen=True, slots=True)
class ReadingProcess:
    """Of the pod with this UID."""

    uid: Uid
    mark: str
    """By it a record names the process (`Record.reader`)."""

    def see(self, position: ReadPosition, record: Record | None, asked_at: float, before: Record | None = None) -> bool:
        """What stands in the record. `before`: what was known when it was asked for; what was committed since then is newer.
        False: that is from before the grant, and says nothing of who has the partition now."""
        readers = (self.mark, BY_GIVER)  # what the giver wrote was there before any mark
        older = before is not None and position.record is not before
        if record is not None and names(record, self.uid, position.epoch) and record.reader in readers:
            if not older:
                position.record = record
            position.sure_at = max(position.sure_at, asked_at)
        elif not older or (record is not None and record.epoch > position.epoch):
            if is_before(record, position.epoch):
                return False
            position.lost = owner_of(record)
            position.other_process = names(record, self.uid, position.epoch)
        return True

    def has_committed(self, position: ReadPosition, offset: int, record: Record, asked_at: float) -> None:
        """The broker has taken this. What was handed over is its receiver's: nothing more is said of it under this token."""
        position.taken(offset, record, asked_at)
        if not names(record, self.uid, position.epoch):
            position.lost = owner_of(record)

    def as_it_is(self, position: ReadPosition, seen: Committed, end: int = 0) -> Record | None:
        """What is committed stays, under another token; with the mark of this process, where it has that from the giver alone."""
        record = seen.record
        if record is None or not names(record, self.uid, position.epoch) or record.reader != BY_GIVER:
            return record
        return replace(record, reader=self.mark, released=False)


def is_before(record: Record | None, epoch: Epoch) -> bool:
    """It stood there before this was granted: epochs only rise. No record is what Kafka's own tools leave that set a place."""
    return record is not None and record.epoch < epoch


def owner_of(record: Record | None) -> Owner:
    """Nobody, where there is no record."""
    return NOBODY if record is None else Owner(record.uid, record.epoch)
