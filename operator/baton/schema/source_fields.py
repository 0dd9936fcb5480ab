"""What the CR models of all kinds of queues have in common."""

from baton.model.ids import OnDeadline
from baton.schema.shape import Shape


class SourceFields(Shape):
    """The fields of `spec.source.<kind>`; each kind of queue has a model of its own."""

    def at_deadline(self) -> OnDeadline:
        """What a hand-off does at its deadline, where the queue cannot fence."""
        return OnDeadline.WAIT
