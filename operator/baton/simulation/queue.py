"""The simulated queues: who would be let in, and what their records say."""

from dataclasses import dataclass, field

from baton.engine.effects import Grant
from baton.engine.observation import Outcome, OwnerRecord
from baton.model.ids import Epoch, Partition, Uid


@dataclass(slots=True)
class FencedQueues:
    """Owner records of all partitions. A queue that cannot fence (External) lets everybody in who believes to be the owner."""

    records: dict[Partition, OwnerRecord] = field(default_factory=dict)

    def grant(self, wanted: Grant) -> Outcome:
        """Taken with a higher epoch, or with an equal one of the same owner; the answer is the record that then stands there."""
        record = self.records.get(wanted.partition, OwnerRecord(None, Epoch(0)))
        if wanted.epoch > record.epoch:
            record = self.records[wanted.partition] = OwnerRecord(wanted.uid, wanted.epoch)
        return Outcome(wanted.partition, record)

    def accepts(self, partition: Partition, uid: Uid, epoch: Epoch) -> bool:
        """What a fenced read, acknowledgement or commit would be answered."""
        return self.records.get(partition) == (uid, epoch)
