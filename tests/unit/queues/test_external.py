"""External queues are only numbers."""

from baton.model.ids import Epoch, Uid
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.protocol import Ownership, QueueAdapter, QueueCheck


async def test_an_external_queue_fences_nothing_and_leaves_release_to_the_consumer() -> None:
    queue: QueueAdapter = ExternalQueue()
    assert not queue.fenced
    await queue.ensure(None)
    assert await queue.check() == QueueCheck()
    await queue.ensure(4)
    await queue.ensure(6)
    await queue.ensure(None)
    assert await queue.check() == QueueCheck(partitions=6), "it knows nothing else"
    assert await queue.grant(3, Uid("a"), Epoch(7)) == Ownership(Uid("a"), Epoch(7))
    assert await queue.pause(3, Epoch(7)) is None
    assert await queue.outstanding(3) is None
