"""What has become of paused partitions, by their records: their owners still have them, have let go, or have handed them over.
Pure."""

from baton.model.ids import Epoch
from baton.queues.kafka.record import BY_GIVER, Record
from baton.queues.protocol import IN_USE, Owner


class Pauses:
    """Of one topic, as its operator has paused them."""

    def __init__(self) -> None:
        self._paused: dict[int, Epoch] = {}
        self._let_go: set[int] = set()
        """Whose owners were seen to have let go since they were paused: they may be granted without another look."""
        self._told: dict[int, Epoch] = {}
        """The epoch of each partition's owner, as it was told last."""

    def begin(self, partition: int, epoch: Epoch) -> None:
        """It is paused under this epoch."""
        self._paused[partition] = epoch
        self._let_go.discard(partition)

    def epoch(self, partition: int) -> Epoch | None:
        """Under which it was paused last."""
        return self._paused.get(partition)

    def let_go(self, partition: int) -> bool:
        return partition in self._let_go

    def granting(self, partition: int) -> None:
        """What was seen of it holds no more."""
        self._let_go.discard(partition)

    def left(self, partition: int, epoch: Epoch | None, record: Record | None) -> int | Owner:
        """How much is left of what was paused under this epoch, where this record stands. IN_USE: the owner has not let go, and
        only it knows how much it has in hand. One to whom it was handed over: until that was `told`; who asks again grants."""
        if record is None or epoch is None or record.epoch < epoch:
            return 0
        if record.epoch == epoch:
            if not record.released:
                return IN_USE
            self._let_go.add(partition)
            return 0
        return Owner(record.uid, record.epoch) if self.is_news(partition, record) else 0

    def is_news(self, partition: int, record: Record) -> bool:
        """The owner that was paused has handed it over to this one, and nobody was told."""
        paused = self._paused.get(partition)
        handed_over = record.reader == BY_GIVER if paused is None else record.epoch > paused
        return record.uid is not None and handed_over and self._told.get(partition) != record.epoch

    def told(self, partition: int, epoch: Epoch) -> None:
        """That its owner has it under this epoch."""
        self._told[partition] = epoch
