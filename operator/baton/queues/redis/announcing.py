"""Announcements of the operator: who is concerned by a pause or a grant looks at the partition at once.

They travel behind the requests that they are about, in the same round trip, and not in their scripts: in a Redis Cluster a pod's
announcements are on another node than its partitions. One that is lost costs time only, for the ledger says the same a little
later.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from baton.model.ids import Uid
from baton.model.ranges import format_numbers
from baton.queues.redis.batch import Hint, Request
from baton.queues.redis.keys import announcements_key
from baton.queues.redis.scripts import ANNOUNCE
from baton.queues.redis.url import RedisUrl

log = logging.getLogger(__name__)


class Announcing:
    """Of one queue, to the pods of its group."""

    def __init__(self, url: RedisUrl, queue: str, group: str) -> None:
        """`queue` and `group` are namespace/name."""
        self._url = url
        self._queue = queue
        self._group = group
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

    def requests(self, about: Iterable[Request]) -> list[Request]:
        """The announcements of these: one for each pod."""
        found: defaultdict[Uid, set[int]] = defaultdict(set)
        for request in about:
            for hint in request.hints:
                found[hint.uid].add(hint.partition)
        name = self._queue.rpartition("/")[2]
        return [
            Request(ANNOUNCE, [announcements_key(self._group, uid)], (name, format_numbers(partitions)))
            for uid, partitions in found.items()
        ]

    def answered(self, answers: Sequence[Any]) -> None:
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
