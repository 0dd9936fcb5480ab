"""The operator's side of an External queue."""

from baton.queues.external.adapter import ExternalQueue
from baton.queues.opening import QueueToOpen
from baton.queues.protocol import Claimant, QueueAdapter


async def open_queue(queue: QueueToOpen, claimant: Claimant) -> QueueAdapter:
    """`OpenQueueSide` of External: there is nothing to connect to."""
    return ExternalQueue()
