"""Queues that Baton cannot reach, as a kind."""

from baton.queues.kind import QueueKind

KIND = QueueKind(
    name="External",
    about="For type External; may be left out.",
    resource="baton.queues.external.resource:ExternalSource",
    fenced=False,
    session_required=False,  # what reads it is unknown
    operator="baton.queues.external.operator_side:open_queue",
)
