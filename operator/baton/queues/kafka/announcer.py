"""Announcements of the operator: which pods a pause or a grant concerns, and to which an owner hands over."""

import asyncio
import logging
from collections import deque

from aiokafka.protocol.commit import OffsetCommitRequest

from baton.model.ids import Uid
from baton.model.wording import quoted
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcement import ANYBODY, PARTITION, Announcement, Said, announcing_group, mark, read
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.messages import CommittedOffsets
from baton.queues.protocol import Owner, QueueUnreachable

log = logging.getLogger(__name__)

_KEPT = 200
"""Changes that are said once more with each new one: pods that were slow hear them, too. Who has missed one waits for its
ledger."""
_NO_GENERATION, _NO_MEMBER, _KEPT_AS_USUAL = -1, "", -1


class KafkaAnnouncer:
    """Of one queue, to the pods of its group. Nobody waits for what is said, and a failure is only logged: the ledger says the
    same a little later."""

    def __init__(self, address: KafkaAddress, group: str, client_id: str, topic: str, queue: str) -> None:
        self._client = KafkaClient(address, announcing_group(group), client_id)
        self._topic = topic
        self._queue = queue
        self._waiting: list[tuple[int, int, int, int, int, int]] = []
        self._kept: deque[Said] = deque(maxlen=_KEPT)
        self._number: int | None = None
        """Of the last one."""
        self._task: asyncio.Task[None] | None = None
        self._fails = False
        self._owners: dict[int, int] = {}
        """By partition, as far as it is known."""
        self._pods: dict[int, Uid | None] = {}
        """Who was to get a partition, by their marks; None: two have the same."""

    def owned(self, partition: int, uid: Uid | None) -> None:
        """The record says so."""
        self._owners[partition] = mark(uid)

    def paused(self, partition: int, epoch: int, within: float | None, then: Owner | None, *, direct: bool) -> None:
        """`within`: seconds that the owner has. `then`: who is to be granted it. `direct`: by its owner,
        which hands it over."""
        receiver = then.uid if then is not None else None
        epoch_then = 0
        if then is not None and receiver is not None and direct:
            number = mark(receiver)
            if self._pods.setdefault(number, receiver) != receiver:
                self._pods[number] = None
            epoch_then = then.epoch
        self._say(partition, epoch, int(1000 * (within or 0.0)), mark(receiver), epoch_then)

    def granted(self, partition: int, epoch: int, uid: Uid | None) -> None:
        self._say(partition, epoch, -1, mark(uid))
        self.owned(partition, uid)

    async def close(self) -> None:
        """What is under way is given up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    def _say(self, partition: int, epoch: int, within: int, receiver: int, then: int = 0) -> None:
        self._waiting.append((partition, epoch, within, self._owners.get(partition, ANYBODY), receiver, then))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="baton-announcer")

    async def _send(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await self._announce(waiting)
                self._fails = False
            except Exception as problem:  # also one that nobody expected: the task is nobody's who would see it
                if not self._fails:
                    log.warning(
                        "changes of owner in %s cannot be announced (%s), so its consumers wait for their ledgers",
                        self._queue,
                        quoted(str(problem) or repr(problem), 300),
                        exc_info=None if isinstance(problem, QueueUnreachable) else problem,
                    )
                self._fails = True

    async def _announce(self, waiting: list[tuple[int, int, int, int, int, int]]) -> None:
        if self._number is None:
            self._number = await self._last()
        number = self._number + 1
        self._kept.extend(Said(number, *one) for one in waiting)
        named = {one.receiver for one in self._kept} | {receiver for *_, receiver, _ in self._waiting}
        self._pods = {number: uid for number, uid in self._pods.items() if number in named}
        pods = {number: uid for number, uid in self._pods.items() if uid is not None}
        text = Announcement(self._queue, tuple(self._kept), pods).to_text() + "\0"  # as for a record

        async def commit() -> int:
            offsets = [(self._topic, [(PARTITION, number, text)])]
            request = OffsetCommitRequest(self._client.group, _NO_GENERATION, _NO_MEMBER, _KEPT_AS_USUAL, offsets)
            answer = await self._client.to_group(request)
            return int(answer.topics[0][1][0][1])

        await self._client.until_taken("OffsetCommit", commit, self._topic)
        self._number = number

    async def _last(self) -> int:
        """That this operator, or one before it, has used."""
        found = 0

        async def ask() -> int:
            nonlocal found
            answer = await self._client.to_group(CommittedOffsets(self._client.group, self._topic, (PARTITION,)))
            for _, those, _ in answer.topics:
                for _, offset, _, text, _, _ in those:
                    found = max(0, offset) if read(text) is not None else 0
            return int(answer.error_code)

        await self._client.until_taken("OffsetFetch", ask, self._topic)
        return found
