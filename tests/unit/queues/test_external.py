"""External queues are only numbers."""

from baton.model.ids import Epoch, Uid
from baton.queues.external.adapter import ExternalQueue
from baton.queues.protocol import Owner, QueueAdapter


async def test_an_external_queue_fences_nothing_and_leaves_release_to_the_consumer() -> None:
    queue: QueueAdapter = ExternalQueue()
    assert not queue.fenced
    assert await queue.partitions() is None
    await queue.ensure(4)
    await queue.ensure(6)
    assert await queue.partitions() == 6
    assert await queue.grant(3, Uid("a"), Epoch(7)) == Owner(Uid("a"), Epoch(7))
    assert await queue.pause(3, Epoch(7)) is None
    assert await queue.outstanding(3) is None
    assert await queue.incarnation() is None
    assert (await queue.owners(), await queue.lag(), await queue.stale_refused()) == ({}, {}, {})
    assert await queue.dead_letters() == {}
