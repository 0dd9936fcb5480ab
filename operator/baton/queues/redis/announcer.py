"""Announcements of the operator: who is concerned by a pause or a grant looks at the partition at once.

They travel behind the requests that they are about, in the same round trip, and not in their scripts: in a Redis Cluster a pod's
announcements are on another node than its partitions, and go there by themselves. One that is lost costs time only, for the
ledger says the same a little later.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import redis.asyncio as aioredis

from baton.model.ids import Uid
from baton.model.ranges import format_numbers
from baton.queues.redis.batch import Hint, ScriptRun
from baton.queues.redis.keys import announcements_key
from baton.queues.redis.round_trip import round_trip
from baton.queues.redis.scripts import ANNOUNCE
from baton.queues.redis.url import RedisUrl

log = logging.getLogger(__name__)

_MOST_WAITING = 1024
"""Announcements that wait for a round trip; the oldest are forgotten first."""


class Announcer:
    """Of one queue, to the pods of its group."""

    def __init__(self, url: RedisUrl, queue: str, group: str) -> None:
        """`queue` and `group` are namespace/name."""
        self._url = url
        self._queue = queue
        self._group = group
        self.key = announcements_key(group, "")
        """None that is used, on the node that has them all."""
        self._owners: dict[int, Uid] = {}
        self._fails = False

    def owned(self, partition: int, uid: Uid | None) -> None:
        """The queue says so."""
        if uid is None:
            self._owners.pop(partition, None)
        else:
            self._owners[partition] = uid

    def hints(self, partition: int, receiver: Uid | None = None) -> tuple[Hint, ...]:
        """For a pause or a grant: who owns the partition, and who is to."""
        uids = dict.fromkeys((receiver, self._owners.get(partition)))
        return tuple(Hint(uid, partition) for uid in uids if uid is not None)

    def requests(self, about: Iterable[ScriptRun]) -> list[ScriptRun]:
        """The announcements of these: one for each pod."""
        found: defaultdict[Uid, set[int]] = defaultdict(set)
        for request in about:
            for hint in request.hints:
                found[hint.uid].add(hint.partition)
        name = self._queue.rpartition("/")[2]
        return [
            ScriptRun(ANNOUNCE, [announcements_key(self._group, uid)], (name, format_numbers(partitions)))
            for uid, partitions in found.items()
        ]

    def answered(self, answers: Sequence[object]) -> None:
        """What became of them."""
        failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failure is not None and not self._fails:
            log.warning(
                "%s: changes of owner in %s cannot be announced (%s), so its consumers wait for their ledgers. Let the "
                "operator's user write the keys pg:{%s}:*.",
                *(self._url.place, self._queue, self._url.hidden(failure), self._group),
            )
        if answers:
            self._fails = failure is not None


class Aside:
    """Sends announcements on a connection of their own. Nobody waits for them: those that come meanwhile go next, together."""

    def __init__(self, client: "aioredis.Redis", announcing: Announcer) -> None:
        self._client = client
        self._announcing = announcing
        self._waiting: deque[ScriptRun] = deque(maxlen=_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    def send(self, announcements: Iterable[ScriptRun]) -> None:
        self._waiting.extend(announcements)
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        """What is under way is given up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def _send(self) -> None:
        while self._waiting:
            announcements = list(self._waiting)
            self._waiting.clear()
            try:
                answers = await round_trip(self._client, announcements)
            except Exception as error:
                answers = [error]
            self._announcing.answered(answers)
