"""Backlogs of partitions, their offsets, and the operator's checks of them. Reading them needs no ownership of the partitions."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from re import fullmatch
from typing import Any, NamedTuple

from baton.model.ranges import format_numbers
from baton.model.wording import counted
from baton.queues.offsets import PartitionOffsets
from baton.queues.protocol import Ownership
from baton.queues.redis import records
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.records import OddAnswerError

FIELDS = ("last", "done", "staged")
"""Fields of a partition's progress that, with the length of its stream, give its backlog."""
SHOWN_FOR = 24 * 3600.0
"""Seconds for which the condition shows vanished entries, counted from their discovery or from a start of the operator."""
_CAUSES = "by XTRIM, XDEL or DEL, by eviction at maxmemory, or because a backup was restored in part"

log = logging.getLogger(__name__)


class PartitionBacklog(NamedTuple):
    """The numbers of unfinished and finished entries of a partition."""

    lag: int
    """Unfinished entries."""
    finished: int
    """Entries finished since the partition was created."""
    gone: bool
    """Whether entries seem to have vanished unfinished. The values come from two commands, so an entry that was added between
    them has the same effect."""


def read(found: Sequence[object], length: int) -> PartitionBacklog:
    """Parse the values of FIELDS, for a stream of this length (finished entries are removed from it). Raises ForeignRecord."""
    last, done, staged = map(records.recorded, found, FIELDS)
    return PartitionBacklog(max(0, min(last - done, length)) + staged, done - staged, last - done > length)


def unfinished(client: Any, partitions: Iterable[PartitionKeys]) -> int:
    """Return the number of unfinished entries of these partitions. Raises ForeignRecord."""
    with client.pipeline(transaction=False) as pipe:
        for keys in partitions:
            pipe.hmget(keys.progress, *FIELDS)
            pipe.xlen(keys.stream)
        answers = pipe.execute()
    return sum(read(fields, length).lag for fields, length in zip(answers[::2], answers[1::2], strict=True))


class VanishedEntries:
    """Reports entries of one queue (namespace/name) that vanished unfinished: once in the log, and for a day in `Durable`."""

    def __init__(self, place: str, queue: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place, self._queue, self._clock = place, queue, clock
        self._totals: Mapping[int, int] = {}
        self._grew_at: dict[int, float] = {}

    def warnings(self, totals: Mapping[int, int]) -> Iterator[str]:
        """Record how many entries each partition has lost since it was created; yield the sentence for the condition, if any."""
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
    """The state of one partition at a check."""

    owner: Ownership | None
    """None: never granted."""
    whole: bool
    """Whether all of its required keys exist."""
    backlog: PartitionBacklog
    lost: int
    """Entries counted as vanished unfinished; see also `PartitionBacklog.gone`."""
    dead: int
    """Entries moved to dead letters since the partition was created."""
    letters: int
    """Current dead letters."""
    refused: int
    """How often a stale owner was rejected."""


def read_checks(answer: bytes | None) -> list[PartitionCheck]:
    """Parse the partitions in an answer of the script `check`. Raises OddAnswerError and ForeignRecord."""
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


class WaitingEntries(NamedTuple):
    """The unfinished entries of a partition."""

    age: float | None
    """Seconds since the oldest unfinished entry was sent. None: there is no entry to read."""
    vanished: int
    """Entries that vanished unfinished and were not counted before."""
    oldest: str
    """The oldest unfinished entry that was handed out; empty: none."""
    times: int
    """How often the oldest entry was handed out."""


def read_waiting(raw: object) -> WaitingEntries:
    """Parse an answer of the script `offsets`. Raises OddAnswerError and ForeignRecord."""
    if raw == []:
        return WaitingEntries(None, 0, "", 0)
    *_, age, vanished, oldest, times = records.scalars(8)(raw)
    return WaitingEntries(
        None if age == b"" else records.recorded(age, "offsets") / 1000,
        records.recorded(vanished, "offsets"),
        "{}-{}".format(*read_entry(oldest)) if oldest else "",
        records.recorded(times, "offsets"),
    )


def read_offsets(raw: object) -> PartitionOffsets | None:
    """As `read_waiting`. None: the partition does not exist."""
    if raw == []:
        return None
    first, end, lag, pending = (records.recorded(one, "offsets") for one in records.scalars(8)(raw)[:4])
    return PartitionOffsets(first, first, end, max(0, lag), pending)


def read_entry(raw: bytes | int | None) -> tuple[int, int]:
    """Parse an entry's id into its two numbers. Raises OddAnswerError."""
    found = fullmatch(rb"([0-9]{1,20})-([0-9]{1,20})", raw) if isinstance(raw, bytes) else None
    if found is None:
        raise OddAnswerError("no entry where one belongs")
    return int(found[1]), int(found[2])
