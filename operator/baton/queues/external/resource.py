"""spec.source.external of a PartitionedQueue."""

from baton.model.on_deadline import OnDeadline
from baton.schema.source_fields import SourceFields


class ExternalSource(SourceFields):
    """A queue that Baton cannot talk to: its partitions are only numbers, and nothing but the consumers' word says that one was
    let go."""

    on_deadline: OnDeadline = OnDeadline.WAIT
    """What a hand-off does whose owner has not released the partition by the deadline: Wait for its word (nothing else is safe
    where nothing can be enforced), or Force, which goes on without it."""

    def at_deadline(self) -> OnDeadline:
        return self.on_deadline
