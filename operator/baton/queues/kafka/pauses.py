"""What has become of paused partitions, by their records: their owners still have them, have let go, or have handed them over.
Pure."""

from baton.model.ids import Epoch
from baton.queues.kafka.record import Record
from baton.queues.protocol import Owner


class Pauses:
    """Of one topic, as its operator has paused them."""

    def __init__(self) -> None:
        self._paused: dict[int, Epoch] = {}
        self._let_go: set[int] = set()
        """Whose owners were seen to have let go since they were paused: they may be granted without another look."""
        self._handed_over: dict[int, Epoch] = {}
        """The epochs under which owners have handed partitions over, as far as that was told."""

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
        """How much is left of what was paused under this epoch, where this record stands. 1: the owner has not let go; how much
        it has in hand only it knows. One to whom it was handed over: until that was `told`, for whoever asks again grants."""
        if record is None or epoch is None or record.epoch < epoch:
            return 0
        if record.epoch == epoch:
            if not record.released:
                return 1
            self._let_go.add(partition)
            return 0
        if record.uid is None or self._handed_over.get(partition) == record.epoch:
            return 0
        return Owner(record.uid, record.epoch)

    def told(self, partition: int, epoch: Epoch) -> None:
        """That it was handed over under this epoch."""
        self._handed_over[partition] = epoch
