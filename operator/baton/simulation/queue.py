"""The simulated queues: they answer at once; their records say who would be let in."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from baton.engine.observation import Outcome, OwnerRecord
from baton.engine.results import Effect, Grant, Pause
from baton.model.ids import Epoch, Partition, Uid


@dataclass(slots=True)
class FencedQueues:
    """`Queues` of a `GroupRuntime`, with the owner records of all partitions. A queue that cannot fence (External) lets everybody
    in who believes to be the owner."""

    drains: bool = False
    """Nothing is ever outstanding. Otherwise only the consumers say when they have let go."""
    records: dict[Partition, OwnerRecord] = field(default_factory=dict)
    drained: frozenset[tuple[Partition, Epoch]] = frozenset()
    outcomes: frozenset[Outcome] = frozenset()

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        effects = list(effects)
        self.outcomes = frozenset(self._grant(effect) for effect in effects if isinstance(effect, Grant)) - told
        if self.drains:
            self.drained = frozenset((effect.partition, effect.epoch) for effect in effects if isinstance(effect, Pause))

    def _grant(self, wanted: Grant) -> Outcome:
        """Taken with a higher epoch, or with an equal one of the same owner; the answer is the record that then stands there."""
        record = self.records.get(wanted.partition, OwnerRecord(None, Epoch(0)))
        if wanted.epoch > record.epoch:
            record = self.records[wanted.partition] = OwnerRecord(wanted.uid, wanted.epoch)
        return Outcome(wanted.partition, record)

    def accepts(self, partition: Partition, uid: Uid, epoch: Epoch) -> bool:
        """What a fenced read, acknowledgement or commit would be answered."""
        return self.records.get(partition) == (uid, epoch)
