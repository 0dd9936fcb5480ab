"""The kind External: queues that Baton cannot reach."""

from baton.queues.kind import QueueKind

KIND = QueueKind(
    name="External",
    about="For type External; may be left out.",
    resource="baton.queues.external.resource:ExternalSource",
    fenced=False,
    session_required=False,  # its consumers need not use Baton's library
    operator="baton.queues.external.operator_side:open_queue",
)
