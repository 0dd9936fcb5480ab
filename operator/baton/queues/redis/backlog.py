"""What there is to do in partitions, and what the operator asks each for in one of its checks.

All of it goes past the scripts, for who asks need not own them.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.queues.protocol import Ownership
from baton.queues.redis import records
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.records import OddAnswerError

FIELDS = ("last", "done", "staged")
"""Of a partition's progress. With the length of its stream they say it."""
SHOWN_FOR = 24 * 3600.0
"""Seconds for which the condition shows them after they were first seen to be gone, and again after a start of the operator."""
_CAUSES = "by XTRIM, XDEL or DEL, by eviction at maxmemory, or because a backup was restored in part"

log = logging.getLogger(__name__)


class PartitionBacklog(NamedTuple):
    """How much there is to do, and was done."""

    lag: int
    """Entries added and not finished with."""
    finished: int
    """Entries finished with since it was made."""
    gone: bool
    """Entries seem to have vanished before they were finished with. Asked in two commands, so an entry that was added between
    them looks the same."""


def read(found: Sequence[object], length: int) -> PartitionBacklog:
    """What stands in these fields, of a stream of this length: what is finished with is removed from it. Raises ForeignRecord."""
    last, done, staged = map(records.recorded, found, FIELDS)
    return PartitionBacklog(max(0, min(last - done, length)) + staged, done - staged, last - done > length)


def unfinished(client: Any, partitions: Iterable[PartitionKeys]) -> int:
    """Of all of these partitions. Raises OddAnswerError for what Baton did not write."""
    with client.pipeline(transaction=False) as pipe:
        for keys in partitions:
            pipe.hmget(keys.progress, *FIELDS)
            pipe.xlen(keys.stream)
        answers = pipe.execute()
    try:
        return sum(read(fields, length).lag for fields, length in zip(answers[::2], answers[1::2], strict=True))
    except records.ForeignRecord as what:
        raise OddAnswerError(f"a foreign record: {what}") from None


class VanishedEntries:
    """Entries of one queue (namespace/name) that vanished unfinished: told once in the log, and for a day in `Durable`."""

    def __init__(self, place: str, queue: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._queue, self._clock = place, queue, clock
        self._totals: Mapping[int, int] = {}
        self._grew_at: dict[int, float] = {}

    def warnings(self, totals: Mapping[int, int]) -> Iterator[str]:
        """Take in how many each partition has lost since it was made; yield the sentence for the condition, if any."""
        now = self._clock()
        for partition, total in totals.items():
            if (more := total - self._totals.get(partition, 0)) > 0:
                self._grew_at[partition] = now
                entries = counted(more, "entry", "entries")
                log.warning("%s: %s of %s/%d vanished unfinished, %s", self._place, entries, self._queue, partition, _CAUSES)
        self._totals = totals
        shown = [n for n, at in self._grew_at.items() if totals.get(n) and now - at < SHOWN_FOR]
        if shown:
            entries = counted(sum(totals[n] for n in shown), "entry", "entries")
            yield (
                f"{self._place}: {entries} of {self._queue} vanished unfinished from {counted(len(shown), 'partition')} "
                f"({format_numbers(sorted(shown))}), {_CAUSES}. The log has the time; this is shown for a day"
            )


class PartitionCheck(NamedTuple):
    """One partition."""

    owner: Ownership | None
    """None: it was never granted."""
    whole: bool
    """All that makes it a partition is there."""
    backlog: PartitionBacklog
    lost: int
    """Entries that were seen to have vanished before they were finished with; see `PartitionBacklog.gone`."""
    dead: int
    """Entries that were set aside since it was made."""
    letters: int
    """Of these, those that are still there."""
    refused: int


def read_checks(answer: bytes | None) -> list[PartitionCheck]:
    """Read what the script `check` says of partitions. Raises OddAnswerError and ForeignRecord."""
    try:
        return [
            _check(*(None if one is False else one for one in told))
            for told in json.loads((answer or b"").decode(errors="replace"))
        ]
    except (ValueError, TypeError, RecursionError):
        raise OddAnswerError("no partitions where they belong") from None


def _check(
    uid: object, epoch: object, paused: object, whole: object, last: object, done: object, staged: object, *others: object
) -> PartitionCheck:
    lost, dead, refused, letters, length = map(records.recorded, others, ("lost", "dead", "refused", "letters", "length"))
    return PartitionCheck(
        owner=None if epoch is None else records.owner([uid, epoch, paused == "1"]),
        whole=whole is True,
        backlog=read((last, done, staged), length),
        lost=lost,
        dead=dead,
        letters=letters,
        refused=refused,
    )
