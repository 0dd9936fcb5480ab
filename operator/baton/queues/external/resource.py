"""spec.source.external of a PartitionedQueue."""

from baton.model.ids import OnDeadline
from baton.schema.shape import SourceFields


class ExternalSource(SourceFields):
    """A queue that Baton does not connect to. Its partitions are only numbers, and its consumers report when they have released
    one."""

    on_deadline: OnDeadline = OnDeadline.WAIT
    """What a hand-off does at a missed deadline. Wait: it waits, because no queue would stop the owner. Force: it continues, and
    two pods may work on the partition."""

    def at_deadline(self) -> OnDeadline:
        return self.on_deadline
