"""Batches, one after another: for `for` and for `async for`."""

from baton.consumer.batch import Batch
from baton.consumer.callbacks import Call
from baton.consumer.delivery import Delivery
from baton.consumer.handler import HandlerRun
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.loop import ConsumerLoop
from baton.consumer.worker import call, call_async, take


class BatchStream:
    """Of all partitions of this consumer, until it ends. Callbacks are called while the next batch is waited for.

    The next batch does not wait until this one is acknowledged: how many are in the program's hands is its own affair, up to the
    queue's maxDeliveredUnacked. Entries of a partition come in order.
    """

    def __init__(self, loop: ConsumerLoop, handler: HandlerRun, options: CheckedOptions) -> None:
        self._loop = loop
        self._handler = handler
        self._options = options

    def __iter__(self) -> "BatchStream":
        return self

    def __next__(self) -> Batch:
        while (answer := self._loop.take(self._options.want())) is not None:
            if isinstance(answer, Call):
                call(self._loop, self._handler, answer)
            elif batch := self._batch(answer):
                return batch
        raise StopIteration

    def __aiter__(self) -> "BatchStream":
        return self

    async def __anext__(self) -> Batch:
        while (answer := await take(self._loop, self._options.want())) is not None:
            if isinstance(answer, Call):
                await call_async(self._loop, answer)
            elif batch := self._batch(answer):
                return batch
        raise StopAsyncIteration

    def _batch(self, delivery: Delivery) -> Batch | None:
        entries, others = self._options.deserializers.apply(delivery.entries)
        if others:
            known = {entry.nth for those in (entries, *(unread for unread, _ in others)) for entry in those}
            left = [(sequence, [entry for entry in those if entry.nth not in known]) for sequence, those in delivery.parts]
            self._loop.give_back(Delivery(left), others)
        return Batch(entries, self._loop) if entries else None
