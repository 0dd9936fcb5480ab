"""Queues in the memory of one process, as a kind."""

from baton.queues.kind import QueueKind

KIND = QueueKind(
    name="Toy",
    about="For type Toy.",
    resource="baton.queues.toy.resource:ToySource",
    needs=("server",),
    fenced=True,
    session_required=True,
    most_partitions=8,
    operator="baton.queues.toy.operator_side:open_queue",
    variable="BATON_TOY_SERVER",
    consumer="baton.queues.toy.consumer_side:ToyConsumerSide",
)
